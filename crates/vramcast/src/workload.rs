//! What is run: the task, the shapes and the way of training, in the words of the records.
//!
//! A workload is a plain value. Which combinations a runtime can run is the runtime's to say, not
//! this module's.

use crate::dtype::DType;
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
    /// The encoder and its pooler, if it has one, without a head.
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

impl Precision {
    /// The type of weights, and so of gradients and the optimizer's state.
    pub const fn weights(self) -> DType {
        match self {
            Self::Fp32 | Self::AmpBf16 | Self::AmpFp16 => DType::F32,
            Self::Bf16 => DType::Bf16,
            Self::Fp16 => DType::F16,
        }
    }

    /// The type that products run in, where it is not that of the weights.
    pub const fn autocast(self) -> Option<DType> {
        match self {
            Self::AmpBf16 => Some(DType::Bf16),
            Self::AmpFp16 => Some(DType::F16),
            Self::Fp32 | Self::Bf16 | Self::Fp16 => None,
        }
    }

    /// The type that products run in.
    pub fn products(self) -> DType {
        self.autocast().unwrap_or(self.weights())
    }
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
    Eager,
    /// A fused kernel, chosen by the runtime.
    #[default]
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
    /// PyTorch's own: a row and a column of moments for each matrix.
    Adafactor,
}

/// Who calls the model, in training on PyTorch.
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
pub enum Loop {
    /// A loop of its own: the batch lies on the device, gradients are cleared at the start of a step.
    #[default]
    Plain,
    /// Hugging Face's `Trainer`: batches are moved to the device one by one, gradients are clipped
    /// and cleared at the end of a step.
    Trainer,
}

/// How the weights came to the device, on PyTorch.
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
pub enum Placement {
    /// The model was built there.
    #[default]
    OnDevice,
    /// It was built on the host and moved: `from_pretrained(..).to("cuda")`.
    To,
    /// It was loaded there: `from_pretrained(.., device_map="cuda")`.
    DeviceMap,
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
    Candle,
    /// PyTorch 2.11 with transformers 5.
    #[default]
    Torch,
}

impl Runtime {
    /// How attention is computed where nothing else is asked for.
    pub fn attention(self) -> Attention {
        match self {
            Self::Candle => Attention::Eager,
            Self::Torch => Attention::Sdpa,
        }
    }

    /// The software's name in a sentence.
    pub fn product(self) -> &'static str {
        match self {
            Self::Candle => "candle",
            Self::Torch => "PyTorch",
        }
    }
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
    /// Whether elements are dropped in training, as the model's configuration says.
    #[serde(default = "yes")]
    pub dropout: bool,
    /// Whether candle's graph dies before the optimizer's step, as PyTorch's always does.
    #[serde(default)]
    pub drop_graph: bool,
    /// Whether the batch has padded rows.
    #[serde(default)]
    pub padding: bool,
    /// Who calls the model.
    #[serde(default, rename = "loop")]
    pub training_loop: Loop,
    /// How the weights came to the device.
    #[serde(default)]
    pub placement: Placement,
    /// The rank of LoRA's adapters on queries and values; 0 where there are none.
    #[serde(default)]
    pub lora_rank: u64,
    /// Whether `torch.compile` rewrites the model.
    #[serde(default)]
    pub compile: bool,
    /// How many models like this one the process holds and runs in turn; more than one in inference
    /// on PyTorch alone.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub models: u64,
    /// Options of PyTorch's allocator, in the syntax of `PYTORCH_CUDA_ALLOC_CONF`.
    #[serde(default)]
    pub allocator_conf: String,
}

fn one<N: From<u8>>() -> N {
    N::from(1)
}

fn is_one(models: &u64) -> bool {
    *models == 1
}

fn yes() -> bool {
    true
}

impl Workload {
    /// A workload with everything but the shapes at the runtime's default.
    pub fn new(runtime: Runtime, task: Task, mode: Mode, batch: u64, seq: u64) -> Self {
        Self {
            task,
            mode,
            batch,
            seq,
            precision: Precision::default(),
            attention: runtime.attention(),
            optimizer: Optimizer::default(),
            runtime,
            code: Code::default(),
            checkpointing: false,
            accumulation: 1,
            dropout: true,
            drop_graph: false,
            padding: false,
            training_loop: Loop::default(),
            placement: Placement::default(),
            lora_rank: 0,
            compile: false,
            models: 1,
            allocator_conf: String::new(),
        }
    }

    /// `masked-lm training, batch 8, sequence 128, fp32, adamw`: the workload in one line, for
    /// titles.
    pub fn describe(&self) -> String {
        self.words(&format!("batch {}, sequence {}, ", self.batch, self.seq))
    }

    /// The same without batch and sequence.
    pub fn describe_kind(&self) -> String {
        self.words("")
    }

    fn words(&self, sizes: &str) -> String {
        let mut text = match self.mode {
            Mode::Train => format!("{} training", self.task),
            Mode::Infer => format!("{} inference", self.task),
        };
        text += &format!(", {sizes}{}", self.precision);
        if self.mode == Mode::Train {
            text += &format!(", {}", self.optimizer);
        }
        if self.code == Code::CandleTransformers {
            text += ", stock candle-transformers";
        }
        if self.attention != self.runtime.attention() {
            text += &format!(", {} attention", self.attention);
        }
        let more = [
            (self.checkpointing, "checkpointing".to_owned()),
            (!self.dropout, "no dropout".to_owned()),
            (self.drop_graph, "graph dropped before the step".to_owned()),
            (self.padding, "padded".to_owned()),
            (
                self.accumulation > 1,
                format!("{} passes a step", self.accumulation),
            ),
            (
                self.lora_rank > 0,
                format!("LoRA of rank {}", self.lora_rank),
            ),
            (self.compile, "compiled".to_owned()),
            (self.models > 1, format!("{} models in turn", self.models)),
            (self.training_loop == Loop::Trainer, "Trainer".to_owned()),
            (
                self.placement != Placement::default(),
                format!("placed by {}", self.placement),
            ),
            (!self.allocator_conf.is_empty(), self.allocator_conf.clone()),
        ];
        for (_, words) in more.into_iter().filter(|(holds, _)| *holds) {
            text += &format!(", {words}");
        }
        text
    }
}
