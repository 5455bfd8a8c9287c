//! `vramcast probe`: predict, run, measure, compare, draw.

use crate::args::{Device, Probe};
use crate::child::{self, Ended};
use crate::suite::Entry;
use crate::{Exit, charts, model, nvml, output, records, suite};
use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::Path;
use std::time::SystemTime;
use vramcast::bytes::Bytes;
use vramcast::compare::{Entry as LedgerEntry, ledger};
use vramcast::config::{ModelConfig, quoted};
use vramcast::gpu::{self, Gpu};
use vramcast::predict::{Prediction, Question, predict_with_timeline, steps};
use vramcast::record::{Measured, Record, RunOutcome, SCHEMA};
use vramcast::shadow::MOST_PASSES;
use vramcast::shadow::candle::Flavour;
use vramcast::shadow::torch;
use vramcast::timeline::Timeline;
use vramcast::workload::Runtime;
use vramcast_candle::HAS_CUDA;

/// Where the probes of one runtime happen.
#[derive(Clone)]
struct Place {
    cuda: Option<usize>,
    card: Option<nvml::Card>,
    known: Option<&'static Gpu>,
}

/// A workload that makes sense, with its prediction: what is left is to run it.
struct Plan {
    place: Place,
    entry: Entry,
    config: ModelConfig,
    prediction: Prediction,
    timeline: Timeline,
}

pub(crate) fn run(args: &Probe) -> Result<Exit> {
    let asked = args.target.card()?;
    match &args.suite {
        Some(file) => {
            let entries = suite::read(file)?;
            let mut places = Vec::new();
            // A suite takes long: what is wrong with it is said before it begins.
            let plans: Result<Vec<Plan>> = entries
                .into_iter()
                .map(|entry| {
                    let runtime = entry.workload.runtime;
                    let known = places.iter().find(|(of, _)| *of == runtime);
                    let place = match known {
                        Some((_, place)) => Place::clone(place),
                        None => {
                            let place = place(args.device, runtime, asked)?;
                            places.push((runtime, place.clone()));
                            place
                        }
                    };
                    plan(args, place, entry).with_context(|| file.display().to_string())
                })
                .collect();
            let plans = plans?;
            records::prepare(&args.out)?;
            run_suite(args, &plans)
        }
        None => {
            let model = args.model.clone().unwrap_or_default();
            let default = match args.python {
                Some(_) => Runtime::Torch,
                None => Runtime::Candle,
            };
            let workload = args.workload.workload(default);
            let place = place(args.device, workload.runtime, asked)?;
            let entry = Entry {
                model,
                workload,
                allocator_limit: None,
            };
            let plan = plan(args, place, entry)?;
            records::prepare(&args.out)?;
            run_one(args, &plan)
        }
    }
}

fn plan(args: &Probe, place: Place, entry: Entry) -> Result<Plan> {
    let config = model::model(&entry.model)?;
    let answer = predict_with_timeline(&Question {
        flavour: if place.cuda.is_some() {
            Flavour::Cuda
        } else {
            Flavour::Cpu
        },
        gpu: place.known,
        allocator_limit: limit(args, &entry),
        ..args
            .target
            .question(&entry.model, &config, &entry.workload)?
    });
    let (prediction, timeline) = answer.with_context(|| quoted(&entry.model))?;
    Ok(Plan {
        place,
        entry,
        config,
        prediction,
        timeline,
    })
}

/// What the allocator may reserve: a suite's own limit stands instead of the command line's.
fn limit(args: &Probe, entry: &Entry) -> Option<Bytes> {
    entry.allocator_limit.or(args.target.allocator_limit)
}

fn place(device: Device, runtime: Runtime, asked: Option<&'static Gpu>) -> Result<Place> {
    let cuda = match (runtime, device) {
        (Runtime::Candle, Device::Cpu) => None,
        (Runtime::Candle, Device::Auto) => (HAS_CUDA && nvml::card(0).is_ok()).then_some(0),
        (Runtime::Candle, Device::Cuda(_)) if !HAS_CUDA => {
            bail!("this build has no CUDA: build with `--features cuda`, or use --device cpu")
        }
        (Runtime::Torch, Device::Cpu) => {
            bail!("PyTorch is probed on CUDA alone; `--runtime candle` runs on the CPU, too")
        }
        (Runtime::Torch, Device::Auto) => Some(0),
        (_, Device::Cuda(ordinal)) => Some(ordinal),
    };
    let card = match (runtime, cuda.map(nvml::card).transpose()) {
        // Whether there is a card is Python's to say, and it reads NVML itself.
        (Runtime::Torch, Err(error)) => {
            output::remark(&format!("warning: {error}; its figures may be missing"));
            None
        }
        (_, card) => card?,
    };
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

fn run_one(args: &Probe, plan: &Plan) -> Result<Exit> {
    let progress = output::spinner(format!(
        "running {} on {}",
        plan.entry.model,
        device_name(&plan.place)
    ));
    let probed = measure(args, plan);
    progress.finish_and_clear();
    let (probed, prediction) = (probed?, &plan.prediction);
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
        charts::timeline(prediction, &plan.timeline),
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

fn run_suite(args: &Probe, plans: &[Plan]) -> Result<Exit> {
    let file = args.out.join("records.jsonl");
    let bar = output::bar(plans.len());
    let mut failed = 0;
    for plan in plans {
        let what = format!("{} {}", plan.entry.model, plan.entry.workload.describe());
        bar.set_message(what.clone());
        let Probed { record, trace } = measure(args, plan)?;
        let mut line = match (record.outcome, off(&plan.prediction, &record)) {
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

/// A record, and how the allocator's trace compares with the prediction if one was asked for.
struct Probed {
    record: Record,
    trace: Option<String>,
}

fn measure(args: &Probe, plan: &Plan) -> Result<Probed> {
    let workload = &plan.entry.workload;
    let steps = steps(workload.runtime, workload.mode);
    match workload.runtime {
        Runtime::Candle => {
            let job = vramcast_candle::Job {
                config: plan.config.clone(),
                workload: workload.clone(),
                cuda: plan.place.cuda,
                steps,
            };
            let ended = child::candle::measure(&job, plan.place.card.as_ref())?;
            let version = vramcast::candle::VERSION.to_owned();
            Ok(Probed {
                record: record(plan, ended, version),
                trace: None,
            })
        }
        Runtime::Torch => {
            let python = args.python.clone().unwrap_or_else(|| "python3".into());
            let job = child::torch::Job {
                config: plan.config.with_dropout(workload.dropout).to_json(),
                workload: workload.clone(),
                steps,
                cap_bytes: limit(args, &plan.entry),
                device: plan.place.cuda.unwrap_or_default(),
                trace: args.trace,
                python: &python,
            };
            let run = child::torch::measure(&job, plan.place.card.as_ref())?;
            let version = run.runtime_version.unwrap_or_default();
            let predicted = &plan.prediction.runtime_version;
            if !version.is_empty() && version != *predicted {
                output::remark(&format!(
                    "warning: this Python has torch {}; the prediction is for {predicted}, see --torch",
                    quoted(&version)
                ));
            }
            if let Some(n) = run.ended.measured.n_params
                && n != plan.prediction.n_params
            {
                output::remark(&format!(
                    "warning: the model that ran has {n} parameters, not {}",
                    plan.prediction.n_params
                ));
            }
            let record = Record {
                transformers_version: run.transformers_version,
                cap_bytes: job.cap_bytes,
                cudnn_last: run.cudnn_last,
                ..record(plan, run.ended, version)
            };
            let trace = match run.events.filter(|_| record.outcome == RunOutcome::Ok) {
                None => None,
                Some(events) => Some(compare_trace(args, plan, &record, &events)?),
            };
            Ok(Probed { record, trace })
        }
    }
}

/// Keeps the trace beside the record and says where it first differs from the prediction.
fn compare_trace(
    args: &Probe,
    plan: &Plan,
    record: &Record,
    events: &[child::torch::Event],
) -> Result<String> {
    let mut line = serde_json::to_value(record)?;
    line["events"] = serde_json::to_value(events)?;
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    serde_json::to_writer(&mut packed, &line)?;
    packed.write_all(b"\n")?;
    let file = args.out.join(format!("trace-{}.jsonl.gz", record.id));
    records::write_file(&file, &packed.finish()?)?;
    let seen = child::torch::seen(events);
    let passes = record.workload.accumulation;
    let said = if passes > MOST_PASSES {
        format!(
            "the trace is not compared: a prediction follows {} of {passes} passes a step",
            MOST_PASSES
        )
    } else {
        match torch::difference(&plan.timeline, &record.workload, &seen) {
            None => format!("all {} allocations and frees are as predicted", seen.len()),
            Some(difference) => format!("the trace differs: {difference}"),
        }
    };
    Ok(format!("{said} ({})", file.display()))
}

fn device_name(place: &Place) -> String {
    place
        .cuda
        .map_or_else(|| "cpu".to_owned(), |ordinal| format!("cuda:{ordinal}"))
}

fn record(plan: &Plan, ended: Ended, runtime_version: String) -> Record {
    let card = plan.place.card.as_ref();
    let mut record = Record {
        schema: SCHEMA,
        id: String::new(),
        model: plan.entry.model.clone(),
        workload: plan.entry.workload.clone(),
        runtime_version,
        transformers_version: None,
        device: device_name(&plan.place),
        gpu: card.map(|card| card.name.clone()),
        capacity: card.map(|card| card.total),
        cap_bytes: None,
        cudnn_last: false,
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
