//! `vramcast probe`: predict, run, measure, compare, draw.

use crate::args::Probe;
use crate::suite::Entry;
use crate::trial::{Probed, Trial, Trials};
use crate::{Exit, charts, output, records, suite};
use anyhow::{Context, Result, bail};
use std::path::Path;
use vramcast::bytes::Bytes;
use vramcast::compare::{Entry as LedgerEntry, ledger};
use vramcast::predict::Prediction;
use vramcast::record::{Measured, Record, RunOutcome, SCHEMA};
use vramcast::workload::Runtime;

pub(crate) fn run(args: &Probe) -> Result<Exit> {
    let traces = args.trace.then_some(args.out.as_path());
    let mut trials = Trials::new(&args.target, args.device, args.python.as_deref(), traces);
    match &args.suite {
        Some(file) => {
            // A suite takes long: what is wrong with it is said before it begins.
            let planned: Result<Vec<Trial>> = suite::read(file)?
                .into_iter()
                .map(|entry| trials.plan(entry))
                .collect();
            let planned = planned.with_context(|| file.display().to_string())?;
            records::prepare(&args.out)?;
            run_suite(args, &trials, &planned)
        }
        None => {
            let default = match args.python {
                Some(_) => Runtime::Torch,
                None => Runtime::Candle,
            };
            let trial = trials.plan(Entry {
                model: args.model.clone().unwrap_or_default(),
                workload: args.workload.workload(default),
                allocator_limit: None,
            })?;
            records::prepare(&args.out)?;
            run_one(args, &trials, &trial)
        }
    }
}

fn run_one(args: &Probe, trials: &Trials<'_>, trial: &Trial) -> Result<Exit> {
    let progress = output::spinner(format!(
        "running {} on {}",
        trial.entry.model,
        trial.device()
    ));
    let probed = trials.measure(trial);
    progress.finish_and_clear();
    let (probed, prediction) = (probed?, &trial.prediction);
    let record = &probed.record;
    let file = args.out.join("record.jsonl");
    records::append(&file, record)?;
    if record.outcome == RunOutcome::Failed {
        bail!(
            "the probe failed: {}",
            record.error.as_deref().unwrap_or_default()
        );
    }
    let entries = entries(prediction, record);
    let drawn = [
        charts::timeline(prediction, &trial.timeline),
        charts::components(&record.model, &record.workload, &entries),
    ];
    let drawn = charts::write(&args.out, &drawn, args.png)?;
    if args.json {
        output::print_json(&answer(prediction, record, &file))?;
    } else {
        let mut text = text(prediction, record, &entries);
        if let Some(trace) = &probed.trace {
            text += &format!("{trace}\n");
        }
        output::print(&text)?;
        output::remark(&format!("record: {}", file.display()));
        for file in drawn {
            output::remark(&format!("chart: {}", file.display()));
        }
    }
    Ok(match record.outcome {
        RunOutcome::Oom => Exit::DoesNotFit,
        RunOutcome::Ok | RunOutcome::Failed => Exit::Fine,
    })
}

/// What `--json` prints of a run.
fn answer(prediction: &Prediction, record: &Record, file: &Path) -> serde_json::Value {
    serde_json::json!({
        "schema": SCHEMA,
        "predicted": prediction,
        "measured": record.measured,
        "device": record.device,
        "outcome": record.outcome,
        "error": record.error,
        "record": file,
    })
}

fn run_suite(args: &Probe, trials: &Trials<'_>, planned: &[Trial]) -> Result<Exit> {
    let file = args.out.join("records.jsonl");
    let bar = output::bar(planned.len());
    let mut failed = 0;
    for trial in planned {
        let what = format!("{} {}", trial.entry.model, trial.entry.workload.describe());
        bar.set_message(what.clone());
        let Probed { record, trace } = trials.measure(trial)?;
        let mut line = match (record.outcome, off(&trial.prediction, &record)) {
            (RunOutcome::Ok, Some(0)) => "exact".to_owned(),
            (RunOutcome::Ok, Some(off)) => format!("off by {off} B"),
            (outcome, _) => {
                failed += usize::from(outcome == RunOutcome::Failed);
                format!("{outcome}: {}", record.error.as_deref().unwrap_or_default())
            }
        };
        if let Some(trace) = trace {
            line += &format!("; {trace}");
        }
        // After every run: a suite that is stopped has lost nothing.
        records::append(&file, &record)?;
        bar.suspend(|| output::remark(&format!("{what}: {line}")));
        if args.json {
            output::print(&answer(&trial.prediction, &record, &file).to_string())?;
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    output::remark(&format!("records: {}", file.display()));
    if failed > 0 {
        bail!("{failed} of {} probes failed", planned.len());
    }
    Ok(Exit::Fine)
}

/// What the runtime counts at the peak, predicted and measured: requested bytes on candle, allocated
/// ones on PyTorch.
fn counted(prediction: &Prediction, record: &Record) -> (&'static str, Bytes, Option<Bytes>) {
    let measured = &record.measured;
    match record.workload.runtime {
        Runtime::Candle => (
            "requested",
            prediction.peak_requested,
            measured.peak_requested,
        ),
        Runtime::Torch => (
            "allocated",
            prediction.peak_allocated,
            measured.peak_allocated,
        ),
    }
}

/// Measured less predicted bytes.
fn off(prediction: &Prediction, record: &Record) -> Option<i128> {
    let (_, predicted, measured) = counted(prediction, record);
    measured.map(|measured| measured.minus(predicted))
}

/// The ledger, beside what was measured if the run ended well.
pub(crate) fn entries(prediction: &Prediction, record: &Record) -> Vec<LedgerEntry> {
    ledger(prediction, measured(record), record.device != "cpu")
}

fn measured(record: &Record) -> Option<&Measured> {
    (record.outcome == RunOutcome::Ok).then_some(&record.measured)
}

fn text(prediction: &Prediction, record: &Record, entries: &[LedgerEntry]) -> String {
    let mut text = format!(
        "{}\n{}, {}, on {}\n\n{}\n",
        headline(prediction, record),
        record.model,
        record.workload.describe(),
        record.gpu.as_deref().unwrap_or(&record.device),
        output::ledger(entries),
    );
    let facts = facts(prediction, record);
    if !facts.is_empty() {
        text += &format!("\n{}\n", facts.join("; "));
    }
    text
}

/// How exact the prediction of a run was, or how the run ended, in one line.
pub(crate) fn headline(prediction: &Prediction, record: &Record) -> String {
    let (what, p, _) = counted(prediction, record);
    match (record.outcome, off(prediction, record)) {
        (RunOutcome::Ok, Some(0)) if record.measured.steps_left_out.is_some() => {
            format!("exact in the peak, though steps were left out: {p} {what}")
        }
        (RunOutcome::Ok, Some(0)) => format!("exact: {p} {what}, as predicted, to the byte"),
        (RunOutcome::Ok, Some(off)) => format!("off by {off} B: {p} {what} was predicted"),
        (outcome, _) => format!("{outcome}: {}", record.error.as_deref().unwrap_or_default()),
    }
}

/// What a run counted beside its peaks.
pub(crate) fn facts(prediction: &Prediction, record: &Record) -> Vec<String> {
    let mut facts = Vec::new();
    let Some(m) = measured(record) else {
        return facts;
    };
    if let Some(allocations) = m.allocations {
        facts.push(format!(
            "{allocations} allocations, {} predicted",
            prediction.allocations
        ));
    }
    if let Some((reached, all)) = m.n_tensors_with_gradient.zip(m.n_tensors) {
        facts.push(format!(
            "{reached} of {all} parameter tensors received a gradient"
        ));
    }
    if let Some(steps) = m.steps_left_out {
        facts.push(format!(
            "{steps} steps of the optimizer were left out, since scaled gradients were not \
             finite: a prediction is for steps that are taken"
        ));
    }
    if let Some(samples) = m.nvml_samples {
        facts.push(format!("{samples} readings of NVML"));
    }
    facts
}
