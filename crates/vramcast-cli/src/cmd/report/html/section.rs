//! All that is said of one job: verdict, ledger, charts, advice, limits, and how to reproduce it.

use super::job::Job;
use super::row::{Badge, anchor, one};
use crate::cmd::advise::{Told, best, tell};
use crate::cmd::{predict, probe};
use crate::{charts, output};
use serde_json::Value;
use vramcast::advise::advise;
use vramcast::bytes::{Bytes, grouped};
use vramcast::compare::{Entry, Row as LedgerRow, ledger};
use vramcast::predict::{Prediction, Verdict, predict_with_timeline};
use vramcast::record::{Record, RunOutcome};
use vramcast_chart::Scene;

/// A row of the ledger.
pub(super) struct Line {
    pub(super) label: &'static str,
    pub(super) is_sum: bool,
    pub(super) predicted: String,
    pub(super) readable: String,
    pub(super) measured: String,
    pub(super) difference: String,
}

/// A chart with what it shows.
pub(super) struct Figure {
    pub(super) caption: &'static str,
    pub(super) svg: String,
}

/// A command line, and what it does.
pub(super) struct CommandLine {
    pub(super) what: &'static str,
    pub(super) line: String,
}

/// A name and a value.
pub(super) type Field = (String, String);

/// One job, whole.
pub(super) struct Section {
    pub(super) number: usize,
    pub(super) anchor: String,
    pub(super) model: String,
    pub(super) what: String,
    pub(super) place: String,
    pub(super) badge: Badge,
    pub(super) answer: String,
    pub(super) details: Vec<String>,
    /// What a run said that did not end well.
    pub(super) error: Option<String>,
    pub(super) ledger: Vec<Line>,
    /// Whether the ledger has columns of a measurement.
    pub(super) is_measured: bool,
    pub(super) charts: Vec<Figure>,
    pub(super) advice: Option<Told>,
    pub(super) notes: Vec<String>,
    pub(super) commands: Vec<CommandLine>,
    pub(super) place_fields: Vec<Field>,
    pub(super) workload: Vec<Field>,
    pub(super) measured: Vec<Field>,
}

impl Section {
    pub(super) fn new(index: usize, job: &Job) -> Self {
        let prediction = job.prediction().ok();
        let entries = match (prediction, job.record()) {
            (Some(p), Some(record)) => probe::entries(p, record),
            (Some(p), None) => ledger(p, None, true),
            (None, _) => Vec::new(),
        };
        let mut details = prediction.map_or_else(Vec::new, predict::details);
        let mut notes = prediction.map_or_else(Vec::new, |p| p.notes.clone());
        notes.push(limits(job, &entries));
        notes.extend(process(job));
        if let (Some(p), Some(record)) = (prediction, job.record()) {
            details.extend(probe::facts(p, record));
        }
        let (charts, advice) = match again(job) {
            Ok((today, charts, advice)) => {
                if job.record().is_none() && prediction.is_some_and(|p| *p != today) {
                    notes.push(format!(
                        "this version predicts otherwise, and draws and advises on it: {}",
                        output::headline(&today)
                    ));
                }
                (charts, advice)
            }
            Err(reason) => {
                notes.push(format!("no charts and no advice: {reason}"));
                (Vec::new(), None)
            }
        };
        Self {
            number: index + 1,
            anchor: anchor(index),
            model: job.model().to_owned(),
            what: job.workload().describe(),
            place: job.place(),
            badge: Badge::of(job.verdict()),
            answer: one(job),
            details,
            error: job
                .record()
                .filter(|record| record.outcome != RunOutcome::Ok)
                .and_then(|record| record.error.clone()),
            is_measured: entries.iter().any(|entry| entry.measured.is_some()),
            ledger: entries.iter().map(line).collect(),
            charts,
            advice,
            notes,
            commands: commands(job),
            place_fields: place_fields(job),
            workload: fields(serde_json::to_value(job.workload())),
            measured: job.record().map_or_else(Vec::new, |record| {
                fields(serde_json::to_value(&record.measured))
            }),
        }
    }
}

fn line(entry: &Entry) -> Line {
    let bytes = |b: Bytes| grouped(i128::from(b.0));
    Line {
        label: entry.label,
        is_sum: entry.row == LedgerRow::Sum,
        predicted: bytes(entry.predicted),
        readable: entry.predicted.to_string(),
        measured: entry.measured.map_or_else(String::new, bytes),
        difference: entry
            .difference()
            .map_or_else(String::new, output::difference),
    }
}

/// The job predicted anew, what is drawn of it and what is advised.
type Again = (Prediction, Vec<Figure>, Option<Told>);

fn again(job: &Job) -> Result<Again, String> {
    let config = job.config()?;
    let question = job.question(config).map_err(|error| format!("{error:#}"))?;
    let answer = predict_with_timeline(&question);
    let (today, timeline) = answer.map_err(|error| error.to_string())?;
    let figure = |caption, scene: &Scene| Figure {
        caption,
        svg: vramcast_chart::svg(scene),
    };
    let drawn = charts::timeline(&today, &timeline);
    let mut figures = vec![figure(
        "What is alive, allocation by allocation",
        &drawn.scene,
    )];
    if let Some(record) = job.record().filter(|_| job.ran()) {
        let entries = probe::entries(&today, record);
        let drawn = charts::components(&record.model, &record.workload, &entries);
        figures.push(figure(
            "The ledger, predicted beside measured",
            &drawn.scene,
        ));
    }
    if job.on_device() {
        let drawn = charts::peaks(job.model(), config, job.workload(), question.gpu);
        figures.push(figure(
            "The peak over batch and sequence, and what cards have",
            &drawn.scene,
        ));
    }
    let advice = match today.verdict {
        Verdict::Fits | Verdict::Unknown => None,
        Verdict::Tight | Verdict::Oom => {
            let advice = advise(&question).map_err(|error| error.to_string())?;
            if let Some(best) = best(&advice) {
                let drawn = charts::waterfall(&advice.now, best);
                figures.push(figure("The way down, lever by lever", &drawn.scene));
            }
            Some(tell(&question, &advice))
        }
    };
    Ok((today, figures, advice))
}

/// What nobody measured of it.
fn limits(job: &Job, entries: &[Entry]) -> String {
    if job.record().is_none() {
        return "nothing of this was measured: it is a prediction".to_owned();
    }
    if !job.ran() {
        return "it did not end well, so its peaks were not measured".to_owned();
    }
    let missing = entries.iter().filter(|entry| entry.measured.is_none());
    let missing: Vec<&str> = missing.map(|entry| entry.label).collect();
    match missing.as_slice() {
        [] => "every row of the ledger was measured".to_owned(),
        missing => format!("not measured by themselves: {}", missing.join(", ")),
    }
}

/// What of a run's process no command line says.
fn process(job: &Job) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(record) = job.record() {
        let held = record.measured.base_allocated.filter(|held| held.0 > 0);
        said.extend(
            held.map(|held| {
                format!("its process had run another job, of which it still held {held}")
            }),
        );
        if record.cudnn_last {
            said.push("TORCH_CUDNN_SDPA_DEPRIORITIZED was set where it ran".to_owned());
        }
    }
    said
}

fn commands(job: &Job) -> Vec<CommandLine> {
    let asked = job.asked();
    let predict = asked.predict().filter(|_| job.on_device());
    let probe = job.record().and_then(|record| asked.probe(&record.device));
    let all = [("to predict it", predict), ("to measure it", probe)];
    all.into_iter()
        .filter_map(|(what, line)| Some(CommandLine { what, line: line? }))
        .collect()
}

/// What ran it, on what.
fn place_fields(job: &Job) -> Vec<Field> {
    let mut fields = Vec::new();
    let mut push = |name: &str, value: Option<String>| {
        fields.extend(value.map(|value| (name.to_owned(), value)));
    };
    let size = |bytes: Bytes| format!("{} ({} B)", bytes, grouped(i128::from(bytes.0)));
    let runtime = job.workload().runtime;
    let version = match job.record() {
        Some(record) => record.runtime_version.clone(),
        None => job
            .prediction()
            .map_or_else(|_| String::new(), |p| p.runtime_version.clone()),
    };
    push(runtime.product(), Some(version));
    match job.record() {
        Some(r) => of_record(r, &mut push, size),
        None => {
            if let Ok(p) = job.prediction() {
                push("card", p.gpu.clone());
                push("capacity", p.capacity.map(size));
                push("allocator limit", p.allocator_limit.map(size));
            }
        }
    }
    if let Ok(p) = job.prediction() {
        push("parameters", Some(grouped(i128::from(p.n_params))));
        push("allocations", Some(grouped(i128::from(p.allocations))));
    }
    fields
}

fn of_record(r: &Record, push: &mut impl FnMut(&str, Option<String>), size: fn(Bytes) -> String) {
    push("transformers", r.transformers_version.clone());
    push("device", Some(r.device.clone()));
    push("card", r.gpu.clone());
    push("capacity by NVML", r.capacity.map(size));
    push("driver", r.driver.clone());
    push("allocator limit", r.cap_bytes.map(size));
    push("record", Some(r.id.clone()));
}

/// The fields of a value, in the words of the records.
fn fields(value: serde_json::Result<Value>) -> Vec<Field> {
    let Ok(Value::Object(map)) = value else {
        return Vec::new();
    };
    let field = |(name, value): (String, Value)| match value {
        Value::Number(n) => {
            let text = n
                .as_i64()
                .map_or_else(|| n.to_string(), |n| grouped(n.into()));
            Some((name, text))
        }
        Value::String(text) if text.is_empty() => Some((name, "none".to_owned())),
        Value::String(text) => Some((name, text)),
        Value::Bool(yes) => Some((name, if yes { "yes" } else { "no" }.to_owned())),
        // Steps and their phases: the ledger has their peak.
        Value::Array(_) | Value::Object(_) | Value::Null => None,
    };
    map.into_iter().filter_map(field).collect()
}
