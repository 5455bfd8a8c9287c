//! PyTorch 2.11 with transformers 5, without values: every allocation and free, in order.
//!
//! `ops` and `attention` have the operations of the forward pass, `backward` what their nodes do,
//! `autograd` the engine, `optimizer` the steps; `placement` has how the weights come to the device,
//! `training` and `trainer` the loops, `lora` the adapters, `compiled` what `torch.compile` makes of a
//! model. The rules are read off the traces in
//! `reports/records/torch-h200-*.jsonl.gz`, which `tests/torch_traces.rs` holds them to; a comment
//! names the source file of PyTorch that explains a rule where one is known.
//!
//! Limits. That a result keeps the strides of its inputs is followed where the models here need it,
//! for operations on one tensor. Masks and labels of 131,072 elements and more may make staging
//! buffers that were never measured. Gradients clipped in half precision follow from their source
//! and were not traced.

mod adafactor;
mod attention;
mod autograd;
mod backward;
mod clipping;
mod compiled;
mod kernels;
mod layout;
mod lora;
mod ops;
mod optimizer;
mod placement;
mod process;
mod profile;
mod reduction;
mod scaler;
mod tensor;
mod trace;
mod trainer;
mod training;

use crate::backend::{Activation, Attended, Backend, BiasOf, Heads, Init, LayerNorm, Linear};
use crate::bytes::TooLarge;
use crate::config::ModelConfig;
use crate::dtype::DType;
use crate::models::{Inputs, Model};
use crate::timeline::{Category, Phase, Scope, Timeline};
use crate::workload::{Attention, Loop, Mode, Optimizer, Placement, Precision, Task, Workload};
pub use process::Process;
pub use profile::{BUILDS, Build, Card, Profile};
pub use trace::difference;

use backward::Kind;
use compiled::{Program, Shape};
use layout::{Dims, Layout};
use lora::Adapter;
use profile::Kernel;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::rc::Rc;
use tensor::{Device, Tensor};

/// What a run leaves.
#[derive(Clone, Debug)]
pub struct Run {
    /// What was allocated and freed.
    pub timeline: Timeline,
    /// Elements of all parameters of the model; adapters are beside it.
    pub n_params: u64,
}

/// Why a run has no timeline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// A size does not fit in 64 bits.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// A way of running that is not followed.
    #[error("PyTorch is not predicted so far with {0}")]
    NotFollowed(&'static str),
}

/// Runs `steps` steps of training, or passes of inference, in the shadow.
///
/// # Errors
/// A size that does not fit in 64 bits, or a lever that is not followed.
pub fn run(
    config: &ModelConfig,
    workload: &Workload,
    profile: Profile,
    process: Process,
    steps: u32,
) -> Result<Run, RunError> {
    let config = &config.with_dropout(workload.dropout);
    let dtype = workload.precision.weights();
    let tokens = workload.batch.checked_mul(workload.seq);
    if tokens.is_none_or(|tokens| tokens > u64::from(u32::MAX)) {
        return Err(TooLarge.into());
    }
    check_head(config, workload, &profile)?;
    check_levers(workload)?;
    check_compile(config, workload, &profile)?;
    let device = Device::new(profile, workload.mode == Mode::Train);
    let mut shadow = Shadow::new(device.clone(), Rc::new(workload.clone()), dtype);
    shadow.compile(config);
    let held = device.hold(process, workload.placement);
    let ran = shadow.run(config, steps);
    drop(held);
    match ran {
        Ok(n_params) => Ok(Run {
            timeline: device.0.tape.finish()?,
            n_params,
        }),
        Err(never) => match never {},
    }
}

/// The kernel of fused attention, where it is asked for and there is one.
fn kernel(config: &ModelConfig, workload: &Workload, profile: &Profile) -> Option<Kernel> {
    let dtype = workload.precision.products();
    let fused = workload.attention == Attention::Sdpa;
    fused
        .then(|| profile.attention(dtype, config.head_width(), has_mask(workload)))
        .flatten()
}

/// Whether attention gets a mask: compiled code does not look whether it is all ones.
fn has_mask(workload: &Workload) -> bool {
    workload.compile || is_padded(workload)
}

/// Whether there is padding: one sequence has none, and neither has a single token.
fn is_padded(workload: &Workload) -> bool {
    workload.padding && workload.batch > 1 && workload.seq > 1
}

/// Whether cuDNN computes attention, so that its kernels are loaded.
pub fn uses_cudnn(config: &ModelConfig, workload: &Workload, profile: &Profile) -> bool {
    kernel(config, workload, profile) == Some(Kernel::Cudnn)
}

/// Refuses what FlashAttention would pad first: heads of a width that is no multiple of 8.
fn check_head(
    config: &ModelConfig,
    workload: &Workload,
    profile: &Profile,
) -> Result<(), RunError> {
    let half = workload.precision.products() != DType::F32;
    let flash = half && !has_mask(workload) && profile.card.compute_capability.0 >= 8;
    let wide = config.head_width().is_multiple_of(8);
    if workload.attention == Attention::Sdpa && flash && !wide {
        return Err(RunError::NotFollowed(
            "fused attention in half precision for heads of a width that is no multiple of 8; use \
             --attention eager",
        ));
    }
    Ok(())
}

/// Refuses what is not followed.
fn check_levers(workload: &Workload) -> Result<(), RunError> {
    let by_trainer = workload.mode == Mode::Train && workload.training_loop == Loop::Trainer;
    let not_followed = [
        (
            by_trainer && workload.task == Task::Base,
            "the Trainer's loop over a model that computes no loss",
        ),
        (
            by_trainer && workload.optimizer == Optimizer::Adafactor,
            "the Trainer's own Adafactor",
        ),
        (
            workload.lora_rank > 0 && workload.checkpointing,
            "LoRA with checkpointing",
        ),
        (
            workload.drop_graph,
            "a graph that is dropped before the step: backward() has freed it",
        ),
    ];
    match not_followed.iter().find(|(asked, _)| *asked) {
        Some((_, what)) => Err(RunError::NotFollowed(what)),
        None => Ok(()),
    }
}

/// Refuses what the code that Inductor generates was not read for.
fn check_compile(
    config: &ModelConfig,
    workload: &Workload,
    profile: &Profile,
) -> Result<(), RunError> {
    if !workload.compile {
        return Ok(());
    }
    let ModelConfig::Bert(bert) = config else {
        return Err(RunError::NotFollowed(
            "torch.compile of a model other than BERT",
        ));
    };
    let drops = [
        bert.hidden_dropout_prob,
        bert.attention_probs_dropout_prob,
        bert.classifier_dropout,
    ];
    let training = workload.mode == Mode::Train;
    let measured = match workload.precision.autocast() {
        Some(_) => Kernel::Cudnn,
        None => Kernel::Efficient,
    };
    let not_followed = [
        (
            !training && workload.precision != Precision::Fp32,
            "torch.compile of inference in another precision than fp32",
        ),
        (
            !profile.build.version.starts_with("2.11"),
            "torch.compile before 2.11",
        ),
        (
            profile.card.compute_capability < (7, 0),
            "torch.compile on a card older than Volta, for which Triton makes no code",
        ),
        (
            workload.task != Task::SequenceClassification,
            "torch.compile of a model that is no sequence classifier",
        ),
        (
            workload.precision.weights() != DType::F32,
            "torch.compile of weights in half precision",
        ),
        (
            training && workload.training_loop == Loop::Trainer,
            "torch.compile under the Trainer",
        ),
        (workload.lora_rank > 0, "torch.compile of LoRA"),
        (
            training && workload.checkpointing && bert.num_hidden_layers < 2,
            "torch.compile of a single checkpointed layer",
        ),
        (
            workload.attention == Attention::Eager,
            "torch.compile of eager attention",
        ),
        (
            kernel(config, workload, profile) != Some(measured),
            "torch.compile of attention by kernels other than an H200's",
        ),
        (
            workload.accumulation > 1,
            "torch.compile of accumulated gradients",
        ),
        (
            bert.hidden_act != Activation::Gelu,
            "torch.compile of an activation other than gelu",
        ),
        (
            training && drops.contains(&0.0),
            "torch.compile without dropout",
        ),
        (
            bert.hidden_size % 64 != 0 || bert.intermediate_size % 64 != 0,
            "torch.compile of widths that are no multiple of 64",
        ),
        (workload.batch == 1, "torch.compile of a single sequence"),
        (workload.models > 1, "torch.compile of several models"),
    ];
    if let Some((_, what)) = not_followed.iter().find(|(asked, _)| *asked) {
        return Err(RunError::NotFollowed(what));
    }
    // Inductor's estimates add up what lives at once: no sum of them may overflow.
    const LARGEST: u64 = 1 << 44;
    let rows = workload.batch.saturating_mul(workload.seq);
    let widths = [
        workload.seq.saturating_mul(bert.num_attention_heads),
        bert.hidden_size,
        bert.intermediate_size,
        bert.num_labels,
    ];
    let is_too_large = |width: u64| rows.saturating_mul(width) > LARGEST;
    if widths.into_iter().any(is_too_large) {
        return Err(TooLarge.into());
    }
    Ok(())
}

/// The interpreter.
#[derive(Clone)]
struct Shadow {
    device: Device,
    workload: Rc<Workload>,
    dtype: DType,
    /// In the order of `Module.parameters`; a place may be kept for one that is made later.
    parameters: Rc<RefCell<Vec<Option<Tensor>>>>,
    /// Weights that get an adapter.
    targets: Rc<RefCell<Vec<Tensor>>>,
    /// By the buffer of the weight beside which they run, in the order of the parameters.
    adapters: Rc<RefCell<BTreeMap<u32, Adapter>>>,
    /// Shapes of buffers that are made when the parameters are loaded.
    late_buffers: Rc<RefCell<Vec<Dims>>>,
    /// Those that were made then.
    buffers: Rc<RefCell<Vec<Tensor>>>,
    /// The logits beside a loss, where they are used once more.
    returned: Rc<RefCell<Option<Tensor>>>,
    /// What Inductor generated, if anything.
    program: Option<Rc<Program>>,
}

type Made = Result<Tensor, Infallible>;

impl Shadow {
    fn new(device: Device, workload: Rc<Workload>, dtype: DType) -> Self {
        Self {
            device,
            workload,
            dtype,
            parameters: Rc::default(),
            targets: Rc::default(),
            adapters: Rc::default(),
            late_buffers: Rc::default(),
            buffers: Rc::default(),
            returned: Rc::default(),
            program: None,
        }
    }

    /// Compiles the model, where the workload asks for it.
    fn compile(&mut self, config: &ModelConfig) {
        let (workload, profile) = (&*self.workload, &self.device.0.profile);
        if let (true, ModelConfig::Bert(bert), Some(kernel)) =
            (workload.compile, config, kernel(config, workload, profile))
        {
            let dtype = workload.precision.products();
            let shape = Shape::new(bert, workload, dtype, kernel, profile.card);
            self.program = Some(Rc::new(Program::new(shape, workload.mode)));
        }
    }

    /// Returns the elements of all parameters of one model.
    fn run(&self, config: &ModelConfig, steps: u32) -> Result<u64, Infallible> {
        let tape = &self.device.0.tape;
        tape.begin(Phase::Load);
        let model = self.place(config)?;
        match (self.workload.mode, self.workload.training_loop) {
            (Mode::Infer, _) => {
                // Each of several models is brought to the device before any of them computes.
                let mut served = vec![(self.clone(), model)];
                for _ in 1..self.workload.models {
                    let other = self.beside();
                    let model = other.place(config)?;
                    served.push((other, model));
                }
                self.infer(&served, steps)?;
            }
            (Mode::Train, Loop::Plain) => self.train(&model, steps)?,
            (Mode::Train, Loop::Trainer) => self.train_by_trainer(&model, steps)?,
        }
        Ok(self.elements_of_parameters())
    }

    /// An interpreter of the same workload whose tape nobody reads.
    fn scratch(&self) -> Self {
        let device = Device::new(self.device.0.profile, self.workload.mode == Mode::Train);
        Self::new(device, self.workload.clone(), self.dtype)
    }

    /// An interpreter of the same workload on the same device, for a model beside this one.
    fn beside(&self) -> Self {
        Self {
            program: self.program.clone(),
            ..Self::new(self.device.clone(), self.workload.clone(), self.dtype)
        }
    }

    fn elements_of_parameters(&self) -> u64 {
        let parameters = self.parameters.borrow();
        let sizes = parameters.iter().flatten().map(Tensor::elements);
        sizes.fold(0, u64::saturating_add)
    }

    /// Passes on one batch, of each model in turn.
    fn infer(&self, models: &[(Self, Model<Tensor>)], passes: u32) -> Result<(), Infallible> {
        let inputs = self.inputs();
        for (shadow, _) in models {
            shadow.add_adapters();
        }
        for _ in 0..passes {
            for (shadow, model) in models {
                drop(shadow.forward(model, &inputs)?);
                self.device.end_autocast();
            }
        }
        self.device.0.tape.end();
        Ok(())
    }

    /// Token ids, the mask, and labels where the task has some.
    fn inputs(&self) -> Inputs<Tensor> {
        let Workload {
            batch,
            seq,
            task,
            mode,
            ..
        } = *self.workload;
        let ids = |dims: &[u64]| self.device.tensor(dims, DType::I64, "ids");
        let make = || Inputs {
            input_ids: ids(&[batch, seq]),
            attention_mask: ids(&[batch, seq]),
            token_type_ids: None,
            labels: match (mode, task) {
                (Mode::Infer, _) | (Mode::Train, Task::Base) => None,
                (Mode::Train, Task::SequenceClassification) => Some(ids(&[batch])),
                (Mode::Train, Task::MaskedLm) => Some(ids(&[batch, seq])),
            },
        };
        self.device.0.tape.with_category(Category::Inputs, make)
    }

    fn begin(&self) -> &Device {
        self.device.0.tape.begin_operation();
        &self.device
    }

    /// Whether elements are dropped with probability `p`.
    fn drops(&self, p: f64) -> bool {
        self.workload.mode == Mode::Train && p > 0.0
    }

    fn fresh_parameter(&self, shape: &[u64]) -> Tensor {
        let device = self.begin();
        device.0.tape.with_category(Category::Parameters, || {
            device.tensor(shape, self.dtype, "parameter")
        })
    }

    /// Makes a tensor a parameter of the model.
    fn as_parameter(&self, tensor: Tensor) -> Tensor {
        if self.is_frozen() {
            return tensor;
        }
        self.as_leaf(tensor)
    }

    /// Makes a tensor one that gradients are computed for.
    fn as_leaf(&self, tensor: Tensor) -> Tensor {
        let leaf = self.device.0.graph.borrow_mut().leaf();
        tensor.with_edge(Some(leaf))
    }
}

impl Backend for Shadow {
    type Tensor = Tensor;
    type Mask = Option<Tensor>;
    type Error = Infallible;

    fn parameter(&self, name: &str, shape: &[u64], _: Init) -> Made {
        let parameter = self.as_parameter(self.fresh_parameter(shape));
        self.mark_target(name, &parameter);
        self.parameters.borrow_mut().push(Some(parameter.clone()));
        Ok(parameter)
    }

    fn ids_buffer(&self, _: &str, len: u64) -> Result<Option<Tensor>, Infallible> {
        Ok(Some(self.place_buffer(&[1, len])))
    }

    fn encoder_built(&self, positions: Option<&Tensor>) -> Result<(), Infallible> {
        if let Some(positions) = positions {
            self.initialize_positions(positions);
        }
        Ok(())
    }

    fn tied_decoder<R>(
        &self,
        table: &Tensor,
        _: &str,
        bias_of: BiasOf,
        transform: impl FnOnce() -> Result<R, Infallible>,
    ) -> Result<(R, Linear<Tensor>), Infallible> {
        let mut place = None;
        let keep_place = || {
            self.parameters.borrow_mut().push(None);
            self.parameters.borrow().len() - 1
        };
        if bias_of == BiasOf::Head {
            place = Some(keep_place());
        }
        let transform = transform()?;
        let bias = self.tied_bias(table, bias_of);
        let place = place.unwrap_or_else(keep_place);
        self.parameters.borrow_mut()[place] = Some(bias.clone());
        let decoder = Linear {
            weight: table.clone(),
            bias,
        };
        Ok((transform, decoder))
    }

    fn held<V: Clone>(&self, local: &V) -> Option<V> {
        Some(local.clone())
    }

    fn within<R>(
        &self,
        scope: Scope,
        part: impl FnOnce() -> Result<R, Infallible>,
    ) -> Result<R, Infallible> {
        let before = self.device.0.tape.enter(scope);
        let result = part();
        if self.workload.placement == Placement::To {
            self.place_late_buffers();
        }
        self.device.0.tape.enter(before);
        result
    }

    fn layer(&self, hidden: &Tensor, layer: impl Fn(&Self, &Tensor) -> Made + 'static) -> Made {
        if !self.workload.checkpointing || self.workload.mode == Mode::Infer {
            return layer(self, hidden);
        }
        let layer = Rc::new(layer);
        let (shadow, second) = (self.clone(), layer.clone());
        // The second run is under an autocast of its own.
        let again = move |hidden: &Tensor| {
            let device = &shadow.device;
            device.0.autocast.set(shadow.workload.precision.autocast());
            drop(second(&shadow, hidden));
            device.end_autocast();
        };
        self.device
            .checkpointed(hidden, Rc::new(again), || layer(self, hidden))
    }

    /// Gathered from the model's zeros: for each position, or a row that is seen once for each
    /// sequence.
    fn token_types(
        &self,
        ids: &Tensor,
        positions: Option<&Tensor>,
        given: Option<&Tensor>,
        _: Option<&Tensor>,
    ) -> Made {
        let device = self.begin();
        Ok(match (given, positions) {
            (Some(given), _) => given.clone(),
            (None, Some(positions)) => device.tensor(positions.dims(), DType::I64, "gather"),
            (None, None) => {
                let row = device.tensor(&[1, ids.dims()[1]], DType::I64, "gather");
                row.viewed(row.layout().expand(ids.dims()))
            }
        })
    }

    fn embedding(&self, ids: &Tensor, table: &Tensor) -> Made {
        Ok(self.begin().embedding(ids, table))
    }

    /// The positions are a slice of the model's buffer, which outlives every step.
    fn position_embedding(&self, table: &Tensor, seq: u64) -> Made {
        let device = self.begin();
        let out = device.tensor(&[1, seq, table.dims()[1]], table.dtype(), "embedding");
        let positions = table.viewed(Layout::contiguous(&[1, seq]));
        Ok(device.record(out, Kind::Embedding, &[table], vec![positions]))
    }

    fn padded_positions(&self, ids: &Tensor, _: u64) -> Made {
        Ok(self.begin().padded_positions(ids))
    }

    fn padding_mask(&self, mask: &Tensor) -> Result<Option<Tensor>, Infallible> {
        let workload = &*self.workload;
        let padded = is_padded(workload);
        let device = self.begin();
        Ok(device.bidirectional_mask(mask, padded, workload.attention, self.dtype))
    }

    fn linear(&self, x: &Tensor, layer: &Linear<Tensor>) -> Made {
        Ok(self.begin().linear(x, &layer.weight, &layer.bias))
    }

    fn project(&self, x: &Tensor, layer: &Linear<Tensor>, heads: u64) -> Made {
        let device = self.begin();
        let projected = self.adapted(x, layer);
        Ok(device.split_heads(&projected, heads))
    }

    fn layer_norm(&self, x: &Tensor, norm: &LayerNorm<Tensor>) -> Made {
        Ok(self.begin().layer_norm(x, &norm.weight, &norm.bias))
    }

    fn add(&self, x: &Tensor, y: &Tensor) -> Made {
        Ok(self.begin().add(x, y))
    }

    fn dropout(&self, x: Tensor, p: f64) -> Made {
        let device = self.begin();
        Ok(if self.drops(p) { device.dropout(&x) } else { x })
    }

    fn activation(&self, x: &Tensor, function: Activation) -> Made {
        let device = self.begin();
        Ok(match function {
            Activation::Gelu | Activation::GeluTanh => device.of_input(x, "gelu"),
            Activation::GeluNew => device.gelu_new(x),
            Activation::GeluFast => device.gelu_fast(x),
            Activation::Relu => device.of_result(x, "relu", Kind::Elementwise),
            Activation::Tanh => device.of_result(x, "tanh", Kind::Elementwise),
        })
    }

    fn attention(
        &self,
        heads: Heads<Tensor>,
        mask: &Option<Tensor>,
        dropout: f64,
    ) -> Result<Attended<Tensor>, Infallible> {
        let device = self.begin();
        Ok(match self.workload.attention {
            Attention::Eager => device.eager_attention(heads, mask.as_ref(), self.drops(dropout)),
            Attention::Sdpa => device.fused_attention(heads, mask.as_ref(), self.drops(dropout)),
        })
    }

    fn first_token(&self, x: &Tensor) -> Made {
        Ok(self.begin().select(x, 1))
    }

    fn cross_entropy(&self, logits: &Tensor, labels: &Tensor) -> Made {
        if self.casts_outputs() {
            self.returned.replace(Some(logits.clone()));
        }
        Ok(self.begin().cross_entropy(logits, labels))
    }

    fn mean_square(&self, x: &Tensor) -> Made {
        Ok(self.begin().mean_square(x))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Runtime;
    use strum::VariantNames;

    const FAMILIES: [&str; 3] = ["bert", "roberta", "distilbert"];

    /// The same sizes in the words of every family.
    fn tiny(family: &str) -> ModelConfig {
        ModelConfig::from_json(&format!(
            r#"{{"model_type": "{family}", "vocab_size": 60, "max_position_embeddings": 24,
                "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
                "intermediate_size": 48, "dim": 32, "n_layers": 2, "n_heads": 4,
                "hidden_dim": 48}}"#
        ))
        .unwrap()
    }

    /// Every combination of the levers that a name has, with each way to load, to train
    /// and to adapt.
    fn workloads() -> Vec<Workload> {
        let ways = [
            (Loop::Plain, Placement::OnDevice, 0),
            (Loop::Plain, Placement::DeviceMap, 4),
            (Loop::Trainer, Placement::To, 0),
            (Loop::Trainer, Placement::OnDevice, 4),
        ];
        let mut all = Vec::new();
        for task in [Task::Base, Task::SequenceClassification, Task::MaskedLm] {
            for precision in Precision::VARIANTS {
                for optimizer in Optimizer::VARIANTS {
                    for attention in [Attention::Eager, Attention::Sdpa] {
                        for lever in 0..16 {
                            let mode = if lever & 8 == 0 {
                                Mode::Train
                            } else {
                                Mode::Infer
                            };
                            let (batch, seq) = if lever & 4 == 0 { (1, 1) } else { (3, 11) };
                            all.extend(ways.map(|(training_loop, placement, lora_rank)| {
                                Workload {
                                    precision: precision.parse().unwrap(),
                                    optimizer: optimizer.parse().unwrap(),
                                    attention,
                                    checkpointing: lever & 1 != 0,
                                    padding: lever & 2 != 0,
                                    accumulation: 1 + lever % 2,
                                    training_loop,
                                    placement,
                                    lora_rank,
                                    ..Workload::new(Runtime::Torch, task, mode, batch, seq)
                                }
                            }));
                        }
                    }
                }
            }
        }
        all.retain(|workload| check_levers(workload).is_ok());
        all
    }

    #[test]
    fn every_step_but_the_first_does_the_same() {
        for family in FAMILIES {
            for workload in workloads() {
                let live_after = |steps| {
                    let run = run(
                        &tiny(family),
                        &workload,
                        Profile::TRACED,
                        Process::Fresh,
                        steps,
                    )
                    .unwrap();
                    let last = run.timeline.events.len() - 1;
                    run.timeline.live_at(last).iter().sum::<u64>()
                };
                let (second, third) = (live_after(2), live_after(3));
                assert_eq!(second, third, "{family} {}", workload.describe());
            }
        }
    }

    #[test]
    fn a_compiled_step_too_large_to_estimate_is_an_error() {
        let workload = Workload {
            compile: true,
            ..Workload::new(
                Runtime::Torch,
                Task::SequenceClassification,
                Mode::Train,
                8,
                1 << 28,
            )
        };
        let config = ModelConfig::known("bert-base-uncased").unwrap();
        let error = run(&config, &workload, Profile::TRACED, Process::Fresh, 1).unwrap_err();
        assert_eq!(error, RunError::TooLarge(TooLarge));
    }

    #[test]
    fn what_does_not_fit_in_64_bits_is_an_error() {
        let workload = Workload::new(
            Runtime::Torch,
            Task::MaskedLm,
            Mode::Train,
            1 << 40,
            1 << 40,
        );
        let error = run(&tiny("bert"), &workload, Profile::TRACED, Process::Fresh, 1).unwrap_err();
        assert_eq!(error, RunError::TooLarge(TooLarge));
    }
}
