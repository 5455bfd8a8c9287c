//! What a process takes of a card beyond its allocator: the context, loaded kernels and the
//! workspaces of libraries.
//!
//! No formula gives it; it is measured per card. A card that this project did not measure gets an
//! interval from what others read on it and on other cards, and the prediction says so.

mod readings;
mod spread;

pub use readings::{READINGS, Reading};
pub use spread::{CardContexts, Interval, cards, of_others};

use crate::bytes::Bytes;
use crate::gpu::Gpu;
use crate::workload::{Mode, Runtime};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A context, with what is known of its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// The expected size.
    pub bytes: Bytes,
    /// The lowest size it may have.
    pub low: Bytes,
    /// The highest.
    pub high: Bytes,
    /// Where this project measured it; `None` if it did not.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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

impl Loaded {
    /// Whose kernels they are.
    pub fn runtime(self) -> Runtime {
        match self {
            Self::Candle { .. } => Runtime::Candle,
            Self::Torch { .. } | Self::TorchUsed => Runtime::Torch,
        }
    }
}

impl fmt::Display for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Candle { half: false } => f.write_str("candle, fp32"),
            Self::Candle { half: true } => f.write_str("candle, half precision"),
            Self::Torch { mode, cudnn } => {
                let what = match mode {
                    Mode::Train => "training",
                    Mode::Infer => "inference",
                };
                let with = if *cudnn { ", cuDNN attention" } else { "" };
                write!(f, "PyTorch, {what}{with}")
            }
            Self::TorchUsed => f.write_str("PyTorch, whatever ran before"),
        }
    }
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

/// The context of a process on a card, or on any card. candle's on a card that this project did not
/// measure is taken to be as PyTorch's: on an H200 it is that of inference within 2 MiB.
pub fn context(gpu: Option<&Gpu>, loaded: Loaded) -> Context {
    let measured = gpu.and_then(|gpu| {
        MEASURED
            .iter()
            .find(|r| r.gpu == gpu.name && r.loaded == loaded)
    });
    if let Some(row) = measured {
        return Context {
            bytes: Bytes(row.bytes),
            low: Bytes(row.low),
            high: Bytes(row.high),
            source: Some(row.source),
        };
    }
    let Interval { low, bytes, high } = gpu.map_or_else(spread::anywhere, spread::on);
    Context {
        bytes,
        low,
        high,
        source: None,
    }
}
