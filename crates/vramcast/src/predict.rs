//! The front door: a question, and the answer with everything that it is made of.

mod candle;
mod torch;

use crate::alloc::caching::ConfError;
use crate::bytes::{Bytes, TooLarge};
use crate::calibration::{Calibration, Cited};
use crate::config::ModelConfig;
use crate::context::{self, Context, Loaded};
use crate::gpu::{self, Basis, Gpu};
use crate::layers::{Layer, layers_at};
use crate::record::SCHEMA;
use crate::shadow::MOST_PASSES;
use crate::shadow::candle::Flavour;
use crate::shadow::torch::{BUILDS, Build, Process};
use crate::timeline::{Category, Phase, Timeline};
use crate::workload::{Loop, Mode, Runtime, Task, Workload};
use serde::{Deserialize, Serialize};

/// Passes per step: the Trainer moves the inputs of all of them to the device.
const MOST_ACCUMULATION: u32 = 4096;

/// Models in one process: all of them are followed.
const MOST_MODELS: u64 = 4096;

/// Steps that a probe runs and a prediction is for. With candle the second shows what the first
/// leaves behind; PyTorch makes the optimizer's state in the first, so the second is the first with
/// all of it, and the third the first to start from what such a step leaves.
pub fn steps(runtime: Runtime, mode: Mode) -> u32 {
    match (runtime, mode) {
        (Runtime::Candle, _) | (Runtime::Torch, Mode::Infer) => 2,
        (Runtime::Torch, Mode::Train) => 3,
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The model's name, for the answer.
    pub model: &'a str,
    /// What the model is.
    pub config: &'a ModelConfig,
    /// What runs.
    pub workload: &'a Workload,
    /// The device that candle runs on; PyTorch is predicted on CUDA alone.
    pub flavour: Flavour,
    /// The card it should fit.
    pub gpu: Option<&'static Gpu>,
    /// The capacity it should fit, instead of the card's.
    pub capacity: Option<Bytes>,
    /// What was measured of that card with this runtime, if it was: instead of what is known here.
    pub calibration: Option<&'a Calibration>,
    /// What PyTorch's allocator may reserve, as `set_per_process_memory_fraction` sets it.
    pub allocator_limit: Option<Bytes>,
    /// What PyTorch's process did before.
    pub process: Process,
    /// Which PyTorch.
    pub build: &'static Build,
    /// Whether `TORCH_CUDNN_SDPA_DEPRIORITIZED` is set there.
    pub cudnn_last: bool,
    /// How much of the answer is wanted.
    pub effort: Effort,
}

/// How much of an answer is worth the replays that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// The expected run alone: for a sweep.
    Expected,
    /// What is not known too (faster and slower hosts, other orders of addresses): for a verdict
    /// that holds.
    Verdict,
    /// All of that, and the need.
    Need,
}

impl<'a> Question<'a> {
    /// A question about CUDA in a fresh process, with all of the answer and without a card.
    pub fn new(model: &'a str, config: &'a ModelConfig, workload: &'a Workload) -> Self {
        Self {
            model,
            config,
            workload,
            flavour: Flavour::Cuda,
            gpu: None,
            capacity: None,
            calibration: None,
            allocator_limit: None,
            process: Process::Fresh,
            build: &BUILDS[0],
            cudnn_last: false,
            effort: Effort::Need,
        }
    }

    /// What the job must fit into.
    pub fn capacity(&self) -> Option<Bytes> {
        self.capacity
            .or_else(|| self.calibration.and_then(Calibration::usable))
            .or_else(|| self.gpu.map(|gpu| Bytes(gpu.capacity().0)))
    }

    /// What the process has loaded when it is done.
    pub fn loaded(&self) -> Loaded {
        match self.workload.runtime {
            Runtime::Candle => candle::loaded(self),
            Runtime::Torch => torch::loaded(self),
        }
    }

    /// The context, and what is to be said of it.
    fn context(&self) -> (Context, Option<String>) {
        let loaded = self.loaded();
        let calibrated = self.calibration.and_then(|calibration| {
            let context = calibration.context(loaded)?;
            Some((context, calibration.cited(loaded)))
        });
        if let Some((context, cited)) = calibrated {
            let note = format!(
                "context measured on this machine on {}: driver {}, {} run{}",
                cited.date,
                cited.driver,
                cited.runs,
                if cited.runs == 1 { "" } else { "s" }
            );
            return (context, Some(note));
        }
        let context = context::context(self.gpu, loaded);
        let note = context_note(self.gpu, &context, self.workload.runtime);
        (context, note)
    }
}

/// Whether it fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Verdict {
    /// Need and context are below the capacity, with everything that is not known at its highest.
    Fits,
    /// It depends on what is not known: the speed of the host, the order of the driver's addresses,
    /// the context of a card that nobody measured.
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

/// Where a run that does not fit ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortage {
    /// The phase that asks.
    pub phase: Phase,
    /// The part of the model.
    pub scope: String,
    /// The operation.
    pub op: String,
    /// What it asks for.
    pub requested: Bytes,
    /// What PyTorch's message says was tried: the segment that the driver was asked for.
    pub tried: Bytes,
    /// "allocated by PyTorch" then.
    pub allocated: Bytes,
    /// "reserved by PyTorch" then, which includes what is allocated.
    pub reserved: Bytes,
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
    /// What PyTorch's allocator may reserve of that.
    pub allocator_limit: Option<Bytes>,
    /// What was measured of the card on the machine that asked, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Cited>,
    /// Whether it does.
    pub verdict: Verdict,
    /// Elements of all parameters.
    pub n_params: u64,
    /// Allocations of the model's construction and all [`steps`].
    pub allocations: u64,
    /// Requested bytes once the model and the optimizer are built.
    pub model_requested: Bytes,
    /// The highest requested bytes after that.
    pub peak_requested: Bytes,
    /// The highest allocated bytes.
    pub peak_allocated: Bytes,
    /// The lowest that they may be, with other addresses from the driver; equal where no range was
    /// asked for.
    pub peak_allocated_low: Bytes,
    /// The highest that they may be.
    pub peak_allocated_high: Bytes,
    /// The highest reserved bytes, where nothing limits them.
    pub peak_reserved: Bytes,
    /// The lowest that they may be, on a faster or slower host or with other addresses; equal where
    /// no range was asked for.
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
    /// The smallest allocator capacity with which the job still runs, context not counted; `None`
    /// where no range was asked for. PyTorch gives cached memory back when it runs short, so it
    /// lies between what is allocated and what is reserved; more is not always enough, since
    /// other addresses follow. candle's is what is reserved.
    pub need: Option<Bytes>,
    /// The lowest that it may be, with other addresses from the driver.
    pub need_low: Option<Bytes>,
    /// The highest.
    pub need_high: Option<Bytes>,
    /// Where the run ends if it does not fit, or might not.
    pub shortage: Option<Shortage>,
    /// The phase of the peak.
    pub peak_phase: Phase,
    /// The phases after the model was built.
    pub phases: Vec<PhasePrediction>,
    /// What is alive at the peak.
    pub at_peak: AtPeak,
    /// The same by part of the model, in requested bytes; empty where less than the whole answer was
    /// wanted.
    #[serde(default)]
    pub layers: Vec<Layer>,
    /// What was not measured, or not known, in this answer.
    pub notes: Vec<String>,
}

impl Prediction {
    /// The card, where the capacity is its own and was not given instead.
    pub fn card_with_capacity(&self) -> Option<&'static Gpu> {
        let card = self.gpu.as_deref().and_then(gpu::find)?;
        let measured = self.calibration.as_ref().and_then(|cited| cited.usable);
        let own = measured.unwrap_or(Bytes(card.capacity().0));
        (self.capacity == Some(own)).then_some(card)
    }

    /// Whether its sizes agree with one another, as those of every answer do. A file may hold
    /// anything.
    pub fn adds_up(&self) -> bool {
        let ordered = |sizes: &[Bytes]| sizes.is_sorted();
        let parts = self.at_peak.parts().into_iter();
        let mut parts = parts.map(|(_, bytes)| bytes);
        let at_peak = parts.try_fold(Bytes(0), Bytes::plus);
        let nvml = self.peak_reserved.plus(self.context);
        let shortage = self.shortage.as_ref();
        at_peak == Ok(self.peak_allocated)
            && nvml == Ok(self.peak_nvml)
            && ordered(&[
                self.peak_requested,
                self.peak_allocated,
                self.peak_reserved,
                self.peak_nvml,
            ])
            && ordered(&[
                self.peak_allocated_low,
                self.peak_allocated,
                self.peak_allocated_high,
            ])
            && ordered(&[
                self.peak_reserved_low,
                self.peak_reserved,
                self.peak_reserved_high,
            ])
            && ordered(&[self.peak_nvml_low, self.peak_nvml, self.peak_nvml_high])
            && shortage.is_none_or(|s| s.allocated <= s.reserved)
    }

    /// Whether the run ends well as far as can be foreseen. A verdict is more careful.
    pub fn runs(&self) -> bool {
        match self.workload.runtime {
            Runtime::Candle => self.capacity.is_none_or(|most| self.peak_nvml <= most),
            Runtime::Torch => self.shortage.is_none(),
        }
    }
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

impl From<ConfError> for PredictError {
    fn from(error: ConfError) -> Self {
        Self::Workload(format!("--allocator-conf: {error}"))
    }
}

/// Answers a question.
///
/// # Errors
/// A question that makes no sense; running out of memory is an answer.
pub fn predict(question: &Question<'_>) -> Result<Prediction, PredictError> {
    predict_with_timeline(question).map(|(prediction, _)| prediction)
}

/// Answers a question, with the timeline of the run: one step of candle, all steps of PyTorch.
///
/// # Errors
/// As [`predict`].
pub fn predict_with_timeline(
    question: &Question<'_>,
) -> Result<(Prediction, Timeline), PredictError> {
    check(question)?;
    let (foreseen, timeline) = match question.workload.runtime {
        Runtime::Candle => candle::foresee(question)?,
        Runtime::Torch => torch::foresee(question)?,
    };
    let (allocated, reserved, context) = (foreseen.allocated, foreseen.reserved, foreseen.context);
    let mut notes = foreseen.notes;
    notes.extend(capacity_note(question));
    let prediction = Prediction {
        schema: SCHEMA,
        model: question.model.to_owned(),
        workload: question.workload.clone(),
        runtime_version: foreseen.runtime_version.to_owned(),
        gpu: question.gpu.map(|gpu| gpu.name.to_owned()),
        capacity: question.capacity(),
        allocator_limit: question.allocator_limit,
        calibration: question
            .calibration
            .map(|calibration| calibration.cited(question.loaded())),
        verdict: foreseen.verdict,
        n_params: foreseen.n_params,
        allocations: foreseen.allocations,
        model_requested: foreseen.model_requested,
        peak_requested: foreseen.requested,
        peak_allocated: allocated.bytes,
        peak_allocated_low: allocated.low,
        peak_allocated_high: allocated.high,
        peak_reserved: reserved.bytes,
        peak_reserved_low: reserved.low,
        peak_reserved_high: reserved.high,
        context: context.bytes,
        peak_nvml: reserved.bytes.plus(context.bytes)?,
        peak_nvml_low: reserved.low.plus(context.low)?,
        peak_nvml_high: reserved.high.plus(context.high)?,
        need: foreseen.need.map(|need| need.bytes),
        need_low: foreseen.need.map(|need| need.low),
        need_high: foreseen.need.map(|need| need.high),
        shortage: foreseen.shortage,
        peak_phase: foreseen.peak_phase,
        phases: foreseen.phases,
        at_peak: foreseen.at_peak,
        layers: foreseen.layers,
        notes,
    };
    Ok((prediction, timeline))
}

/// What a runtime's simulation gives. Sizes in bytes.
struct Foreseen {
    runtime_version: &'static str,
    n_params: u64,
    allocations: u64,
    model_requested: Bytes,
    requested: Bytes,
    allocated: Range,
    reserved: Range,
    context: Context,
    need: Option<Range>,
    shortage: Option<Shortage>,
    verdict: Verdict,
    peak_phase: Phase,
    phases: Vec<PhasePrediction>,
    at_peak: AtPeak,
    layers: Vec<Layer>,
    notes: Vec<String>,
}

/// A figure, and what it may be.
#[derive(Clone, Copy)]
struct Range {
    low: Bytes,
    bytes: Bytes,
    high: Bytes,
}

impl Range {
    fn exactly(bytes: Bytes) -> Self {
        Self {
            low: bytes,
            bytes,
            high: bytes,
        }
    }

    /// Another figure, which may be what this one may be, too.
    fn about(self, bytes: Bytes) -> Self {
        Self { bytes, ..self }.or(bytes)
    }

    /// The same figure where it may be `other`, too.
    fn or(self, other: Bytes) -> Self {
        Self {
            low: self.low.min(other),
            high: self.high.max(other),
            ..self
        }
    }
}

/// What is alive after `event`, by category; the rest of what is allocated is the allocator's.
fn at_peak(timeline: &Timeline, event: usize, allocated: Bytes) -> AtPeak {
    let live = timeline.live_at(event);
    let of = |category: Category| Bytes(live[category as usize]);
    AtPeak {
        parameters: of(Category::Parameters),
        gradients: of(Category::Gradients),
        optimizer: of(Category::Optimizer),
        activations: of(Category::Activations),
        temporaries: of(Category::Temporaries),
        inputs: of(Category::Inputs),
        workspaces: of(Category::Workspaces),
        rounding: Bytes(allocated.0 - live.iter().sum::<u64>()),
    }
}

/// The same by part of the model. A sweep has no use for it.
fn layers(question: &Question<'_>, timeline: &Timeline, event: usize) -> Vec<Layer> {
    match question.effort {
        Effort::Expected | Effort::Verdict => Vec::new(),
        Effort::Need => layers_at(timeline, event),
    }
}

/// Requested bytes when the first step begins.
fn model_requested(timeline: &Timeline) -> Bytes {
    let mut requested = 0;
    timeline.walk(|_, _, phase, live| {
        if phase == Phase::Load {
            requested = live;
        }
    });
    Bytes(requested)
}

/// What is said of a step whose passes are not all followed.
fn passes_note(workload: &Workload) -> Option<String> {
    (workload.accumulation > MOST_PASSES).then(|| {
        format!("{MOST_PASSES} passes of a step are replayed; more of them allocate the same")
    })
}

/// What the interval of a context that this project did not measure rests on.
fn context_note(gpu: Option<&Gpu>, context: &Context, runtime: Runtime) -> Option<String> {
    let Context {
        low, high, source, ..
    } = context;
    if source.is_some() {
        return None;
    }
    let others = context::cards().len();
    Some(match (gpu, runtime) {
        (None, _) => format!(
            "the context depends on the card: {low} to {high} is assumed, the medians of {others} cards"
        ),
        (Some(gpu), Runtime::Candle) => format!(
            "nobody has measured candle's context on {}: {low} to {high} is assumed, as PyTorch's on \
             {others} cards",
            gpu.product
        ),
        (Some(gpu), Runtime::Torch) => {
            let own = context::cards().iter().find(|c| c.gpu.name == gpu.name);
            let readings = match own.map_or(0, |card| card.readings()) {
                0 => "none on it by others".to_owned(),
                1 => "one reading on it by others".to_owned(),
                n => format!("{n} readings on it by others"),
            };
            format!(
                "nobody has measured PyTorch's context on {} with this tool: {low} to {high}, from \
                 {readings} and the spread over {others} cards",
                gpu.product
            )
        }
    })
}

/// What is not known of a card's capacity.
fn capacity_note(question: &Question<'_>) -> Option<String> {
    let measured = question.calibration.and_then(Calibration::usable);
    let known = question.capacity.or(measured).is_some();
    let gpu = question.gpu.filter(|_| !known)?;
    (gpu.capacity().1 == Basis::NvmlTotal).then(|| {
        format!(
            "the capacity of {} is NVML's total; the driver keeps an unknown part of it",
            gpu.product
        )
    })
}

/// Refuses what no runtime can run.
fn check(question: &Question<'_>) -> Result<(), PredictError> {
    let Question {
        config, workload, ..
    } = *question;
    let refuse = |text: String| Err(PredictError::Workload(text));
    let Workload {
        batch, seq, models, ..
    } = *workload;
    if batch == 0 || seq == 0 {
        return refuse("batch and sequence must be at least 1".to_owned());
    }
    if !(1..=MOST_ACCUMULATION).contains(&workload.accumulation) {
        return refuse(format!("accumulation must be 1 to {MOST_ACCUMULATION}"));
    }
    if workload.mode == Mode::Infer && workload.training_loop == Loop::Trainer {
        return refuse("the Trainer's loop trains: use --mode train".to_owned());
    }
    if !(1..=MOST_MODELS).contains(&models) {
        return refuse(format!("models in one process must be 1 to {MOST_MODELS}"));
    }
    if models > 1 && (workload.mode, workload.runtime) != (Mode::Infer, Runtime::Torch) {
        return refuse(
            "several models in one process are predicted in inference on PyTorch".to_owned(),
        );
    }
    if workload.task == Task::SequenceClassification
        && workload.mode == Mode::Train
        && config.num_labels() == 1
    {
        return refuse(
            "a classifier of one label is trained as a regression, which is not predicted"
                .to_owned(),
        );
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
    Ok(())
}
