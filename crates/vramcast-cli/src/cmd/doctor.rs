//! `vramcast doctor`: what this machine can do, what was measured of it, and what to run.

use crate::args::Doctor;
use crate::calibration::{self, Installed, Kept};
use crate::nvml::Card;
use crate::python::{self, Packages};
use crate::{Exit, nvml, output};
use anyhow::Result;
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;
use vramcast::gpu;
use vramcast::shadow::torch::Build;
use vramcast::workload::Runtime;
use vramcast_candle::HAS_CUDA;

/// What was found.
struct Found<'a> {
    cards: Result<Vec<Card>>,
    python: &'a Path,
    packages: Result<Packages>,
    kept: Result<&'static [Kept]>,
    installed: Installed,
}

pub(crate) fn run(args: &Doctor) -> Result<Exit> {
    let python = python::named(args.python.as_deref());
    let (cards, packages) = (nvml::cards(), python::packages(python));
    let known = cards.iter().flatten().filter_map(|card| {
        let known = gpu::find(&card.name)?;
        Some((known.name, card.driver.clone()))
    });
    let installed = Installed {
        drivers: known.collect(),
        torch: packages.as_ref().ok().and_then(|p| p.torch.clone()),
    };
    let found = Found {
        cards,
        python,
        packages,
        kept: calibration::all(),
        installed,
    };
    if args.json {
        output::print_json(&found.answer()?)?;
    } else {
        output::print(&found.text()?)?;
    }
    Ok(Exit::Fine)
}

impl Found<'_> {
    /// The calibrations that can be read.
    fn kept(&self) -> &'static [Kept] {
        self.kept.as_ref().map_or(&[], |kept| kept)
    }

    fn answer(&self) -> Result<serde_json::Value> {
        let calibrations = self.kept().iter().map(|Kept { file, calibration }| {
            json!({
                "file": file,
                "gpu": calibration.gpu,
                "driver": calibration.driver,
                "runtime": calibration.runtime,
                "runtime_version": calibration.runtime_version,
                "date": calibration.date,
                "runs": calibration.runs.len(),
                "stale": self.installed.other_than(calibration),
            })
        });
        Ok(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "candle": vramcast::candle::VERSION,
            "cuda_build": HAS_CUDA,
            "cards": self.cards.as_ref().ok(),
            "nvml_error": self.cards.as_ref().err().map(|e| e.to_string()),
            "python": self.python,
            "packages": self.packages.as_ref().ok(),
            "python_error": self.packages.as_ref().err().map(|e| format!("{e:#}")),
            "calibration_folder": calibration::folder()?,
            "calibrations": calibrations.collect::<Vec<_>>(),
            "calibration_error": self.kept.as_ref().err().map(|e| format!("{e:#}")),
            "to_run": self.to_run(),
        }))
    }

    fn text(&self) -> Result<String> {
        let build = if HAS_CUDA {
            "with CUDA"
        } else {
            "without CUDA (build with --features cuda)"
        };
        let mut text = format!(
            "vramcast {} for candle {}, built {build}\n",
            env!("CARGO_PKG_VERSION"),
            vramcast::candle::VERSION
        );
        text += &self.about_cards();
        text += &self.about_python();
        text += &self.about_calibrations()?;
        for command in self.to_run() {
            let _ = writeln!(text, "to run: {command}");
        }
        Ok(text)
    }

    fn about_cards(&self) -> String {
        let cards = match &self.cards {
            Err(error) => return format!("{error}: predictions work, probes run on the CPU\n"),
            Ok(cards) => cards,
        };
        let mut text = String::new();
        for card in cards {
            let known = match gpu::find(&card.name) {
                Some(known) => format!("known as {}", known.name),
                None => "not in the table of cards: use --capacity".to_owned(),
            };
            let _ = writeln!(
                text,
                "card {}: {}, driver {}, {} in all, {} used, {} kept by the driver; {known}",
                card.index, card.name, card.driver, card.total, card.used, card.reserved
            );
            if !card.tenants.is_empty() {
                let _ = writeln!(text, "  {} other process(es) on it", card.tenants.len());
            }
            if card.mig {
                text += "  cut into instances (MIG): NVML shows the whole card\n";
            }
        }
        text
    }

    fn about_python(&self) -> String {
        let packages = match &self.packages {
            Err(error) => return format!("{error:#}: name a Python with --python\n"),
            Ok(packages) => packages,
        };
        let said = |name, version: &Option<String>| match version {
            Some(version) => format!("{name} {version}"),
            None => format!("no {name}"),
        };
        let predicted = match &packages.torch {
            Some(torch) if Build::exactly(torch).is_none() => {
                "; this build of torch is not predicted"
            }
            _ => "",
        };
        format!(
            "{}: {}, {}{predicted}\n",
            self.python.display(),
            said("torch", &packages.torch),
            said("transformers", &packages.transformers)
        )
    }

    fn about_calibrations(&self) -> Result<String> {
        let folder = calibration::folder()?;
        if let Err(error) = &self.kept {
            return Ok(format!(
                "no prediction that names a card works: {error:#}\n"
            ));
        }
        if self.kept().is_empty() {
            return Ok(format!("no calibrations in {}\n", folder.display()));
        }
        let mut text = format!("calibrations in {}\n", folder.display());
        for Kept { calibration, .. } in self.kept() {
            let stale = self.installed.other_than(calibration);
            let stale = match stale.is_empty() {
                true => String::new(),
                false => format!("; stale: {}", stale.join(", ")),
            };
            let _ = writeln!(
                text,
                "  {}, {} {}, driver {}: {} runs on {}{stale}",
                calibration.gpu,
                calibration.runtime.product(),
                calibration.runtime_version,
                calibration.driver,
                calibration.runs.len(),
                calibration.date
            );
        }
        Ok(text)
    }

    /// The commands that would measure what is here and was not.
    fn to_run(&self) -> Vec<String> {
        let torch = self
            .installed
            .torch
            .as_ref()
            .filter(|torch| Build::exactly(torch).is_some());
        let runtimes = [
            torch.map(|torch| (Runtime::Torch, torch.as_str())),
            HAS_CUDA.then_some((Runtime::Candle, vramcast::candle::VERSION)),
        ];
        let measured = |gpu: &str, driver: &str, (runtime, version): (Runtime, &str)| {
            self.kept().iter().any(|Kept { calibration: c, .. }| {
                (c.gpu.as_str(), c.driver.as_str()) == (gpu, driver)
                    && (c.runtime, c.runtime_version.as_str()) == (runtime, version)
            })
        };
        let cards = self.cards.iter().flatten().enumerate();
        let missing = cards.filter(|(_, card)| {
            gpu::find(&card.name).is_some_and(|known| {
                let missing = |of| !measured(known.name, &card.driver, of);
                !card.mig && runtimes.iter().flatten().copied().any(missing)
            })
        });
        let python = match self.python == python::named(None) {
            true => String::new(),
            false => format!(" --python {}", self.python.display()),
        };
        missing
            .map(|(ordinal, _)| match ordinal {
                0 => format!("vramcast calibrate{python}"),
                _ => format!("vramcast calibrate{python} --device cuda:{ordinal}"),
            })
            .collect()
    }
}
