//! What a process takes of a card beyond its allocator: the context, loaded kernels and the
//! workspaces of libraries.
//!
//! No formula gives it; it is measured per card. A card that nobody measured gets an interval, and
//! the prediction says so.

use crate::bytes::{Bytes, MIB};
use crate::gpu::Gpu;
use crate::workload::Runtime;

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
    low: u64,
    bytes: u64,
    high: u64,
    source: &'static str,
}

/// Measured contexts: the commonest of a suite of records, with its extremes. A run that loads fewer
/// kernels takes one step of 2 MiB less.
const MEASURED: &[Row] = &[Row {
    gpu: "h200",
    runtime: Runtime::Candle,
    low: 720_175_104,
    bytes: 722_272_256,
    high: 722_272_256,
    source: "reports/records/candle-h200.jsonl, driver 580.159",
}];

/// The context of a runtime on a card, or on any card.
pub fn context(gpu: Option<&Gpu>, runtime: Runtime) -> Context {
    let measured = gpu.and_then(|gpu| {
        MEASURED
            .iter()
            .find(|r| r.gpu == gpu.name && r.runtime == runtime)
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
