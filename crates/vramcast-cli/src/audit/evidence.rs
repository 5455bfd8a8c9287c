//! The records that an audit has, and the predictions beside them.

use crate::audit::job::Job;
use crate::audit::t4::share_of_t4;
use crate::cmd::accuracy;
use crate::model;
use crate::records::Line;
use std::collections::BTreeSet;
use vramcast::bytes::Bytes;
use vramcast::gpu::{self, Gpu};
use vramcast::predict::{Effort, Prediction, Question, predict_with_timeline};
use vramcast::record::{Emptied, Epochs, Record, RunOutcome, Sharing};
use vramcast::timeline::Timeline;
use vramcast::workload::Runtime;

/// Everything that was measured on one kind of card.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    runs: Vec<Record>,
    epochs: Vec<Epochs>,
    sharing: Vec<Sharing>,
}

/// What a job is predicted to take, or why that is not known.
pub(crate) type Predicted = Result<(Prediction, Timeline), String>;

/// The card that the records are of.
pub(crate) const MEASURED_ON: &str = "H200";

fn is_of(product: &Option<String>) -> bool {
    product.as_deref().and_then(gpu::find) == Some(known(MEASURED_ON))
}

/// A card of the table.
pub(crate) fn known(name: &str) -> &'static Gpu {
    gpu::find(name).expect("a card of the table")
}

impl Evidence {
    /// Takes the lines of record files.
    pub(crate) fn new(lines: impl IntoIterator<Item = Line>) -> Self {
        let mut evidence = Self::default();
        for line in lines {
            match line {
                Line::Run(run) if is_of(&run.gpu) => evidence.runs.push(*run),
                Line::Epochs(epochs) if is_of(&epochs.gpu) => evidence.epochs.push(*epochs),
                Line::Sharing(group) if is_of(&group.gpu) => evidence.sharing.push(*group),
                _ => {}
            }
        }
        evidence
    }

    /// Whether nothing is of the card.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.epochs.is_empty() && self.sharing.is_empty()
    }

    /// The versions of a runtime that ran, with those of what it needs.
    pub(crate) fn versions(&self, runtime: Runtime) -> String {
        let runs = self.runs.iter().filter(|r| r.workload.runtime == runtime);
        let versions = runs.map(|run| match &run.transformers_version {
            Some(transformers) => {
                format!("{} with transformers {transformers}", run.runtime_version)
            }
            None => run.runtime_version.clone(),
        });
        let versions: BTreeSet<String> = versions.collect();
        Vec::from_iter(versions).join(", ")
    }

    /// The record of a job: of several the first that read NVML, in a process that did nothing else.
    pub(crate) fn run(&self, job: &Job) -> Option<&Record> {
        let runs = self.runs.iter().filter(|record| {
            record.model == job.model
                && record.workload == job.workload
                && record.cap_bytes.is_some() == job.limited
                && record.outcome != RunOutcome::Failed
                && !record.cudnn_last
        });
        let held = |r: &Record| r.measured.base_allocated.map_or(0, |held| held.0);
        runs.min_by_key(|r| (r.measured.nvml_used.is_none(), held(r)))
    }

    /// Epochs with the cache emptied at a time, with the allocator limited or not.
    pub(crate) fn epochs(&self, emptied: Emptied, limited: bool) -> Option<&Epochs> {
        self.epochs
            .iter()
            .find(|e| e.emptied == emptied && e.cap_bytes.is_some() == limited)
    }

    /// Processes of a job that shared a card.
    pub(crate) fn sharing(&self, job: &Job, processes: u64) -> Option<&Sharing> {
        self.sharing.iter().find(|group| {
            group.model == job.model
                && group.workload == job.workload
                && group.processes == processes
                && group.outcome != RunOutcome::Failed
        })
    }

    /// What is predicted of a job: for the process of its record, where there is one.
    pub(crate) fn predict(&self, job: &Job) -> Predicted {
        let t4 = job.limited && job.workload.runtime == Runtime::Torch;
        let record = self.run(job).and_then(|record| record.cap_bytes);
        self.predict_within(job, record.or_else(|| t4.then(|| share_of_t4(1))))
    }

    /// The same with so much for PyTorch's allocator.
    pub(crate) fn predict_within(&self, job: &Job, limit: Option<Bytes>) -> Predicted {
        let config = model::model(job.model).map_err(|error| format!("{error:#}"))?;
        let question = match self.run(job) {
            Some(record) => {
                accuracy::question(record, &config).map_err(|error| format!("{error:#}"))?
            }
            None => Question {
                gpu: Some(known(MEASURED_ON)),
                ..Question::new(job.model, &config, &job.workload)
            },
        };
        predict_with_timeline(&Question {
            allocator_limit: limit,
            effort: Effort::Expected,
            ..question
        })
        .map_err(|error| error.to_string())
    }
}
