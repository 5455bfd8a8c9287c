//! A measured run, as a line of JSON: what ran, where, how it ended, and what was measured.
//!
//! Fields that only some runtimes or devices have are absent elsewhere, not zero. Records of other
//! programs may carry more fields; they are ignored.

use crate::bytes::Bytes;
use crate::timeline::Phase;
use crate::workload::Workload;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The form of records and predictions that this version writes.
pub const SCHEMA: u32 = 1;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum RunOutcome {
    /// It ran.
    Ok,
    /// It ran out of memory.
    Oom,
    /// It ended in another way.
    Failed,
}

/// One step of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// On candle: its phases, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhasePeak>,
    /// On PyTorch: its allocated bytes.
    #[serde(flatten)]
    pub allocated: Option<AllocatedStep>,
}

/// Allocated bytes in a step of PyTorch: what is there and the highest of each phase. Inference has
/// the first three alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocatedStep {
    /// When it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Bytes>,
    /// Highest of the forward pass.
    pub peak_fwd: Bytes,
    /// After it.
    pub after_fwd: Bytes,
    /// Highest of the backward pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bwd: Option<Bytes>,
    /// After it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_bwd: Option<Bytes>,
    /// Highest of the optimizer's step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_step: Option<Bytes>,
    /// After it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_step: Option<Bytes>,
}

/// The highest figures of one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhasePeak {
    /// Which phase.
    pub name: Phase,
    /// Highest requested bytes.
    pub peak_requested: Bytes,
    /// Highest reserved bytes, where there is a pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_reserved: Option<Bytes>,
}

/// What a run measured of itself and what was measured around it. Sizes in bytes. A run that did
/// not end well has only what was measured around it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// Elements of all parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_params: Option<u64>,
    /// Parameter tensors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_tensors: Option<u64>,
    /// Elements of the parameters that received a gradient, in training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_params_with_gradient: Option<u64>,
    /// Parameter tensors that received a gradient, in training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_tensors_with_gradient: Option<u64>,
    /// Steps of the optimizer that a loss scaler left out, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps_left_out: Option<u64>,
    /// Requested bytes once the model and the optimizer were built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_requested: Option<Bytes>,
    /// The highest requested bytes after that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_requested: Option<Bytes>,
    /// Allocated bytes before the run began, on PyTorch: what an earlier run in the same process
    /// left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_allocated: Option<Bytes>,
    /// Allocated bytes once the model was built, above the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_allocated: Option<Bytes>,
    /// The highest allocated bytes after that, the base included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_allocated: Option<Bytes>,
    /// How often PyTorch gave its cache back to make room (`num_alloc_retries`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_alloc_retries: Option<u64>,
    /// How many allocations the run made, where they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocations: Option<u64>,
    /// The highest reserved bytes after the model was built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_reserved: Option<Bytes>,
    /// Reserved bytes at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Bytes>,
    /// The steps, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Nanoseconds that the host spent on allocating, launching and freeing the smallest operation,
    /// before the run: what tells a fast host from a slow one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_ns: Option<u64>,
    /// `cuMemGetInfo`'s total: what a process can use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usable: Option<Bytes>,
    /// Used bytes of the device by `cuMemGetInfo`, once the device existed and held nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_after_context: Option<Bytes>,
    /// Used bytes of the device less reserved ones by `cuMemGetInfo`, after the run: context,
    /// modules and workspaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Bytes>,
    /// NVML's used bytes before the process had a context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvml_before: Option<Bytes>,
    /// NVML's highest used bytes while it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvml_used: Option<Bytes>,
    /// How often NVML was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvml_samples: Option<u64>,
}

impl Measured {
    /// The highest reserved bytes; those at the end where no peak was read.
    pub fn highest_reserved(&self) -> Option<Bytes> {
        self.peak_reserved.or(self.reserved)
    }

    /// What NVML showed beyond what it showed before; records of an idle card do not say what that
    /// was: nothing.
    pub fn nvml(&self) -> Option<Bytes> {
        let before = self.nvml_before.unwrap_or(Bytes(0));
        let used = self.nvml_used?;
        Some(Bytes(used.0.saturating_sub(before.0)))
    }
}

/// One line of a record file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The form of this line.
    pub schema: u32,
    /// Tells records apart.
    pub id: String,
    /// The model's name, or the path that was given.
    pub model: String,
    /// What ran.
    #[serde(flatten)]
    pub workload: Workload,
    /// The runtime's version.
    pub runtime_version: String,
    /// transformers' version, on PyTorch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transformers_version: Option<String>,
    /// `cpu` or `cuda:0`.
    #[serde(default = "cuda")]
    pub device: String,
    /// The card's product name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// NVML's total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Bytes>,
    /// What PyTorch's allocator was allowed to reserve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap_bytes: Option<Bytes>,
    /// Whether `TORCH_CUDNN_SDPA_DEPRIORITIZED` was set.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cudnn_last: bool,
    /// The driver's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// How it ended.
    pub outcome: RunOutcome,
    /// What it said when it did not end well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What was measured.
    #[serde(flatten)]
    pub measured: Measured,
}

fn cuda() -> String {
    "cuda:0".to_owned()
}

/// A search for the largest batch that runs with PyTorch's allocator capped, in one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchSearch {
    /// The form of this line.
    pub schema: u32,
    /// Tells records apart.
    pub id: String,
    /// The model's name.
    pub model: String,
    /// What ran, without its batch.
    #[serde(flatten)]
    pub workload: Workload,
    /// The card's product name.
    pub gpu: Option<String>,
    /// What the allocator was allowed to reserve.
    pub cap_bytes: Bytes,
    /// The largest batch that ran.
    pub max_batch: u64,
    /// Every batch that was tried.
    pub tried: BTreeMap<u64, Tried>,
}

/// One batch of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    /// Whether it ran.
    pub fits: bool,
}

/// The smallest cap of PyTorch's allocator with which a run still succeeded, between two caps that
/// were tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NeedSearch {
    /// The form of this line.
    pub schema: u32,
    /// Tells records apart.
    pub id: String,
    /// The model's name.
    pub model: String,
    /// What ran.
    #[serde(flatten)]
    pub workload: Workload,
    /// The card's product name.
    pub gpu: Option<String>,
    /// The smallest cap with which it ran.
    pub runs_at_cap: Bytes,
    /// The largest with which it did not.
    pub fails_at_cap: Bytes,
}

/// When a training loop empties PyTorch's cache.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, strum::Display,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Emptied {
    /// It does not.
    Never,
    /// After each epoch.
    Epoch,
    /// After each step.
    Step,
}

/// Epochs of a training loop on PyTorch whose batches differ in length, in a process that ran others
/// before. The workload's sequence is the longest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Epochs {
    /// The form of this line.
    pub schema: u32,
    /// Tells records apart.
    pub id: String,
    /// The model's name.
    pub model: String,
    /// What ran.
    #[serde(flatten)]
    pub workload: Workload,
    /// The card's product name.
    pub gpu: Option<String>,
    /// Tokens of a sequence in each batch of an epoch.
    pub lengths: Vec<u64>,
    /// When the cache was emptied.
    pub emptied: Emptied,
    /// What the allocator was allowed to reserve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap_bytes: Option<Bytes>,
    /// How it ended.
    pub outcome: RunOutcome,
    /// The epochs that ended well, in order.
    pub epochs: Vec<Epoch>,
}

/// One epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// Highest allocated bytes.
    pub peak_allocated: Bytes,
    /// Highest reserved bytes.
    pub peak_reserved: Bytes,
    /// Reserved bytes after it, and after the cache was emptied where it is.
    pub reserved_after: Bytes,
    /// How long it took, in milliseconds.
    pub milliseconds: u64,
}

/// Several processes that run the same job on one card at the same time, each with PyTorch's
/// allocator capped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sharing {
    /// The form of this line.
    pub schema: u32,
    /// Tells records apart.
    pub id: String,
    /// The model's name.
    pub model: String,
    /// What each of them ran.
    #[serde(flatten)]
    pub workload: Workload,
    /// The card's product name.
    pub gpu: Option<String>,
    /// How many there were.
    pub processes: u64,
    /// What each allocator was allowed to reserve.
    pub cap_bytes: Bytes,
    /// How the worst of them ended.
    pub outcome: RunOutcome,
    /// NVML's used bytes before they had contexts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvml_before: Option<Bytes>,
    /// NVML's highest used bytes while they were there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvml_used: Option<Bytes>,
}
