//! Calibrations in the user's data folder: a JSON file for each card, driver, runtime and version of
//! it. They are read once, by the first question about a card.

use crate::{nvml, output, records};
use anyhow::{Context, Result, anyhow};
use etcetera::BaseStrategy;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use vramcast::calibration::{Calibration, SCHEMA};
use vramcast::gpu::{self, Gpu};
use vramcast::shadow::torch::Build;
use vramcast::workload::Runtime;

/// A calibration, and where it is.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) file: PathBuf,
    pub(crate) calibration: Calibration,
}

/// Where they are kept.
///
/// # Errors
/// A user without a home.
pub(crate) fn folder() -> Result<PathBuf> {
    let base =
        etcetera::choose_base_strategy().context("there is no folder for the user's data")?;
    Ok(base.data_dir().join("vramcast").join("calibration"))
}

/// All of them, by file name.
///
/// # Errors
/// A file that is no calibration of this schema.
pub(crate) fn all() -> Result<&'static [Kept]> {
    static KEPT: OnceLock<Vec<Kept>> = OnceLock::new();
    if let Some(kept) = KEPT.get() {
        return Ok(kept);
    }
    // Who has no home has kept nothing.
    let read = folder().map_or_else(|_| Ok(Vec::new()), |folder| read(&folder))?;
    Ok(KEPT.get_or_init(|| read))
}

/// Keeps a calibration instead of an earlier one of the same card, driver, runtime and version.
///
/// # Errors
/// A folder that cannot be written.
pub(crate) fn keep(calibration: &Calibration) -> Result<PathBuf> {
    let Calibration {
        gpu,
        driver,
        runtime,
        runtime_version,
        ..
    } = calibration;
    let name = format!("{gpu}-{driver}-{runtime}-{runtime_version}.json");
    // Versions have no separators, but they are another program's words.
    let file = folder()?.join(name.replace(['/', '\\'], "_"));
    let mut text = serde_json::to_vec_pretty(calibration)?;
    text.push(b'\n');
    records::write_file(&file, &text)?;
    Ok(file)
}

/// What was measured of a card with a runtime: on the driver that this machine has now if it has the
/// card, else the latest.
///
/// # Errors
/// A file that is no calibration of this schema.
pub(crate) fn of(
    gpu: Option<&Gpu>,
    runtime: Runtime,
    build: &Build,
) -> Result<Option<&'static Calibration>> {
    let Some(gpu) = gpu else {
        return Ok(None);
    };
    let version = version(runtime, build);
    let all = all()?.iter().map(|kept| &kept.calibration);
    let fitting: Vec<&Calibration> = all
        .filter(|c| c.gpu == gpu.name && c.runtime == runtime && c.runtime_version == version)
        .collect();
    // NVML takes a while to start: only who has something to choose asks it.
    let driver = (!fitting.is_empty()).then(|| driver_of(gpu)).flatten();
    let chosen = choose(&fitting, driver.as_deref());
    if let (Some(chosen), Some(driver)) = (chosen, driver)
        && chosen.driver != driver
    {
        output::remark(&format!(
            "warning: {} was measured with driver {}, and {driver} is installed now: run `vramcast \
             calibrate`",
            gpu.name, chosen.driver
        ));
    }
    Ok(chosen)
}

/// The version of a runtime that is predicted.
fn version(runtime: Runtime, build: &Build) -> &'static str {
    match runtime {
        Runtime::Candle => vramcast::candle::VERSION,
        Runtime::Torch => build.version,
    }
}

/// The driver of this machine, if it has the card.
fn driver_of(gpu: &Gpu) -> Option<String> {
    let cards = nvml::cards().ok()?;
    let here = cards
        .into_iter()
        .find(|card| gpu::find(&card.name).is_some_and(|known| known.name == gpu.name))?;
    Some(here.driver)
}

fn choose<'a>(fitting: &[&'a Calibration], driver: Option<&str>) -> Option<&'a Calibration> {
    let same = |c: &&&Calibration| Some(c.driver.as_str()) == driver;
    let latest = || fitting.iter().max_by_key(|c| &c.date);
    fitting.iter().find(same).or_else(latest).copied()
}

fn read(folder: &Path) -> Result<Vec<Kept>> {
    let cannot = || format!("{}: cannot be read", folder.display());
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(cannot)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.with_context(cannot)?.path();
        if file.extension().is_some_and(|end| end == "json") {
            files.push(file);
        }
    }
    files.sort();
    files.into_iter().map(read_file).collect()
}

fn read_file(file: PathBuf) -> Result<Kept> {
    let refused = |why: String| {
        anyhow!(
            "{}: not a calibration of schema {SCHEMA}: {why}; delete it, and `vramcast calibrate` \
             measures anew",
            file.display()
        )
    };
    let text = std::fs::read(&file).map_err(|error| refused(error.to_string()))?;
    let calibration: Calibration =
        serde_json::from_slice(&text).map_err(|error| refused(error.to_string()))?;
    if calibration.schema != SCHEMA {
        return Err(refused(format!("it says {}", calibration.schema)));
    }
    Ok(Kept { file, calibration })
}

/// What is installed now, as far as it is known.
#[derive(Debug, Default)]
pub(crate) struct Installed {
    /// Cards by their short names, with their drivers.
    pub(crate) drivers: Vec<(&'static str, String)>,
    /// PyTorch in the Python that was looked at.
    pub(crate) torch: Option<String>,
}

impl Installed {
    /// Why a calibration is not of what is installed; nothing where it is, or where it cannot be told.
    pub(crate) fn other_than(&self, calibration: &Calibration) -> Vec<String> {
        let here = self.drivers.iter().find(|(gpu, _)| *gpu == calibration.gpu);
        let driver = here
            .filter(|(_, driver)| *driver != calibration.driver)
            .map(|(_, driver)| format!("driver {driver} is installed now"));
        let (name, version) = match calibration.runtime {
            Runtime::Candle => ("candle", Some(vramcast::candle::VERSION)),
            Runtime::Torch => ("torch", self.torch.as_deref()),
        };
        let version = version
            .filter(|version| *version != calibration.runtime_version)
            .map(|version| format!("{name} {version} is installed now"));
        driver.into_iter().chain(version).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_h200(driver: &str, version: &str, date: &str) -> Calibration {
        Calibration {
            schema: SCHEMA,
            gpu: "h200".to_owned(),
            driver: driver.to_owned(),
            runtime: Runtime::Torch,
            runtime_version: version.to_owned(),
            date: date.to_owned(),
            runs: Vec::new(),
        }
    }

    #[test]
    fn the_driver_that_is_installed_comes_before_the_latest_day() {
        let old = of_h200("570.1", "2.11.0+cu130", "2026-01-31");
        let new = of_h200("580.2", "2.11.0+cu130", "2026-11-30");
        let both = [&old, &new];
        assert_eq!(choose(&both, Some("570.1")), Some(&old));
        assert_eq!(choose(&both, Some("590.3")), Some(&new));
        assert_eq!(choose(&both, None), Some(&new));
        assert_eq!(choose(&[], None), None);
    }

    #[test]
    fn what_differs_from_what_is_installed_is_stale() {
        let check = |drivers: &[(&'static str, &str)], torch: Option<&str>, expected: &[&str]| {
            let drivers = drivers.iter().map(|(gpu, d)| (*gpu, (*d).to_owned()));
            let installed = Installed {
                drivers: drivers.collect(),
                torch: torch.map(str::to_owned),
            };
            let calibration = of_h200("580.2", "2.11.0+cu130", "2026-11-30");
            assert_eq!(installed.other_than(&calibration), expected);
        };
        check(&[("h200", "580.2")], Some("2.11.0+cu130"), &[]);
        check(
            &[("h200", "590.3")],
            None,
            &["driver 590.3 is installed now"],
        );
        check(&[("t4", "590.3")], None, &[]);
        check(
            &[("h200", "590.3")],
            Some("2.10.0+cu130"),
            &[
                "driver 590.3 is installed now",
                "torch 2.10.0+cu130 is installed now",
            ],
        );
    }
}
