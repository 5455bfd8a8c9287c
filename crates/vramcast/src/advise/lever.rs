//! The levers: what each changes in a job, what it costs, and how to pull it.

use crate::dtype::DType;
use crate::workload::{Attention, Loop, Mode, Optimizer, Precision, Runtime, Workload};
use serde::Serialize;

/// What a lever costs, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cost {
    /// The same results.
    Nothing,
    /// Results that are rounded more.
    Rounding,
    /// More computation, or a card that is less busy.
    Time,
    /// Another way of training.
    Method,
    /// Texts that are cut.
    Data,
}

impl Cost {
    pub(super) const COUNT: usize = Self::Data as usize + 1;

    /// Whether the model that comes out is another than rounding explains.
    pub fn changes_training(self) -> bool {
        self >= Self::Method
    }
}

/// Something that can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lever {
    /// A fused kernel instead of scores that exist as a tensor.
    FusedAttention,
    /// Segments that grow instead of new ones.
    ExpandableSegments,
    /// candle's graph dies before the step.
    DropGraph,
    /// The forward pass under autocast to this.
    Autocast(Precision),
    /// Weights in this.
    HalfWeights(Precision),
    /// The code of the model's own modules instead of what a compiler made of them.
    Uncompiled,
    /// Layers are recomputed in the backward pass.
    Checkpointing,
    /// A batch in this many passes.
    Split(u32),
    /// An optimizer with less state.
    Optimizer(Optimizer),
    /// Nothing is dropped in training.
    NoDropout,
    /// Sequences of this length.
    Shorter(u64),
}

impl Lever {
    /// Its name in a table.
    pub(super) fn name(self) -> String {
        match self {
            Self::FusedAttention => "sdpa attention".to_owned(),
            Self::ExpandableSegments => "expandable segments".to_owned(),
            Self::DropGraph => "dropped graph".to_owned(),
            Self::NoDropout => "no dropout".to_owned(),
            Self::Uncompiled => "no torch.compile".to_owned(),
            Self::Autocast(precision) | Self::HalfWeights(precision) => precision.to_string(),
            Self::Checkpointing => "checkpointing".to_owned(),
            Self::Split(passes) => format!("{passes} passes"),
            Self::Optimizer(optimizer) => optimizer.to_string(),
            Self::Shorter(seq) => format!("sequence {seq}"),
        }
    }

    /// The workload with it pulled.
    pub(super) fn pull(self, workload: &Workload) -> Workload {
        let mut pulled = workload.clone();
        match self {
            Self::FusedAttention => pulled.attention = Attention::Sdpa,
            Self::ExpandableSegments => {
                if !pulled.allocator_conf.is_empty() {
                    pulled.allocator_conf.push(',');
                }
                pulled.allocator_conf += EXPANDABLE;
            }
            Self::Autocast(precision) | Self::HalfWeights(precision) => {
                pulled.precision = precision;
            }
            Self::DropGraph => pulled.drop_graph = true,
            Self::NoDropout => pulled.dropout = false,
            Self::Uncompiled => pulled.compile = false,
            Self::Checkpointing => pulled.checkpointing = true,
            Self::Split(passes) => {
                pulled.batch /= u64::from(passes);
                // Inference has no step to gather passes for.
                if pulled.mode == Mode::Train {
                    pulled.accumulation = pulled.accumulation.saturating_mul(passes);
                }
            }
            Self::Optimizer(optimizer) => pulled.optimizer = optimizer,
            Self::Shorter(seq) => pulled.seq = seq,
        }
        pulled
    }

    /// What it costs.
    pub(super) fn cost(self, mode: Mode) -> Cost {
        match self {
            Self::FusedAttention | Self::ExpandableSegments | Self::DropGraph => Cost::Nothing,
            Self::Autocast(_) => Cost::Rounding,
            Self::HalfWeights(_) if mode == Mode::Infer => Cost::Rounding,
            Self::Checkpointing | Self::Split(_) | Self::Uncompiled => Cost::Time,
            Self::HalfWeights(_) | Self::Optimizer(_) | Self::NoDropout => Cost::Method,
            Self::Shorter(_) => Cost::Data,
        }
    }

    /// What it costs, in words, and who found it.
    pub(super) fn caveat(self, mode: Mode) -> &'static str {
        match self {
            Self::FusedAttention => "none: the same attention, in one kernel (Dao et al. 2022)",
            Self::ExpandableSegments => "none on results; PyTorch calls it experimental",
            Self::DropGraph => "none: nothing reads it once the gradients are there",
            Self::Uncompiled => {
                "slower: kernels are not fused (Ansel et al. 2024); allows what is not predicted of compiled code"
            }
            Self::NoDropout => {
                "less regularization: models overfit sooner (Srivastava et al. 2014)"
            }
            Self::Autocast(Precision::AmpFp16) => {
                "activations keep 11 bits, and steps that overflow are skipped (Micikevicius et al. 2018)"
            }
            Self::Autocast(_) => "activations keep 8 bits (Kalamkar et al. 2019)",
            Self::HalfWeights(_) if mode == Mode::Infer => {
                "results are rounded more: compare them on your data"
            }
            Self::HalfWeights(_) => {
                "small updates of weights are rounded away (Zamirai et al. 2020)"
            }
            Self::Checkpointing => {
                "one more forward pass: about a third more computation (Chen et al. 2016)"
            }
            Self::Split(_) if mode == Mode::Infer => "smaller batches keep the card less busy",
            Self::Split(_) => {
                "the same step where losses are means over equal parts; smaller passes keep the card less busy"
            }
            Self::Optimizer(Optimizer::Adafactor) => {
                "another optimizer: factored second moments, no first (Shazeer and Stern 2018); choose the learning rate anew"
            }
            Self::Optimizer(_) => {
                "another optimizer: on transformers mostly worse than Adam (Zhang et al. 2020); choose the learning rate anew"
            }
            Self::Shorter(_) => "what is longer is cut",
        }
    }

    /// The change to make to a job that is then `after`.
    pub(super) fn change(self, after: &Workload) -> String {
        match after.runtime {
            Runtime::Torch => self.change_torch(after),
            Runtime::Candle => self.change_candle(after),
        }
    }

    /// In candle; what it has no helper for is in this project's `crates/vramcast/src/candle`.
    fn change_candle(self, after: &Workload) -> String {
        let half = match after.precision.products() {
            DType::F16 => "F16",
            _ => "BF16",
        };
        match self {
            Self::FusedAttention | Self::ExpandableSegments | Self::Uncompiled => {
                unreachable!("PyTorch's alone")
            }
            Self::DropGraph => "keep the Vars' gradients, detached (gradients.rs), and drop(loss) before optimizer.step(&grads)?".to_owned(),
            Self::NoDropout => "leave candle_nn::ops::dropout out".to_owned(),
            Self::Autocast(_) => {
                let scaled = match self {
                    Self::Autocast(Precision::AmpFp16) => "; the loss scaled (loss_scale.rs)",
                    _ => "",
                };
                format!("to_dtype(DType::{half}) on input, weight and bias of each Linear, F32 for norms, softmax and loss{scaled}")
            }
            Self::HalfWeights(_) => format!("VarBuilder::from_varmap(&varmap, DType::{half}, &device)"),
            Self::Checkpointing => "run layers on detached Vars, and again in the backward pass (checkpoint.rs)".to_owned(),
            Self::Split(_) if after.mode == Mode::Infer => format!("batches of {}", after.batch),
            Self::Split(_) => format!(
                "batches of {0}; (loss / {1})?.backward()?, gradients added up (gradients.rs), and optimizer.step after every {1}",
                after.batch, after.accumulation
            ),
            Self::Optimizer(_) => "candle_nn::SGD::new(varmap.all_vars(), lr)?".to_owned(),
            Self::Shorter(seq) => format!(
                "tokenizer.with_truncation(Some(TruncationParams {{ max_length: {seq}, ..Default::default() }}))"
            ),
        }
    }

    /// In PyTorch and transformers.
    fn change_torch(self, after: &Workload) -> String {
        let trainer = after.training_loop == Loop::Trainer;
        match self {
            Self::DropGraph => unreachable!("candle's alone"),
            Self::NoDropout => {
                "from_pretrained(..., hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)"
                    .to_owned()
            }
            Self::Uncompiled => "leave torch.compile(model) out".to_owned(),
            Self::FusedAttention => {
                "from_pretrained(..., attn_implementation=\"sdpa\")".to_owned()
            }
            Self::ExpandableSegments => {
                format!("PYTORCH_CUDA_ALLOC_CONF={}", after.allocator_conf)
            }
            Self::Autocast(Precision::AmpFp16) if trainer => {
                "TrainingArguments(fp16=True)".to_owned()
            }
            Self::Autocast(_) if trainer => "TrainingArguments(bf16=True)".to_owned(),
            Self::Autocast(Precision::AmpFp16) => {
                "with torch.autocast(\"cuda\", dtype=torch.float16): around the forward pass, torch.amp.GradScaler() around backward and step".to_owned()
            }
            Self::Autocast(_) => {
                "with torch.autocast(\"cuda\", dtype=torch.bfloat16): around the forward pass"
                    .to_owned()
            }
            Self::HalfWeights(Precision::Fp16) => {
                "from_pretrained(..., dtype=torch.float16), without autocast".to_owned()
            }
            Self::HalfWeights(_) => {
                "from_pretrained(..., dtype=torch.bfloat16), without autocast".to_owned()
            }
            Self::Checkpointing if trainer => {
                "TrainingArguments(gradient_checkpointing=True)".to_owned()
            }
            Self::Checkpointing => "model.gradient_checkpointing_enable()".to_owned(),
            Self::Split(_) if after.mode == Mode::Infer => format!("batches of {}", after.batch),
            Self::Split(_) if trainer => format!(
                "TrainingArguments(per_device_train_batch_size={}, gradient_accumulation_steps={})",
                after.batch, after.accumulation
            ),
            Self::Split(_) => format!(
                "batches of {0}; (loss / {1}).backward(), and optimizer.step() after every {1}",
                after.batch, after.accumulation
            ),
            Self::Optimizer(optimizer) => match (optimizer, trainer) {
                (Optimizer::Adafactor, _) => {
                    "torch.optim.Adafactor(model.parameters(), lr=...)".to_owned()
                }
                (_, true) => "TrainingArguments(optim=\"sgd\")".to_owned(),
                (_, false) => "torch.optim.SGD(model.parameters(), lr=...)".to_owned(),
            },
            Self::Shorter(seq) => {
                format!("tokenizer(..., truncation=True, max_length={seq})")
            }
        }
    }
}

const EXPANDABLE: &str = "expandable_segments:True";
