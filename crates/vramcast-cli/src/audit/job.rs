//! A job that a claim is held against, and what tells it from others.

use crate::audit::verdict::Traits;
use vramcast::workload::{Attention, Mode, Precision, Runtime, Task, Workload};

/// What runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) model: &'static str,
    pub(crate) workload: Workload,
    /// Whether PyTorch's allocator is limited to what a T4 leaves it.
    pub(crate) limited: bool,
}

/// Training a classifier in single precision.
pub(crate) fn training(runtime: Runtime, model: &'static str, batch: u64, seq: u64) -> Job {
    Job {
        model,
        workload: Workload::new(runtime, Task::default(), Mode::Train, batch, seq),
        limited: false,
    }
}

/// Inference without a head in single precision.
pub(crate) fn inference(runtime: Runtime, model: &'static str, batch: u64, seq: u64) -> Job {
    Job {
        model,
        workload: Workload::new(runtime, Task::Base, Mode::Infer, batch, seq),
        limited: false,
    }
}

impl Job {
    fn with(self, change: impl FnOnce(&mut Workload)) -> Self {
        let mut job = self;
        change(&mut job.workload);
        job
    }

    pub(crate) fn eager(self) -> Self {
        self.with(|w| w.attention = Attention::Eager)
    }

    pub(crate) fn masked_lm(self) -> Self {
        self.with(|w| w.task = Task::MaskedLm)
    }

    pub(crate) fn precision(self, precision: Precision) -> Self {
        self.with(|w| w.precision = precision)
    }

    pub(crate) fn checkpointing(self) -> Self {
        self.with(|w| w.checkpointing = true)
    }

    pub(crate) fn compiled(self) -> Self {
        self.with(|w| w.compile = true)
    }

    pub(crate) fn seq(self, seq: u64) -> Self {
        self.with(|w| w.seq = seq)
    }

    pub(crate) fn limited(self) -> Self {
        Self {
            limited: true,
            ..self
        }
    }

    /// What a claim may depend on, in the order of a description; what is as usual is empty.
    pub(crate) fn traits(&self) -> Traits {
        let w = &self.workload;
        let said = |words: &str, holds: bool| if holds { words } else { "" }.to_owned();
        let mode = match w.mode {
            Mode::Train => "training",
            Mode::Infer => "inference",
        };
        // candle has one way.
        let attention = match w.runtime {
            Runtime::Candle => String::new(),
            Runtime::Torch => format!("{} attention", w.attention),
        };
        vec![
            ("model", self.model.to_owned()),
            ("head", w.task.to_string()),
            ("mode", mode.to_owned()),
            ("batch", w.batch.to_string()),
            ("sequence", w.seq.to_string()),
            ("precision", w.precision.to_string()),
            ("attention", attention),
            ("checkpointing", said("checkpointing", w.checkpointing)),
            ("compilation", said("torch.compile", w.compile)),
            ("limit", said("allocator limited", self.limited)),
        ]
    }
}

/// The traits of several jobs as one: what differs is told in the order of the jobs.
pub(crate) fn traits(jobs: &[&Job]) -> Traits {
    let each: Vec<Traits> = jobs.iter().map(|job| job.traits()).collect();
    let mut all = each.first().cloned().unwrap_or_default();
    for (i, (_, value)) in all.iter_mut().enumerate() {
        let mut values: Vec<&str> = each.iter().map(|traits| traits[i].1.as_str()).collect();
        values.dedup();
        *value = values.join(" → ");
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::verdict::describe;

    #[test]
    fn two_jobs_are_told_by_what_they_share_and_where_they_differ() {
        let job = || training(Runtime::Torch, "bert-base-uncased", 8, 512);
        let both = |other: &Job| describe(traits(&[&job(), other]).iter());
        assert_eq!(
            both(&job().precision(Precision::AmpFp16).seq(384)),
            "bert-base-uncased, sequence-classification, training, batch 8, sequence 512 → 384, \
             fp32 → amp-fp16, sdpa attention"
        );
        assert_eq!(
            both(&job().checkpointing()),
            "bert-base-uncased, sequence-classification, training, batch 8, sequence 512, fp32, \
             sdpa attention, without → with checkpointing"
        );
    }
}
