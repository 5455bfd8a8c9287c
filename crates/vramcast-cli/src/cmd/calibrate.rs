//! `vramcast calibrate`: measure what no formula knows of this machine's card, and keep it for
//! predictions.

use crate::args::{Calibrate, Device, Target};
use crate::suite::Entry;
use crate::trial::Trials;
use crate::{Exit, calibration, nvml, output, python};
use anyhow::{Context as _, Result, bail};
use serde_json::json;
use std::path::{Path, PathBuf};
use vramcast::bytes::Bytes;
use vramcast::calibration::{Calibration, Run, SCHEMA, context as context_of};
use vramcast::context::context;
use vramcast::gpu::{self, Gpu};
use vramcast::record::RunOutcome;
use vramcast::shadow::torch::{BUILDS, Build};
use vramcast::workload::{Mode, Precision, Runtime, Task, Workload};
use vramcast_candle::HAS_CUDA;

/// Its kernels are those of most models: narrower ones would load fewer.
const MODEL: &str = "bert-base-uncased";

/// Heads, batches and sequences: the runs of a kind differ in what may change which kernels are
/// loaded, so that their spread says what that changes.
const SHAPES: [(Task, u64, u64); 3] = [
    (Task::SequenceClassification, 4, 128),
    (Task::MaskedLm, 2, 64),
    (Task::SequenceClassification, 8, 48),
];

/// Modes, and precisions that every card computes: in single precision, and in half.
const KINDS: [(Mode, Precision); 4] = [
    (Mode::Train, Precision::Fp32),
    (Mode::Train, Precision::AmpFp16),
    (Mode::Infer, Precision::Fp32),
    (Mode::Infer, Precision::Fp16),
];

/// What came of one runtime.
struct Kept {
    calibration: Calibration,
    file: PathBuf,
}

pub(crate) fn run(args: &Calibrate) -> Result<Exit> {
    let ordinal = match args.device {
        Device::Auto => 0,
        Device::Cuda(ordinal) => ordinal,
        Device::Cpu => bail!("a CPU has no context: calibrate measures a GPU"),
    };
    let card = nvml::card(ordinal).context("calibrate measures a GPU")?;
    let gpu = fit_to_measure(&card)?;
    let python = python::named(args.python.as_deref());
    let runtimes = [Runtime::Torch, Runtime::Candle];
    let (mut kept, mut left_out) = (Vec::new(), Vec::new());
    for runtime in runtimes {
        match build(runtime, python).and_then(|build| {
            let calibration = measure(runtime, build, gpu, &card, ordinal, python)?;
            let file = calibration::keep(&calibration)?;
            Ok(Kept { calibration, file })
        }) {
            Ok(one) => kept.push(one),
            Err(error) => left_out.push(format!("{}: {error:#}", runtime.product())),
        }
    }
    if kept.is_empty() {
        bail!("nothing was calibrated: {}", left_out.join("; "));
    }
    if args.json {
        output::print_json(&answer(gpu, &kept, &left_out))?;
    } else {
        output::print_text(&text(gpu, &card, &kept))?;
        for one in &kept {
            output::remark(&format!("calibration: {}", one.file.display()));
        }
        for why in &left_out {
            output::remark(&format!("not calibrated: {why}"));
        }
    }
    Ok(Exit::Fine)
}

/// Refuses a card whose figures would not be those of the probes, or that no question could name.
fn fit_to_measure(card: &nvml::Card) -> Result<&'static Gpu> {
    if card.mig {
        bail!(
            "card {} is cut into instances (MIG), and NVML shows the whole card: its instances cannot \
             be calibrated",
            card.index
        );
    }
    if !card.tenants.is_empty() {
        bail!(
            "{} other process(es) on card {} hold {}, and what they do meanwhile would be measured, \
             too: end them, or name another card with --device",
            card.tenants.len(),
            card.index,
            card.used
        );
    }
    gpu::find(&card.name).with_context(|| {
        format!(
            "{} is not in the table of cards, so no question can name it: use --capacity",
            card.name
        )
    })
}

/// The build of a runtime that is installed, if predictions know it.
fn build(runtime: Runtime, python: &Path) -> Result<&'static Build> {
    match runtime {
        Runtime::Candle if !HAS_CUDA => {
            bail!("this program is built without CUDA (build with `--features cuda`)")
        }
        // candle has one version, and no build of PyTorch matters.
        Runtime::Candle => Ok(&BUILDS[0]),
        Runtime::Torch => {
            let found = python::packages(python)?.torch.with_context(|| {
                format!(
                    "{} has no torch; name another Python with --python",
                    python.display()
                )
            })?;
            Build::exactly(&found).with_context(|| {
                format!("torch {found} is not predicted; known: {}", Build::known())
            })
        }
    }
}

/// Runs the probes of one runtime.
fn measure(
    runtime: Runtime,
    build: &'static Build,
    gpu: &'static Gpu,
    card: &nvml::Card,
    ordinal: usize,
    python: &Path,
) -> Result<Calibration> {
    let target = Target {
        gpu: Some(gpu.name.to_owned()),
        capacity: None,
        allocator_limit: None,
        torch: build,
    };
    let mut trials = Trials::new(&target, Device::Cuda(ordinal), Some(python), None);
    let jobs = jobs(runtime);
    let bar = output::bar(jobs.len());
    let (mut runs, mut version) = (Vec::new(), None);
    for workload in jobs {
        bar.set_message(format!("{} {}", runtime.product(), workload.describe()));
        let trial = trials.plan(Entry {
            model: MODEL.to_owned(),
            workload,
            allocator_limit: None,
        })?;
        let record = trials.measure(&trial)?.record;
        if record.outcome != RunOutcome::Ok {
            bail!(
                "a probe ended badly ({}): {}",
                record.outcome,
                record.error.as_deref().unwrap_or_default()
            );
        }
        if context_of(&record).is_none() {
            bail!("NVML's figures do not show what the probe took");
        }
        version.get_or_insert_with(|| record.runtime_version.clone());
        runs.push(Run {
            loaded: trial.loaded,
            record,
        });
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(Calibration {
        schema: SCHEMA,
        gpu: gpu.name.to_owned(),
        driver: card.driver.clone(),
        runtime,
        runtime_version: version.unwrap_or_default(),
        date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        runs,
    })
}

fn jobs(runtime: Runtime) -> Vec<Workload> {
    KINDS
        .iter()
        .flat_map(|&(mode, precision)| {
            SHAPES.map(|(task, batch, seq)| Workload {
                precision,
                attention: runtime.attention(),
                ..Workload::new(runtime, task, mode, batch, seq)
            })
        })
        .collect()
}

/// What was found: first what a process can have of the card.
fn text(gpu: &Gpu, card: &nvml::Card, kept: &[Kept]) -> String {
    let usable = kept.iter().filter_map(|one| one.calibration.usable()).min();
    let usable = usable.map_or_else(String::new, |usable| format!(", {usable} for a process"));
    let mut rows = Vec::new();
    for Kept { calibration, .. } in kept {
        for loaded in calibration.kinds() {
            let Some(found) = calibration.context(loaded) else {
                continue;
            };
            let known = context(Some(gpu), loaded);
            rows.push(vec![
                loaded.to_string(),
                calibration.cited(loaded).runs.to_string(),
                found.low.to_string(),
                found.bytes.to_string(),
                found.high.to_string(),
                between(known.low, known.high),
            ]);
        }
    }
    let header = [
        "context",
        "runs",
        "lowest",
        "middle",
        "highest",
        "without this",
    ];
    format!(
        "calibrated {} on {}: driver {}{usable}\n\n{}\n",
        gpu.name,
        card.name,
        card.driver,
        output::table(&header, 1.., rows)
    )
}

fn between(low: Bytes, high: Bytes) -> String {
    if low == high {
        low.to_string()
    } else {
        format!("{low} to {high}")
    }
}

/// What `--json` prints.
fn answer(gpu: &Gpu, kept: &[Kept], left_out: &[String]) -> serde_json::Value {
    let calibrations = kept.iter().map(|Kept { calibration, file }| {
        let contexts = calibration.kinds().into_iter().filter_map(|loaded| {
            let found = calibration.context(loaded)?;
            Some(json!({
                "loaded": loaded,
                "runs": calibration.cited(loaded).runs,
                "low": found.low,
                "bytes": found.bytes,
                "high": found.high,
            }))
        });
        json!({
            "file": file,
            "runtime": calibration.runtime,
            "runtime_version": calibration.runtime_version,
            "driver": calibration.driver,
            "date": calibration.date,
            "usable": calibration.usable(),
            "contexts": contexts.collect::<Vec<_>>(),
        })
    });
    json!({
        "schema": SCHEMA,
        "gpu": gpu.name,
        "calibrations": calibrations.collect::<Vec<_>>(),
        "not_calibrated": left_out,
    })
}
