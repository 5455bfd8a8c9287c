//! The ledger: every byte from what the program requests to what NVML shows, in one table that
//! adds up, predicted beside measured.

use crate::bytes::Bytes;
use crate::predict::Prediction;
use crate::record::Measured;
use crate::workload::Runtime;

/// What a row is to the rows above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// A part of the next sum.
    Part,
    /// The sum of everything above.
    Sum,
}

/// One row of the ledger. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub label: &'static str,
    /// Part or sum.
    pub row: Row,
    /// As predicted.
    pub predicted: Bytes,
    /// As measured, where it can be measured.
    pub measured: Option<Bytes>,
}

impl Entry {
    /// Measured less predicted.
    pub fn difference(&self) -> Option<i128> {
        self.measured.map(|measured| measured.minus(self.predicted))
    }
}

/// The ledger of a prediction, beside a measurement if there is one. On the CPU it ends with the
/// requested bytes: there is no pool and no device.
pub fn ledger(prediction: &Prediction, measured: Option<&Measured>, on_device: bool) -> Vec<Entry> {
    let mut entries: Vec<Entry> = prediction
        .at_peak
        .parts()
        .into_iter()
        .filter(|(_, bytes)| bytes.0 > 0)
        .map(|(label, predicted)| Entry {
            label,
            row: Row::Part,
            predicted,
            measured: None,
        })
        .collect();
    let mut push = |label, row, predicted, measured| {
        entries.push(Entry {
            label,
            row,
            predicted,
            measured,
        });
    };
    // candle's pool counts what was requested; PyTorch's allocator counts its blocks.
    let (sum, cache, predicted, measured_sum) = match prediction.workload.runtime {
        Runtime::Candle => (
            "requested",
            "pool: free chunks and gaps",
            prediction.peak_requested,
            measured.and_then(|m| m.peak_requested),
        ),
        Runtime::Torch => (
            "allocated",
            "cache: free blocks",
            prediction.peak_allocated,
            measured.and_then(|m| m.peak_allocated),
        ),
    };
    push(sum, Row::Sum, predicted, measured_sum);
    if !on_device {
        return entries;
    }
    let less = |a: Option<Bytes>, b: Option<Bytes>| Some(Bytes(a?.0.saturating_sub(b?.0)));
    let reserved = measured.and_then(Measured::highest_reserved);
    push(
        cache,
        Row::Part,
        Bytes(prediction.peak_reserved.0 - predicted.0),
        less(reserved, measured_sum),
    );
    push("reserved", Row::Sum, prediction.peak_reserved, reserved);
    let nvml = measured.and_then(Measured::nvml);
    push(
        "context, kernels, workspaces",
        Row::Part,
        prediction.context,
        less(nvml, reserved),
    );
    push("nvml", Row::Sum, prediction.peak_nvml, nvml);
    entries
}
