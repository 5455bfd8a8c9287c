//! What a claim asks of the records.

use crate::audit::emptied::{Reserved, emptied, rescued, slowed};
use crate::audit::evidence::Evidence;
use crate::audit::figures::{bent, figures};
use crate::audit::job::Job;
use crate::audit::on_card::{runs, shared};
use crate::audit::quantity::Quantity;
use crate::audit::value::{Answer, Value, Wanted};
use vramcast::record::Emptied;
use vramcast::workload::Runtime;

/// A question about one run, or about several.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    /// A figure.
    Of(Quantity, Job),
    /// The share of a figure that goes from the first to the second.
    Saved(Quantity, [Job; 2]),
    /// The bytes of it that go.
    SavedBytes(Quantity, [Job; 2]),
    /// How many times the first the second is.
    Times(Quantity, [Job; 2]),
    /// How far a figure is at most from the straight line over the batch through the first job and
    /// the last, as a share of it.
    Bent(Quantity, Vec<Job>),
    /// Whether so many at once run on a T4.
    Runs(u64, Job),
    /// Whether it does not.
    Fails(Job),
    /// The share of reserved bytes that goes where the cache is emptied: of the highest, or of what
    /// is left after the epochs.
    Emptied(Emptied, Reserved),
    /// How much longer the epochs take then, as a share.
    Slowed(Emptied),
    /// Whether the epochs run with the cache emptied where they do not without, by the allocator's
    /// limit.
    Rescued(Emptied),
}

impl Ask {
    /// What a claim's value would be if there were nothing in it: half the claim for sizes, which
    /// are never nothing.
    pub(crate) fn nothing(&self, claimed: f64) -> f64 {
        match self {
            Self::Of(..) => claimed / 2.0,
            Self::Times(..) => 1.0,
            _ => 0.0,
        }
    }

    /// What runs, where it is a job; scripts of their own run epochs.
    pub(crate) fn jobs(&self) -> &[Job] {
        match self {
            Self::Of(_, job) | Self::Runs(_, job) | Self::Fails(job) => std::slice::from_ref(job),
            Self::Saved(_, pair) | Self::SavedBytes(_, pair) | Self::Times(_, pair) => pair,
            Self::Bent(_, jobs) => jobs,
            Self::Emptied(..) | Self::Slowed(_) | Self::Rescued(_) => &[],
        }
    }

    /// Where; PyTorch alone has a cache that a program can empty.
    pub(crate) fn runtime(&self) -> Runtime {
        let job = self.jobs().first();
        job.map_or(Runtime::Torch, |job| job.workload.runtime)
    }

    pub(crate) fn answer(&self, evidence: &Evidence) -> Answer {
        match self {
            Self::Of(quantity, job) => {
                let value = |[n]: [u64; 1]| match quantity {
                    Quantity::Parameters => Value::Elements(n),
                    _ => Value::Bytes(n.into()),
                };
                figures(evidence, *quantity, [job], value)
            }
            Self::Saved(quantity, [before, after]) => {
                let saved = |[b, a]: [u64; 2]| Value::Share(1.0 - a as f64 / b as f64);
                figures(evidence, *quantity, [before, after], saved)
            }
            Self::SavedBytes(quantity, [before, after]) => {
                let saved = |[b, a]: [u64; 2]| Value::Bytes(i128::from(b) - i128::from(a));
                figures(evidence, *quantity, [before, after], saved)
            }
            Self::Times(quantity, [before, after]) => {
                let times = |[b, a]: [u64; 2]| Value::Times(a as f64 / b as f64);
                figures(evidence, *quantity, [before, after], times)
            }
            Self::Bent(quantity, jobs) => bent(evidence, *quantity, jobs),
            Self::Runs(1, job) => runs(evidence, job, Wanted::Runs),
            Self::Fails(job) => runs(evidence, job, Wanted::Fails),
            Self::Runs(processes, job) => shared(evidence, *processes, job),
            Self::Emptied(when, which) => emptied(evidence, *when, *which),
            Self::Slowed(when) => slowed(evidence, *when),
            Self::Rescued(when) => rescued(evidence, *when),
        }
    }
}
