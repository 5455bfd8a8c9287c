//! What of a run a claim is about, as measured and as predicted. Where a record has no field for it,
//! it is a difference of two that the record has; the prediction takes the same difference.

use crate::audit::steps::steps;
use strum::Display;
use vramcast::dtype::DType;
use vramcast::predict::Prediction;
use vramcast::record::{AllocatedStep, PhasePeak, Record};
use vramcast::timeline::{Category, Phase, Timeline};
use vramcast::workload::{Mode, Runtime};

/// One figure of a run. Bytes, but for the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Quantity {
    /// Their elements.
    Parameters,
    /// What the model takes once it is built.
    Weights,
    /// What the backward pass leaves.
    Gradients,
    /// The optimizer's.
    State,
    /// Weights, gradients and the optimizer's state.
    #[strum(serialize = "weights, gradients and state")]
    Held,
    /// The most that the forward pass adds to what is there when a step begins.
    Activations,
    /// The highest allocated bytes, on candle requested ones.
    Allocated,
    /// The highest reserved bytes.
    Reserved,
    /// The most that NVML shows beyond what it showed before.
    Nvml,
}

/// A parameter in single precision.
const SINGLE: u64 = 4;

impl Quantity {
    /// As a run measured it; `None` where it did not.
    pub(crate) fn measured(self, record: &Record) -> Option<u64> {
        let m = &record.measured;
        let candle = record.workload.runtime == Runtime::Candle;
        let single = record.workload.precision.weights() == DType::F32;
        let trains = record.workload.mode == Mode::Train;
        let bytes = |bytes: Option<vramcast::bytes::Bytes>| bytes.map(|b| b.0);
        match self {
            Self::Parameters => m.n_params,
            // candle's optimizer is built with the model, before anything is read.
            Self::Weights if candle && trains => Some(SINGLE * m.n_params.filter(|_| single)?),
            Self::Weights if candle => bytes(m.model_requested),
            Self::Weights => bytes(m.model_allocated),
            Self::Gradients if candle => {
                Some(SINGLE * m.n_params_with_gradient.filter(|_| single)?)
            }
            Self::Gradients => {
                let step = last(record)?;
                step.after_bwd?.0.checked_sub(step.start?.0)
            }
            Self::State if candle => m
                .model_requested?
                .0
                .checked_sub(Self::Weights.measured(record)?),
            Self::State => {
                let step = m.steps.first()?.allocated?;
                step.after_step?.0.checked_sub(step.after_bwd?.0)
            }
            Self::Held => [Self::Weights, Self::Gradients, Self::State]
                .map(|part| part.measured(record))
                .into_iter()
                .sum(),
            Self::Activations if candle => {
                let forward = |phase: &&PhasePeak| phase.name == Phase::Forward;
                let phases = &m.steps.last()?.phases;
                let peak = phases.iter().find(forward)?.peak_requested;
                peak.0.checked_sub(m.model_requested?.0)
            }
            Self::Activations => {
                let step = last(record)?;
                step.peak_fwd.0.checked_sub(step.start?.0)
            }
            Self::Allocated if candle => bytes(m.peak_requested),
            Self::Allocated => bytes(m.peak_allocated),
            Self::Reserved => bytes(m.highest_reserved()),
            // Records of an idle card do not say what it used before: nothing.
            Self::Nvml => {
                let before = m.nvml_before.map_or(0, |before| before.0);
                m.nvml_used?.0.checked_sub(before)
            }
        }
    }

    /// As it is predicted; `None` where there is none of it.
    pub(crate) fn predicted(self, prediction: &Prediction, timeline: &Timeline) -> Option<u64> {
        let candle = prediction.workload.runtime == Runtime::Candle;
        let end = timeline.events.len().checked_sub(1)?;
        let of = |category: Category, event| timeline.live_at(event)[category as usize];
        let steps = || steps(timeline, &prediction.workload.allocator_conf);
        Some(match self {
            Self::Parameters => prediction.n_params,
            Self::Weights if candle => of(Category::Parameters, end),
            Self::Weights => steps()?.built,
            // Every parameter receives one.
            Self::Gradients if candle => SINGLE * prediction.n_params,
            Self::Gradients => {
                let steps = steps()?;
                steps.after_backward.checked_sub(steps.start)?
            }
            Self::State => of(Category::Optimizer, end),
            Self::Held => [Self::Weights, Self::Gradients, Self::State]
                .map(|part| part.predicted(prediction, timeline))
                .into_iter()
                .sum::<Option<u64>>()?,
            Self::Activations => {
                let start = if candle {
                    prediction.model_requested.0
                } else {
                    steps()?.start
                };
                let forward = prediction.phases.iter().find(|p| p.name == Phase::Forward);
                forward?.peak_allocated.0.checked_sub(start)?
            }
            Self::Allocated => prediction.peak_allocated.0,
            Self::Reserved => prediction.peak_reserved.0,
            Self::Nvml => prediction.peak_nvml.0,
        })
    }
}

/// The last step's allocated bytes.
fn last(record: &Record) -> Option<AllocatedStep> {
    record.measured.steps.last()?.allocated
}
