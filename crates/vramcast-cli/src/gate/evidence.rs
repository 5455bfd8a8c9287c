//! What is known of a workload now: predicted, measured by another program, or measured here.

use super::file::{Job, Run};
use super::measured::{self, Seen};
use super::problem::Problem;
use crate::args::{Device, Target};
use crate::output;
use crate::records::{self, Line};
use crate::suite::Entry;
use crate::trial::Trials;
use serde_json::{Map, Value};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use vramcast::bytes::Bytes;
use vramcast::config::quoted;
use vramcast::figures::Figures;
use vramcast::gate::inject;
use vramcast::predict::{Prediction, Question, predict};
use vramcast::record::Record;
use vramcast::share::Share;
use vramcast::workload::{Runtime, Workload};

/// What the baseline has of it too.
#[derive(Debug)]
pub(crate) struct Evidence {
    /// What was asked, as the baseline keeps it.
    pub(crate) configuration: Map<String, Value>,
    /// What runs, for people.
    pub(crate) title: Option<String>,
    pub(crate) prediction: Option<Prediction>,
    pub(crate) predicted: Option<Figures>,
    pub(crate) measured: Option<Seen>,
}

/// Growth that a gate must notice.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Injection {
    Size(Bytes),
    /// Of what is allocated at the peak.
    Share(Share),
}

impl FromStr for Injection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let injection = match text.trim_end().ends_with('%') {
            true => Self::Share(text.parse()?),
            false => Self::Size(Bytes::parse(text)?),
        };
        match injection {
            Self::Size(Bytes(0)) | Self::Share(Share(0)) => Err("nothing would grow".to_owned()),
            injection => Ok(injection),
        }
    }
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(bytes) => write!(f, "by {bytes}"),
            Self::Share(share) => write!(f, "by {share} of the peak"),
        }
    }
}

impl Injection {
    fn into(self, figures: &mut Figures) {
        let counted = figures.counted().map_or(Bytes(0), |(_, bytes)| bytes);
        let bytes = match self {
            Self::Size(bytes) => bytes,
            Self::Share(share) => share.of(counted),
        };
        inject(figures, bytes);
    }
}

/// Where jobs are run, if they are.
pub(crate) struct Bench<'a> {
    pub(crate) device: Device,
    pub(crate) python: Option<&'a Path>,
}

impl Evidence {
    /// Predicts a workload of the file `path`.
    ///
    /// # Errors
    /// The line of the workload, and why there is no answer.
    pub(crate) fn predict(path: &Path, job: &Job) -> Result<Self, Problem> {
        let prediction = match &job.run {
            None => None,
            Some(run) => Some(predicted(job, run).map_err(|error| at(path, job, "model", &error))?),
        };
        Ok(Self {
            configuration: configuration(job, prediction.as_ref()),
            title: job
                .run
                .as_ref()
                .map(|run| format!("{}, {}", run.model, run.workload.describe())),
            predicted: prediction.as_ref().map(Figures::from),
            prediction,
            measured: None,
        })
    }

    /// Adds what was measured of it elsewhere, or measures it here.
    ///
    /// # Errors
    /// As [`Self::predict`], or the line of a file of figures.
    pub(crate) fn measure(
        &mut self,
        path: &Path,
        job: &Job,
        bench: Option<&Bench<'_>>,
    ) -> Result<(), Problem> {
        let seen = match (&job.measured, &job.run, bench) {
            (Some(file), run, _) => read(&file.path, run.as_ref()),
            (None, Some(run), Some(bench)) => probed(job, run, bench),
            (None, _, _) => return Ok(()),
        };
        let key = if job.measured.is_some() {
            "measured"
        } else {
            "model"
        };
        self.measured = Some(seen.map_err(|error| match error.downcast() {
            Ok(problem) => problem,
            Err(error) => at(path, job, key, &error),
        })?);
        Ok(())
    }

    /// Makes it look as if activations had grown.
    pub(crate) fn grow(&mut self, injection: Injection) {
        let measured = self.measured.as_mut().map(|seen| &mut seen.figures);
        for figures in self.predicted.as_mut().into_iter().chain(measured) {
            injection.into(figures);
        }
    }
}

fn at(path: &Path, job: &Job, key: &str, error: &anyhow::Error) -> Problem {
    Problem::new(path, job.line(key), format!("{error:#}"))
}

fn predicted(job: &Job, run: &Run) -> anyhow::Result<Prediction> {
    let config = run.config()?;
    let question = Question {
        gpu: job.gpu,
        allocator_limit: run.allocator_limit,
        build: run.build,
        ..Question::new(&run.model, &config, &run.workload)
    };
    Ok(predict(&question)?)
}

/// Reads a file of figures, and of its records the one that is of this run.
fn read(path: &Path, run: Option<&Run>) -> anyhow::Result<Seen> {
    let text = records::text(path)?;
    if let Some(seen) = measured::stats(path, &text)? {
        return Ok(seen);
    }
    let lines = records::lines(text.as_bytes(), path)?.into_iter();
    let records: Vec<Record> = lines
        .filter_map(|line| match line {
            Line::Run(record) => Some(*record),
            _ => None,
        })
        .collect();
    let is_of = |record: &&Record| match run {
        None => true,
        Some(run) => record.model == run.model && record.workload == run.workload,
    };
    let found: Vec<&Record> = records.iter().filter(is_of).collect();
    let record = match (found.as_slice(), run) {
        ([], _) => anyhow::bail!(
            "{} has no record of this configuration; it has {} of others",
            path.display(),
            records.len()
        ),
        (_, None) if found.len() > 1 => anyhow::bail!(
            "{} has {} records; a `model`, `batch` and `seq` say which is meant",
            path.display(),
            found.len()
        ),
        // Records are added at the end: the last is the newest.
        ([.., last], _) => last,
    };
    let named = |error: String| anyhow::anyhow!("{}: {error}", path.display());
    measured::of_record(record).map_err(named)
}

/// Runs the job here.
fn probed(job: &Job, run: &Run, bench: &Bench<'_>) -> anyhow::Result<Seen> {
    let target = Target {
        gpu: None,
        capacity: None,
        allocator_limit: run.allocator_limit,
        torch: run.build,
    };
    let mut trials = Trials::new(&target, bench.device, bench.python, None);
    let trial = trials.plan(Entry {
        model: run.found.clone(),
        workload: run.workload.clone(),
        allocator_limit: run.allocator_limit,
    })?;
    let progress = output::spinner(format!(
        "running {} on {}",
        quoted(&job.name),
        trial.device()
    ));
    let probed = trials.measure(&trial);
    progress.finish_and_clear();
    measured::of_record(&probed?.record).map_err(anyhow::Error::msg)
}

/// What figures depend on, but for the contents of the model's configuration and of the file that
/// was measured.
fn configuration(job: &Job, prediction: Option<&Prediction>) -> Map<String, Value> {
    let mut fields = Map::new();
    if let Some(file) = &job.measured {
        fields.insert("measured".to_owned(), file.name.as_str().into());
    }
    if let Some(run) = &job.run {
        fields.extend(described(&run.model, &run.workload));
    }
    // Figures that were only measured do not depend on what they must fit.
    if let Some(p) = prediction {
        if p.workload.runtime == Runtime::Torch {
            fields.insert("torch".to_owned(), p.runtime_version.as_str().into());
        }
        if let Some(gpu) = &p.gpu {
            fields.insert("gpu".to_owned(), gpu.as_str().into());
        }
        if let Some(limit) = p.allocator_limit {
            fields.insert("allocator_limit".to_owned(), limit.0.into());
        }
    }
    fields
}

/// What is named of every workload, default or not.
const NAMED: [&str; 5] = ["task", "mode", "batch", "seq", "runtime"];

/// A model and what runs, without what is as it is by default: a later version may know more.
pub(crate) fn described(model: &str, workload: &Workload) -> Map<String, Value> {
    let Workload {
        runtime,
        task,
        mode,
        batch,
        seq,
        ..
    } = *workload;
    let fields = |workload: &Workload| match serde_json::to_value(workload) {
        Ok(Value::Object(fields)) => fields,
        _ => unreachable!("a struct of words and numbers is an object"),
    };
    let plain = fields(&Workload::new(runtime, task, mode, batch, seq));
    let is_said = |(key, value): &(String, Value)| {
        NAMED.contains(&key.as_str()) || plain.get(key) != Some(value)
    };
    let model = std::iter::once(("model".to_owned(), Value::from(model)));
    model
        .chain(fields(workload).into_iter().filter(is_said))
        .collect()
}
