//! What a process takes of a card beyond its allocator: the context, loaded kernels and the
//! workspaces of libraries.
//!
//! No formula gives it; it is measured per card. A card that nobody measured gets an interval, and
//! the prediction says so.

use crate::bytes::{Bytes, MIB};
use crate::gpu::Gpu;
use crate::workload::Mode;

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

/// What a process has loaded, as far as its context depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loaded {
    /// candle's kernels.
    Candle {
        /// Whether products are of half precision.
        half: bool,
    },
    /// PyTorch's kernels for one mode, in a process that did nothing else.
    Torch {
        /// Training or inference.
        mode: Mode,
        /// Whether cuDNN computes attention.
        cudnn: bool,
    },
    /// PyTorch's kernels for whatever a process has run so far.
    TorchUsed,
}

struct Row {
    gpu: &'static str,
    loaded: Loaded,
    low: u64,
    bytes: u64,
    high: u64,
    source: &'static str,
}

const fn candle(half: bool, [low, bytes, high]: [u64; 3], source: &'static str) -> Row {
    Row {
        gpu: "h200",
        loaded: Loaded::Candle { half },
        low,
        bytes,
        high,
        source,
    }
}

const fn torch(mode: Mode, cudnn: bool, [low, bytes, high]: [u64; 3]) -> Row {
    Row {
        gpu: "h200",
        loaded: Loaded::Torch { mode, cudnn },
        low,
        bytes,
        high,
        source: "reports/records/torch-h200-suite.jsonl, driver 580.159",
    }
}

/// Measured contexts: the commonest of a suite of records, with its extremes. Kernels are loaded at
/// first use, in steps of 2 MiB.
const MEASURED: &[Row] = &[
    candle(
        false,
        [720_175_104, 722_272_256, 722_272_256],
        "reports/records/candle-h200.jsonl, driver 580.159",
    ),
    candle(
        true,
        [718_077_952, 720_175_104, 722_272_256],
        "reports/records/candle-h200-levers.jsonl and advice-h200-levers.jsonl, driver 580.159",
    ),
    torch(Mode::Train, false, [787_283_968; 3]),
    torch(Mode::Train, true, [804_061_184; 3]),
    // A decoder of 119,547 words over one sequence took 108 MiB more: not explained.
    torch(Mode::Infer, false, [720_175_104, 720_175_104, 833_421_312]),
    torch(Mode::Infer, true, [726_466_560, 728_563_712, 728_563_712]),
    Row {
        gpu: "h200",
        loaded: Loaded::TorchUsed,
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

/// The context of a process on a card, or on any card.
pub fn context(gpu: Option<&Gpu>, loaded: Loaded) -> Context {
    let measured = gpu.and_then(|gpu| {
        MEASURED
            .iter()
            .find(|r| r.gpu == gpu.name && r.loaded == loaded)
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
