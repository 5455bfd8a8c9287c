//! What a machine measured of its own card: the contexts of a runtime, and what the driver lets a
//! process have. It is a value that a question carries; who measures and keeps it is not known here.

use crate::bytes::Bytes;
use crate::context::{Context, Loaded};
use crate::record::{Record, RunOutcome};
use crate::workload::Runtime;
use serde::{Deserialize, Serialize};

/// The form of the files that this version writes.
pub const SCHEMA: u32 = 1;

/// The runs of one runtime on one card and driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The form of this object.
    pub schema: u32,
    /// The card's short name.
    pub gpu: String,
    /// The driver's version.
    pub driver: String,
    /// The runtime.
    pub runtime: Runtime,
    /// Its version.
    pub runtime_version: String,
    /// The day on which it was measured, `2026-11-30`.
    pub date: String,
    /// The records as they came, each with what its process had loaded.
    pub runs: Vec<Run>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What the process had loaded at its end.
    pub loaded: Loaded,
    /// What was measured.
    pub record: Record,
}

/// What a prediction takes from a calibration, and cites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cited {
    /// The day on which it was measured.
    pub date: String,
    /// The driver's version then.
    pub driver: String,
    /// The runs that the context rests on; 0 if none of them had loaded the same.
    pub runs: usize,
    /// `cuMemGetInfo`'s total: what a process can use of the card.
    pub usable: Option<Bytes>,
}

impl Calibration {
    /// The context of a process that has loaded this, between the lowest and the highest of the runs,
    /// and expected in their middle; `None` if none of them loaded it.
    pub fn context(&self, loaded: Loaded) -> Option<Context> {
        let contexts = self.contexts(loaded);
        let (low, high) = (*contexts.first()?, *contexts.last()?);
        Some(Context {
            bytes: contexts[contexts.len() / 2],
            low,
            high,
            source: Some("measured on this machine"),
        })
    }

    /// What the driver lets a process have: the least that a run was told.
    pub fn usable(&self) -> Option<Bytes> {
        let told = self
            .runs
            .iter()
            .filter_map(|run| run.record.measured.usable);
        told.min()
    }

    /// What a prediction for this cites.
    pub fn cited(&self, loaded: Loaded) -> Cited {
        Cited {
            date: self.date.clone(),
            driver: self.driver.clone(),
            runs: self.contexts(loaded).len(),
            usable: self.usable(),
        }
    }

    /// What its runs had loaded, each once.
    pub fn kinds(&self) -> Vec<Loaded> {
        let mut kinds = Vec::new();
        for run in &self.runs {
            if !kinds.contains(&run.loaded) {
                kinds.push(run.loaded);
            }
        }
        kinds
    }

    /// From the lowest.
    fn contexts(&self, loaded: Loaded) -> Vec<Bytes> {
        let of = self.runs.iter().filter(|run| run.loaded == loaded);
        let mut contexts: Vec<Bytes> = of.filter_map(|run| context(&run.record)).collect();
        contexts.sort_unstable();
        contexts
    }
}

/// The context of a run: what NVML showed beyond what it showed before and what was reserved. `None`
/// if it did not end well, or NVML was not read.
pub fn context(record: &Record) -> Option<Bytes> {
    let measured = &record.measured;
    let reserved = measured.highest_reserved()?;
    let beside = measured.nvml_used?.0.checked_sub(measured.nvml_before?.0)?;
    let context = beside.checked_sub(reserved.0).filter(|&bytes| bytes > 0)?;
    (record.outcome == RunOutcome::Ok).then_some(Bytes(context))
}
