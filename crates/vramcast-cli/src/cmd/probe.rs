//! `vramcast probe`: predict, run, measure, compare, draw.

use crate::args::{Device, Probe};
use crate::child::{self, Ended};
use crate::cmd::predict::card;
use crate::suite::Entry;
use crate::{Exit, charts, model, nvml, output, records, suite};
use anyhow::{Context, Result, bail};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::SystemTime;
use vramcast::compare::{Entry as LedgerEntry, ledger};
use vramcast::config::{ModelConfig, quoted};
use vramcast::gpu::{self, Gpu};
use vramcast::predict::{Prediction, Question, predict_with_timeline, steps};
use vramcast::record::{Measured, Record, RunOutcome, SCHEMA};
use vramcast::shadow::candle::Flavour;
use vramcast::timeline::Timeline;
use vramcast::workload::Runtime;
use vramcast_candle::{HAS_CUDA, Job};

/// Where the probes of this run happen.
struct Place {
    cuda: Option<usize>,
    card: Option<nvml::Card>,
    known: Option<&'static Gpu>,
}

/// A workload that makes sense, with its prediction: what is left is to run it.
struct Plan {
    entry: Entry,
    config: ModelConfig,
    prediction: Prediction,
    timeline: Timeline,
}

pub(crate) fn run(args: &Probe) -> Result<Exit> {
    let place = place(args.device, card(&args.target)?)?;
    match &args.suite {
        Some(file) => {
            // A suite takes long: what is wrong with it is said before it begins.
            let plans: Result<Vec<Plan>> = suite::read(file)?
                .into_iter()
                .map(|entry| plan(args, &place, entry).with_context(|| file.display().to_string()))
                .collect();
            let plans = plans?;
            records::prepare(&args.out)?;
            run_suite(args, &place, &plans)
        }
        None => {
            let model = args.model.clone().unwrap_or_default();
            let runtime = match args.python {
                Some(_) => Runtime::Torch,
                None => Runtime::Candle,
            };
            let plan = plan(
                args,
                &place,
                Entry {
                    model,
                    workload: args.workload.workload(runtime),
                },
            )?;
            records::prepare(&args.out)?;
            run_one(args, &place, &plan)
        }
    }
}

fn plan(args: &Probe, place: &Place, entry: Entry) -> Result<Plan> {
    let config = model::model(&entry.model)?;
    let answer = predict_with_timeline(&Question {
        flavour: if place.cuda.is_some() {
            Flavour::Cuda
        } else {
            Flavour::Cpu
        },
        gpu: place.known,
        capacity: args.target.capacity,
        ..Question::new(&entry.model, &config, &entry.workload)
    });
    let (prediction, timeline) = answer.with_context(|| quoted(&entry.model))?;
    Ok(Plan {
        entry,
        config,
        prediction,
        timeline,
    })
}

fn place(device: Device, asked: Option<&'static Gpu>) -> Result<Place> {
    let cuda = match device {
        Device::Cpu => None,
        Device::Auto => (HAS_CUDA && nvml::card(0).is_ok()).then_some(0),
        Device::Cuda(_) if !HAS_CUDA => {
            bail!("this build has no CUDA: build with `--features cuda`, or use --device cpu")
        }
        Device::Cuda(ordinal) => Some(ordinal),
    };
    let card = cuda.map(nvml::card).transpose()?;
    if let Some(card) = &card {
        if card.mig {
            output::remark(
                "warning: the card is cut into instances (MIG); NVML shows the whole card",
            );
        }
        if !card.tenants.is_empty() {
            output::remark(&format!(
                "warning: {} other process(es) on the card hold {}; NVML's figures include what they \
                 do meanwhile",
                card.tenants.len(),
                card.used
            ));
        }
    }
    let known = asked.or_else(|| card.as_ref().and_then(|card| gpu::find(&card.name)));
    Ok(Place { cuda, card, known })
}

fn run_one(args: &Probe, place: &Place, plan: &Plan) -> Result<Exit> {
    let progress = output::spinner(format!(
        "running {} on {}",
        plan.entry.model,
        device_name(place)
    ));
    let measured = measure(place, plan);
    progress.finish_and_clear();
    let (record, prediction) = (measured?, &plan.prediction);
    let file = args.out.join("record.jsonl");
    records::append(&file, &record)?;
    let entries = entries(prediction, &record);
    let drawn = [
        charts::timeline(prediction, &plan.timeline),
        charts::components(&record.model, &record.workload, &entries),
    ];
    let drawn = charts::write(&args.out, &drawn, args.png)?;
    if args.json {
        output::print_json(&answer(prediction, &record, &file))?;
    } else {
        output::print(&text(prediction, &record, &entries))?;
        output::remark(&format!("record: {}", file.display()));
        for file in drawn {
            output::remark(&format!("chart: {}", file.display()));
        }
    }
    match record.outcome {
        RunOutcome::Ok => Ok(Exit::Fine),
        RunOutcome::Oom => Ok(Exit::DoesNotFit),
        RunOutcome::Failed => bail!("the probe failed: {}", record.error.unwrap_or_default()),
    }
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

fn run_suite(args: &Probe, place: &Place, plans: &[Plan]) -> Result<Exit> {
    let file = args.out.join("records.jsonl");
    let bar = output::bar(plans.len());
    let mut failed = 0;
    for plan in plans {
        let what = format!("{} {}", plan.entry.model, plan.entry.workload.describe());
        bar.set_message(what.clone());
        let record = measure(place, plan)?;
        let line = match (record.outcome, off(&plan.prediction, &record)) {
            (RunOutcome::Ok, Some(0)) => "exact".to_owned(),
            (RunOutcome::Ok, Some(off)) => format!("off by {off} B"),
            (outcome, _) => {
                failed += usize::from(outcome == RunOutcome::Failed);
                format!("{outcome}: {}", record.error.as_deref().unwrap_or_default())
            }
        };
        // After every run: a suite that is stopped has lost nothing.
        records::append(&file, &record)?;
        bar.suspend(|| output::remark(&format!("{what}: {line}")));
        if args.json {
            output::print(&answer(&plan.prediction, &record, &file).to_string())?;
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    output::remark(&format!("records: {}", file.display()));
    if failed > 0 {
        bail!("{failed} of {} probes failed", plans.len());
    }
    Ok(Exit::Fine)
}

fn measure(place: &Place, plan: &Plan) -> Result<Record> {
    let job = Job {
        config: plan.config.clone(),
        workload: plan.entry.workload.clone(),
        cuda: place.cuda,
        steps: steps(plan.entry.workload.runtime, plan.entry.workload.mode),
    };
    let ended = child::run(&job)?;
    Ok(record(place, &plan.entry, ended))
}

fn device_name(place: &Place) -> String {
    place
        .cuda
        .map_or_else(|| "cpu".to_owned(), |ordinal| format!("cuda:{ordinal}"))
}

fn record(place: &Place, entry: &Entry, ended: Ended) -> Record {
    let card = place.card.as_ref();
    let mut record = Record {
        schema: SCHEMA,
        id: String::new(),
        model: entry.model.clone(),
        workload: entry.workload.clone(),
        runtime_version: vramcast::candle::VERSION.to_owned(),
        transformers_version: None,
        device: device_name(place),
        cap_bytes: None,
        gpu: card.map(|card| card.name.clone()),
        capacity: card.map(|card| card.total),
        driver: card.map(|card| card.driver.clone()),
        outcome: ended.outcome,
        error: ended.error,
        measured: ended.measured,
    };
    record.id = id(&record);
    record
}

/// Twelve hexadecimal digits that no other record has: of what ran, and when.
fn id(record: &Record) -> String {
    let mut hasher = DefaultHasher::new();
    (&record.model, &record.workload, &record.device, &record.gpu).hash(&mut hasher);
    (SystemTime::now(), std::process::id()).hash(&mut hasher);
    format!("{:012x}", hasher.finish() >> 16)
}

/// Measured less predicted requested bytes.
fn off(prediction: &Prediction, record: &Record) -> Option<i128> {
    record
        .measured
        .peak_requested
        .map(|m| m.minus(prediction.peak_requested))
}

/// The ledger, beside what was measured if the run ended well.
fn entries(prediction: &Prediction, record: &Record) -> Vec<LedgerEntry> {
    ledger(prediction, measured(record), record.device != "cpu")
}

fn measured(record: &Record) -> Option<&Measured> {
    (record.outcome == RunOutcome::Ok).then_some(&record.measured)
}

fn text(prediction: &Prediction, record: &Record, entries: &[LedgerEntry]) -> String {
    let p = prediction.peak_requested;
    let headline = match (record.outcome, off(prediction, record)) {
        (RunOutcome::Ok, Some(0)) => format!("exact: {p} requested, as predicted, to the byte"),
        (RunOutcome::Ok, Some(off)) => format!("off by {off} B: {p} requested was predicted"),
        (outcome, _) => format!("{outcome}: {}", record.error.as_deref().unwrap_or_default()),
    };
    let mut text = format!(
        "{headline}\n{}, {}, on {}\n\n{}\n",
        record.model,
        record.workload.describe(),
        record.gpu.as_deref().unwrap_or(&record.device),
        output::ledger(entries),
    );
    if let Some(m) = measured(record) {
        let mut facts = Vec::new();
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
        if let Some(samples) = m.nvml_samples {
            facts.push(format!("{samples} readings of NVML"));
        }
        if !facts.is_empty() {
            text += &format!("\n{}\n", facts.join("; "));
        }
    }
    text
}
