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

impl Context {
    /// Where there is no device.
    pub const NOTHING: Self = Self {
        bytes: Bytes(0),
        low: Bytes(0),
        high: Bytes(0),
        source: None,
    };
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
const MEASURED: &[Row] = &[
    Row {
        gpu: "h200",
        runtime: Runtime::Candle,
        low: 720_175_104,
        bytes: 722_272_256,
        high: 722_272_256,
        source: "reports/records/candle-h200.jsonl, driver 580.159",
    },
    Row {
        gpu: "h200",
        runtime: Runtime::Torch,
        low: 787_283_968,
        bytes: 816_644_096,
        high: 829_227_008,
        source: "reports/records/torch-h200-runs.jsonl, driver 580.159",
    },
];

/// For cards that nobody measured. Contexts grow with the number of multiprocessors: an A10G (80 of
/// them) took 0.31 GiB under PyTorch 2.1 (github.com/Lightning-AI/litgpt issue 136, by the sums in
/// its message), an H200 (132) takes 689 MiB here. Nothing was measured between or beyond.
const UNMEASURED: [u64; 3] = [250 * MIB, 500 * MIB, 800 * MIB];

/// The context of a runtime on a card, or on any card.
pub fn context(gpu: Option<&Gpu>, runtime: Runtime) -> Context {
    let measured = gpu.and_then(|gpu| {
        MEASURED
            .iter()
            .find(|r| r.gpu == gpu.name && r.runtime == runtime)
    });
    let (sizes, source) = match measured {
        Some(row) => ([row.low, row.bytes, row.high], Some(row.source)),
        None => (UNMEASURED, None),
    };
    let [low, bytes, high] = sizes.map(Bytes);
    Context {
        bytes,
        low,
        high,
        source,
    }
}
