//! candle: one step through CUDA's memory pool, on hosts of several speeds.

use super::{
    AtPeak, Effort, Foreseen, PhasePrediction, PredictError, Question, Range, Verdict, at_peak,
    layers, model_requested, passes_note, steps,
};
use crate::alloc::{self, Pace};
use crate::backend::Activation;
use crate::bytes::{Bytes, TooLarge};
use crate::candle;
use crate::config::ModelConfig;
use crate::context::{Context, Loaded};
use crate::dtype::DType;
use crate::pace;
use crate::shadow::MOST_PASSES;
use crate::shadow::candle::{Flavour, RunError, run};
use crate::shadow::torch::Process;
use crate::timeline::{Event, Phase, Timeline, highest};
use crate::workload::{
    Attention, Code, Loop, Mode, Optimizer, Placement, Precision, Runtime, Task, Workload,
};

pub(super) fn foresee(question: &Question<'_>) -> Result<(Foreseen, Timeline), PredictError> {
    let Question {
        config,
        workload,
        flavour,
        ..
    } = *question;
    check(question)?;
    let followed = Workload {
        accumulation: workload.accumulation.min(MOST_PASSES),
        ..workload.clone()
    };
    let (timeline, outcome) = run(config, &followed, flavour, 1)?;
    let phases = timeline.phase_peaks();
    let peak = highest(&phases).ok_or(TooLarge)?;
    let requested = Bytes(peak.bytes);
    // On the CPU there is no pool and no context: what is requested is all.
    let (reserved, (context, note)) = match flavour {
        Flavour::Cpu => (Range::exactly(requested), (Context::NOTHING, None)),
        Flavour::Cuda => (
            reserved(&timeline, requested, question.effort)?,
            question.context(),
        ),
    };
    let (low, high) = (
        reserved.low.plus(context.low)?,
        reserved.high.plus(context.high)?,
    );
    let verdict = match question.capacity() {
        None => Verdict::Unknown,
        Some(capacity) if high <= capacity => Verdict::Fits,
        Some(capacity) if low > capacity => Verdict::Oom,
        Some(_) => Verdict::Tight,
    };
    let steps_of_phases = phases.iter().filter(|p| p.phase != Phase::Load);
    let at_peak: AtPeak = at_peak(&timeline, peak.event, requested);
    let foreseen = Foreseen {
        runtime_version: candle::VERSION,
        n_params: outcome.n_params,
        allocations: allocations(&timeline, workload),
        model_requested: model_requested(&timeline),
        requested,
        allocated: Range::exactly(requested),
        // The driver takes a chunk only when none can be moved, and does not try again, so the need
        // is what is reserved: with another process holding the rest of the card, a run that
        // reserves 804 chunks ran with room for 806 and failed with room for 803. Not explained: an
        // inference run that reserves 368 failed with room for 370
        // (`reports/records/candle-h200-ballast.jsonl`).
        need: (question.effort == Effort::Need).then_some(reserved),
        reserved,
        shortage: None,
        verdict,
        peak_phase: peak.phase,
        phases: steps_of_phases
            .map(|p| PhasePrediction {
                name: p.phase,
                peak_requested: Bytes(p.bytes),
                peak_allocated: Bytes(p.bytes),
            })
            .collect(),
        at_peak,
        layers: layers(question, &timeline, peak.event),
        notes: note.into_iter().chain(passes_note(workload)).collect(),
        context,
    };
    Ok((foreseen, timeline))
}

/// What the process has loaded when it is done.
pub(super) fn loaded(question: &Question<'_>) -> Loaded {
    Loaded::Candle {
        half: question.workload.precision.products() != DType::F32,
    }
}

impl From<RunError> for PredictError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::TooLarge(error) => error.into(),
            RunError::NotFollowed(_) => Self::Workload(error.to_string()),
        }
    }
}

/// No card has so much: what lies beyond is not replayed.
const BEYOND_CARDS: u64 = 1 << 44;

/// Replays a timeline on the reference host and, for a range, on the fastest and the slowest.
fn reserved(timeline: &Timeline, requested: Bytes, effort: Effort) -> Result<Range, TooLarge> {
    if requested.0 > BEYOND_CARDS {
        return Ok(Range::exactly(requested));
    }
    let at = |percent| {
        let pace = Pace::Timed(pace::rates(percent));
        let replay = alloc::replay(timeline, pace, u64::MAX).map_err(|_| TooLarge)?;
        Ok(Bytes(replay.peak_reserved))
    };
    let mut reserved = Range::exactly(at(100)?);
    if effort >= Effort::Verdict {
        for percent in pace::HOST_RANGE {
            reserved = reserved.or(at(percent)?);
        }
        let unexplained =
            |bytes: Bytes| u64::max(bytes.0 / 1000 * pace::UNEXPLAINED_PERMILLE, alloc::CHUNK);
        let low = reserved.low.0.saturating_sub(unexplained(reserved.low));
        reserved.low = Bytes(low).max(requested);
        reserved.high = reserved.high.plus(Bytes(unexplained(reserved.high)))?;
    }
    Ok(reserved)
}

/// Allocations of building the model and of all steps, from a timeline of one step with the passes
/// that are followed. Those that are not allocate what the last but one of these does.
fn allocations(timeline: &Timeline, workload: &Workload) -> u64 {
    let (mut load, mut passes) = (0, Vec::new());
    for event in &timeline.events {
        match event {
            Event::Begin(Phase::Forward) => passes.push(0u64),
            Event::Alloc(_) => *passes.last_mut().unwrap_or(&mut load) += 1,
            Event::Free(_) | Event::Begin(_) | Event::Synchronize => {}
        }
    }
    let more = u64::from(workload.accumulation) - passes.len() as u64;
    let middle = passes.iter().rev().nth(1).copied().unwrap_or_default();
    let step = passes.iter().sum::<u64>() + more * middle;
    load + u64::from(steps(Runtime::Candle, workload.mode)) * step
}

/// Refuses what candle cannot run.
fn check(question: &Question<'_>) -> Result<(), PredictError> {
    let refuse = |text: String| Err(PredictError::Workload(text));
    let Question {
        config,
        workload,
        flavour,
        ..
    } = *question;
    if let Some(what) = of_pytorch(question) {
        return refuse(format!("candle has no {what}: use --runtime torch"));
    }
    if !matches!(workload.optimizer, Optimizer::Adamw | Optimizer::Sgd) {
        return refuse(format!(
            "candle has no optimizer {}; known: adamw, sgd",
            workload.optimizer
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
    if workload.code == Code::CandleTransformers
        && (workload.mode, workload.task, workload.precision)
            != (Mode::Infer, Task::Base, Precision::Fp32)
    {
        return refuse(
            "the stock models of candle-transformers are predicted for --mode infer --task base \
             --precision fp32: in training most of their parameters receive no gradient"
                .to_owned(),
        );
    }
    if flavour == Flavour::Cpu && workload.precision.products() == DType::Bf16 {
        return refuse(
            "candle's CPU has no bfloat16 matrix product: use --precision fp16 or amp-fp16, or \
             --device cuda"
                .to_owned(),
        );
    }
    Ok(())
}

/// What is asked for that only PyTorch has.
fn of_pytorch(question: &Question<'_>) -> Option<&'static str> {
    let workload = question.workload;
    let asked = [
        (workload.training_loop != Loop::default(), "Trainer"),
        (
            workload.placement != Placement::default(),
            "ways to place weights",
        ),
        (workload.lora_rank > 0, "LoRA"),
        (workload.compile, "compiler"),
        (!workload.allocator_conf.is_empty(), "allocator options"),
        (question.allocator_limit.is_some(), "limit of an allocator"),
        (
            question.process != Process::Fresh,
            "process that ran before",
        ),
    ];
    asked.into_iter().find_map(|(is, what)| is.then_some(what))
}
