//! The front door: a question, and the answer with everything that it is made of.

use crate::alloc::{self, Pace};
use crate::backend::Activation;
use crate::bytes::{Bytes, TooLarge};
use crate::candle;
use crate::config::ModelConfig;
use crate::context::{Context, context};
use crate::gpu::{Basis, Gpu};
use crate::pace;
use crate::record::SCHEMA;
use crate::shadow::candle::{Flavour, RunError, run};
use crate::timeline::{Category, Phase, Timeline, highest};
use crate::workload::{Attention, Code, Mode, Optimizer, Precision, Runtime, Task, Workload};
use serde::{Deserialize, Serialize};

/// Steps that a prediction replays and a probe runs: the second shows what the first leaves behind.
pub const STEPS: u32 = 2;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The model's name, for the answer.
    pub model: &'a str,
    /// What the model is.
    pub config: &'a ModelConfig,
    /// What runs.
    pub workload: &'a Workload,
    /// The device it runs on.
    pub flavour: Flavour,
    /// The card it should fit.
    pub gpu: Option<&'static Gpu>,
    /// The capacity it should fit, instead of the card's.
    pub capacity: Option<Bytes>,
    /// Whether to reckon with faster and slower hosts, which takes two more replays: a verdict wants
    /// it, a sweep does not.
    pub range: bool,
}

/// Whether it fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Verdict {
    /// Need and context are below the capacity, with everything that is not known at its highest.
    Fits,
    /// It depends on what is not known: the speed of the host, the context of a card that nobody
    /// measured.
    Tight,
    /// It does not fit.
    Oom,
    /// No card and no capacity were named.
    Unknown,
}

/// The highest figures of one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhasePrediction {
    /// Which phase.
    pub name: Phase,
    /// Highest requested bytes.
    pub peak_requested: Bytes,
    /// Highest allocated bytes; candle's pool counts what was requested.
    pub peak_allocated: Bytes,
}

/// What is alive at the peak, by category. Sums to the allocated peak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtPeak {
    /// Weights and biases.
    pub parameters: Bytes,
    /// Gradients, and what the runtime keeps with them.
    pub gradients: Bytes,
    /// Moments.
    pub optimizer: Bytes,
    /// Results of the forward pass.
    pub activations: Bytes,
    /// What lives within one operation.
    pub temporaries: Bytes,
    /// Token ids, masks and labels.
    pub inputs: Bytes,
    /// Workspaces inside the allocator; candle's lie outside.
    pub workspaces: Bytes,
    /// What the allocator adds to single requests; candle's pool counts none.
    pub rounding: Bytes,
}

impl AtPeak {
    /// Name and size of each part, in the order of tables and charts.
    pub fn parts(&self) -> [(&'static str, Bytes); 8] {
        [
            ("parameters", self.parameters),
            ("gradients", self.gradients),
            ("optimizer", self.optimizer),
            ("activations", self.activations),
            ("temporaries", self.temporaries),
            ("inputs", self.inputs),
            ("workspaces", self.workspaces),
            ("rounding", self.rounding),
        ]
    }
}

/// The answer. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The form of this object.
    pub schema: u32,
    /// The model's name.
    pub model: String,
    /// What runs.
    #[serde(flatten)]
    pub workload: Workload,
    /// The runtime's version.
    pub runtime_version: String,
    /// The card's short name.
    pub gpu: Option<String>,
    /// What the job must fit into.
    pub capacity: Option<Bytes>,
    /// Whether it does.
    pub verdict: Verdict,
    /// Elements of all parameters.
    pub n_params: u64,
    /// Allocations of the model's construction and [`STEPS`] steps.
    pub allocations: u64,
    /// Requested bytes once the model and the optimizer are built.
    pub model_requested: Bytes,
    /// The highest requested bytes after that.
    pub peak_requested: Bytes,
    /// The highest allocated bytes.
    pub peak_allocated: Bytes,
    /// The highest reserved bytes.
    pub peak_reserved: Bytes,
    /// The lowest that they may be, on a faster or slower host; equal where no range was asked for.
    pub peak_reserved_low: Bytes,
    /// The highest that they may be.
    pub peak_reserved_high: Bytes,
    /// Context, modules and workspaces beyond the allocator.
    pub context: Bytes,
    /// What NVML shows beyond what it showed before.
    pub peak_nvml: Bytes,
    /// The lowest that it may show.
    pub peak_nvml_low: Bytes,
    /// The highest.
    pub peak_nvml_high: Bytes,
    /// The smallest allocator capacity with which the job still runs. The driver takes a chunk only
    /// when none can be moved, and does not try again, so it is what is reserved: with another
    /// process holding the rest of the card, a run that reserves 804 chunks ran with room for 806
    /// and failed with room for 803. Not explained: an inference run that reserves 368 failed with
    /// room for 370 (`reports/records/candle-h200-ballast.jsonl`).
    pub need: Bytes,
    /// The phase of the peak.
    pub peak_phase: Phase,
    /// The phases after the model was built.
    pub phases: Vec<PhasePrediction>,
    /// What is alive at the peak.
    pub at_peak: AtPeak,
    /// What was not measured, or not known, in this answer.
    pub notes: Vec<String>,
}

/// Why a question has no answer. Each text says what is wrong and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PredictError {
    /// A size does not fit in 64 bits.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// The workload makes no sense for this model or runtime.
    #[error("{0}")]
    Workload(String),
}

impl From<RunError> for PredictError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::TooLarge(error) => error.into(),
            RunError::NotFollowed(_) => Self::Workload(error.to_string()),
        }
    }
}

/// Answers a question.
///
/// # Errors
/// A question that makes no sense; running out of memory is an answer.
pub fn predict(question: &Question<'_>) -> Result<Prediction, PredictError> {
    predict_with_timeline(question).map(|(prediction, _)| prediction)
}

/// Answers a question, with the timeline of one step.
///
/// # Errors
/// As [`predict`].
pub fn predict_with_timeline(
    question: &Question<'_>,
) -> Result<(Prediction, Timeline), PredictError> {
    let Question {
        config,
        workload,
        flavour,
        gpu,
        ..
    } = *question;
    check(config, workload)?;
    let (timeline, outcome) = run(config, workload, flavour, 1)?;
    let phases = timeline.phase_peaks();
    let peak = highest(&phases).ok_or(TooLarge)?;
    let requested = Bytes(peak.bytes);
    // On the CPU there is no pool and no context: what is requested is all.
    let (reserved, context) = match flavour {
        Flavour::Cpu => (Reserved::exactly(requested), Context::NOTHING),
        Flavour::Cuda => (
            reserved(&timeline, requested, question.range)?,
            context(gpu, workload.runtime),
        ),
    };
    let capacity = question
        .capacity
        .or_else(|| gpu.map(|gpu| Bytes(gpu.capacity().0)));
    let (low, high) = (
        reserved.low.plus(context.low)?,
        reserved.high.plus(context.high)?,
    );
    let verdict = match capacity {
        None => Verdict::Unknown,
        Some(capacity) if high <= capacity => Verdict::Fits,
        Some(capacity) if low > capacity => Verdict::Oom,
        Some(_) => Verdict::Tight,
    };
    let loaded = phases.iter().find(|p| p.phase == Phase::Load);
    let allocations = allocations(&timeline);
    let prediction = Prediction {
        schema: SCHEMA,
        model: question.model.to_owned(),
        workload: workload.clone(),
        runtime_version: candle::VERSION.to_owned(),
        gpu: gpu.map(|gpu| gpu.name.to_owned()),
        capacity,
        verdict,
        n_params: outcome.n_params,
        allocations,
        model_requested: Bytes(loaded.map_or(0, |p| p.bytes)),
        peak_requested: Bytes(peak.bytes),
        peak_allocated: Bytes(peak.bytes),
        peak_reserved: reserved.bytes,
        peak_reserved_low: reserved.low,
        peak_reserved_high: reserved.high,
        context: context.bytes,
        peak_nvml: reserved.bytes.plus(context.bytes)?,
        peak_nvml_low: low,
        peak_nvml_high: high,
        need: reserved.bytes,
        peak_phase: peak.phase,
        phases: phases
            .iter()
            .filter(|p| p.phase != Phase::Load)
            .map(|p| PhasePrediction {
                name: p.phase,
                peak_requested: Bytes(p.bytes),
                peak_allocated: Bytes(p.bytes),
            })
            .collect(),
        at_peak: at_peak(&timeline, peak.event),
        notes: notes(question, &context),
    };
    Ok((prediction, timeline))
}

/// Reserved bytes, and what they may be on another host.
struct Reserved {
    low: Bytes,
    bytes: Bytes,
    high: Bytes,
}

impl Reserved {
    fn exactly(bytes: Bytes) -> Self {
        Self {
            low: bytes,
            bytes,
            high: bytes,
        }
    }
}

/// No card has so much: what lies beyond is not replayed.
const BEYOND_CARDS: u64 = 1 << 44;

/// Replays a timeline on the reference host and, for a range, on the fastest and the slowest.
fn reserved(timeline: &Timeline, requested: Bytes, range: bool) -> Result<Reserved, TooLarge> {
    if requested.0 > BEYOND_CARDS {
        return Ok(Reserved::exactly(requested));
    }
    let at = |percent| {
        let pace = Pace::Timed(pace::rates(percent));
        let replay = alloc::replay(timeline, pace, u64::MAX).map_err(|_| TooLarge)?;
        Ok(Bytes(replay.peak_reserved))
    };
    let bytes = at(100)?;
    let mut reserved = Reserved::exactly(bytes);
    if range {
        for percent in pace::HOST_RANGE {
            let other = at(percent)?;
            reserved.low = reserved.low.min(other);
            reserved.high = reserved.high.max(other);
        }
        let unexplained = |bytes: Bytes| bytes.0 / 1000 * pace::UNEXPLAINED_PERMILLE;
        reserved.low = Bytes(reserved.low.0 - unexplained(reserved.low)).max(requested);
        reserved.high = reserved.high.plus(Bytes(unexplained(reserved.high)))?;
    }
    Ok(reserved)
}

/// What this answer rests on that was not measured.
fn notes(question: &Question<'_>, context: &Context) -> Vec<String> {
    let mut notes = Vec::new();
    if question.flavour == Flavour::Cpu {
        return notes;
    }
    if context.source.is_none() {
        let Context { low, high, .. } = context;
        notes.push(match question.gpu {
            Some(gpu) => format!(
                "nobody has measured candle's context on {}: {low} to {high} is assumed",
                gpu.product
            ),
            None => format!("the context depends on the card: {low} to {high} is assumed"),
        });
    }
    if let (Some(gpu), None) = (question.gpu, question.capacity)
        && gpu.capacity().1 == Basis::NvmlTotal
    {
        notes.push(format!(
            "the capacity of {} is NVML's total; the driver keeps an unknown part of it",
            gpu.product
        ));
    }
    notes
}

/// Allocations of building the model and of all steps, from a timeline of one.
fn allocations(timeline: &Timeline) -> u64 {
    let load = timeline
        .buffers
        .iter()
        .filter(|b| b.phase == Phase::Load)
        .count() as u64;
    let step = timeline.buffers.len() as u64 - load;
    load + u64::from(STEPS) * step
}

fn at_peak(timeline: &Timeline, event: usize) -> AtPeak {
    let live = timeline.live_at(event);
    let of = |category: Category| Bytes(live[category as usize]);
    AtPeak {
        parameters: of(Category::Parameters),
        gradients: of(Category::Gradients),
        optimizer: of(Category::Optimizer),
        activations: of(Category::Activations),
        temporaries: of(Category::Temporaries),
        inputs: of(Category::Inputs),
        workspaces: Bytes(0),
        rounding: Bytes(0),
    }
}

/// Refuses what the model or the runtime cannot run.
fn check(config: &ModelConfig, workload: &Workload) -> Result<(), PredictError> {
    let refuse = |text: String| Err(PredictError::Workload(text));
    let Workload { batch, seq, .. } = *workload;
    if batch == 0 || seq == 0 {
        return refuse("batch and sequence must be at least 1".to_owned());
    }
    if seq > config.max_sequence() {
        return refuse(format!(
            "sequence {seq} is beyond the model's position table of {}; ask for at most that",
            config.max_sequence()
        ));
    }
    if batch
        .checked_mul(seq)
        .is_none_or(|tokens| tokens > u64::from(u32::MAX))
    {
        return refuse(format!(
            "batch {batch} times sequence {seq} is more tokens than 32 bits count"
        ));
    }
    if workload.runtime != Runtime::Candle {
        return refuse("only candle is predicted so far; use --runtime candle".to_owned());
    }
    if !matches!(workload.optimizer, Optimizer::Adamw | Optimizer::Sgd) {
        return refuse(format!(
            "candle has no optimizer {}; known: adamw, sgd",
            workload.optimizer
        ));
    }
    if workload.precision != Precision::Fp32 {
        return refuse(format!(
            "candle is predicted in fp32 so far, not in {}",
            workload.precision
        ));
    }
    if workload.attention != Attention::Eager {
        return refuse(
            "candle has no fused attention with a gradient: use --attention eager".to_owned(),
        );
    }
    if let ModelConfig::Bert(bert) = config
        && workload.code == Code::CandleTransformers
        && bert.hidden_act == Activation::Tanh
    {
        return refuse(
            "the stock BertModel of candle-transformers has no tanh activation".to_owned(),
        );
    }
    if workload.checkpointing || workload.accumulation != 1 {
        return refuse(
            "candle has neither activation checkpointing nor gradient accumulation".to_owned(),
        );
    }
    if workload.code == Code::CandleTransformers
        && (workload.mode, workload.task) != (Mode::Infer, Task::Base)
    {
        return refuse(
            "the stock models of candle-transformers are predicted for --mode infer --task base: \
             in training most of their parameters receive no gradient"
                .to_owned(),
        );
    }
    Ok(())
}
