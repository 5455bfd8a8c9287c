//! What is run: the task, the shapes and the way of training, in the words of the records.
//!
//! A workload is a plain value. Which combinations a runtime can run is the runtime's to say, not
//! this module's.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantNames};

/// The head on top of the encoder, named as the hub names tasks.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    VariantNames,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Task {
    /// The encoder and its pooler, without a head.
    Base,
    /// A linear classifier on the pooled output.
    #[default]
    SequenceClassification,
    /// A vocabulary-sized decoder, tied to the word embeddings.
    MaskedLm,
}

/// Whether gradients are computed.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    VariantNames,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Mode {
    /// Forward pass, backward pass and optimizer step.
    #[default]
    Train,
    /// Forward pass only, nothing kept for a backward pass.
    Infer,
}

/// The types that weights and activations have.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    VariantNames,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Precision {
    /// Everything in single precision.
    #[default]
    Fp32,
    /// Everything in bfloat16.
    Bf16,
    /// Everything in half precision.
    Fp16,
    /// Single-precision weights, the forward pass under bfloat16 autocast.
    AmpBf16,
    /// Single-precision weights, the forward pass under half-precision autocast with a loss scaler.
    AmpFp16,
}

/// How attention is computed.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    VariantNames,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Attention {
    /// Matrix products and a softmax: the scores exist as a tensor.
    #[default]
    Eager,
    /// A fused kernel, chosen by the runtime.
    Sdpa,
}

/// What updates the parameters.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    VariantNames,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Optimizer {
    /// Two moments a parameter. In PyTorch its default, which updates all parameters at once.
    #[default]
    Adamw,
    /// PyTorch's, one parameter after another.
    AdamwSingle,
    /// PyTorch's, in one kernel.
    AdamwFused,
    /// No state.
    Sgd,
    /// One moment a parameter.
    SgdMomentum,
}

/// The software that runs the job.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    VariantNames,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Runtime {
    /// candle 0.11.1.
    #[default]
    Candle,
    /// PyTorch 2.11 with transformers 5.
    Torch,
}

/// Whose model code runs on candle.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    VariantNames,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Code {
    /// This project's models, in which every parameter receives a gradient.
    #[default]
    Vramcast,
    /// The models of the candle-transformers crate, which run but mostly do not train.
    CandleTransformers,
}

/// One question: what runs, and in which shapes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Workload {
    /// The head.
    pub task: Task,
    /// Training or inference.
    pub mode: Mode,
    /// Sequences in a batch.
    pub batch: u64,
    /// Tokens in a sequence.
    pub seq: u64,
    /// Types of weights and activations.
    #[serde(default)]
    pub precision: Precision,
    /// How attention is computed.
    #[serde(default)]
    pub attention: Attention,
    /// What updates the parameters; not used by inference.
    #[serde(default)]
    pub optimizer: Optimizer,
    /// The software that runs it.
    #[serde(default)]
    pub runtime: Runtime,
    /// Whose model code.
    #[serde(default)]
    pub code: Code,
    /// Whether layers are recomputed in the backward pass.
    #[serde(default)]
    pub checkpointing: bool,
    /// Forward and backward passes per optimizer step.
    #[serde(default = "one")]
    pub accumulation: u32,
    /// Whether the batch has padded rows.
    #[serde(default)]
    pub padding: bool,
}

fn one() -> u32 {
    1
}

impl Workload {
    /// A workload with everything but the shapes at its default.
    pub fn new(task: Task, mode: Mode, batch: u64, seq: u64) -> Self {
        Self {
            task,
            mode,
            batch,
            seq,
            precision: Precision::default(),
            attention: Attention::default(),
            optimizer: Optimizer::default(),
            runtime: Runtime::default(),
            code: Code::default(),
            checkpointing: false,
            accumulation: 1,
            padding: false,
        }
    }

    /// `masked-lm training, batch 8, sequence 128, fp32, adamw`: the workload in one line, for
    /// titles.
    pub fn describe(&self) -> String {
        let mut text = match self.mode {
            Mode::Train => format!("{} training", self.task),
            Mode::Infer => format!("{} inference", self.task),
        };
        text += &format!(
            ", batch {}, sequence {}, {}",
            self.batch, self.seq, self.precision
        );
        if self.mode == Mode::Train {
            text += &format!(", {}", self.optimizer);
        }
        if self.code == Code::CandleTransformers {
            text += ", stock candle-transformers";
        }
        text
    }
}
