//! What a process takes of a card beyond its allocator: the context, loaded kernels and the
//! workspaces of libraries.
//!
//! No formula gives it; it is measured per card. A card that nobody measured gets an interval, and
//! the prediction says so.

use crate::bytes::{Bytes, MIB};
use crate::gpu::Gpu;
use crate::workload::{Mode, Runtime};

/// A context, with what is known of its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// The expected size.
    pub bytes: Bytes,
    /// The lowest size it may have.
    pub low: Bytes,
    /// The highest.
    pub high: Bytes,
    /// Where it was measured; `None` if nobody measured this card.
    pub source: Option<&'static str>,
}

struct Row {
    gpu: &'static str,
    runtime: Runtime,
    mode: Mode,
    low: u64,
    bytes: u64,
    high: u64,
    source: &'static str,
}

/// Measured contexts. Each is the median over a suite of records, with its extremes.
const MEASURED: &[Row] = &[Row {
    gpu: "h200",
    runtime: Runtime::Candle,
    mode: Mode::Train,
    low: 720 * MIB,
    bytes: 722 * MIB,
    high: 724 * MIB,
    source: "reports/records/candle-h200.jsonl",
}];

/// The context of a runtime on a card, or on any card.
pub fn context(gpu: Option<&Gpu>, runtime: Runtime, mode: Mode) -> Context {
    let measured = gpu.and_then(|gpu| {
        MEASURED
            .iter()
            .find(|r| r.gpu == gpu.name && r.runtime == runtime && r.mode == mode)
    });
    match measured {
        Some(row) => Context {
            bytes: Bytes(row.bytes),
            low: Bytes(row.low),
            high: Bytes(row.high),
            source: Some(row.source),
        },
        None => Context {
            bytes: Bytes(500 * MIB),
            low: Bytes(200 * MIB),
            high: Bytes(800 * MIB),
            source: None,
        },
    }
}
