//! How many servers of one job a card holds: processes beside each other, or models in one process.

use super::{Axis, Fit, fit};
use crate::bytes::Bytes;
use crate::predict::{Effort, PredictError, Prediction, Question, predict};
use crate::workload::{Mode, Runtime, Workload};
use serde::Serialize;

/// How often a job fits into what there is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Instances {
    /// The job in a process of its own, where there is room.
    pub alone: Prediction,
    /// Processes at the same time, each with its own context and an equal share.
    pub processes: Fit,
    /// Models in one process, which run in turn; in inference on PyTorch, not compiled.
    pub models: Option<Together>,
}

/// Models in one process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Together {
    /// How many.
    #[serde(flatten)]
    pub fit: Fit,
    /// What NVML shows with the largest number of them; `None` where none fits.
    pub peak_nvml: Option<Bytes>,
}

/// Searches how many of a job share what it must fit into.
///
/// Equal shares are what `torch.cuda.set_per_process_memory_fraction` enforces; without it one
/// process may keep a cache that another is short of.
///
/// # Errors
/// As [`fit`].
pub fn instances(question: &Question<'_>) -> Result<Instances, PredictError> {
    let processes = fit(question, Axis::Processes)?;
    let expected = |models| {
        let workload = Workload {
            models,
            ..question.workload.clone()
        };
        predict(&Question {
            workload: &workload,
            effort: Effort::Expected,
            ..*question
        })
    };
    let Workload {
        mode,
        runtime,
        compile,
        ..
    } = *question.workload;
    // Nothing else is predicted with several.
    let serves = (mode, runtime, compile) == (Mode::Infer, Runtime::Torch, false);
    let models = serves
        .then(|| {
            let fit = fit(question, Axis::Models)?;
            let peak_nvml = match fit.largest {
                0 => None,
                largest => Some(expected(largest)?.peak_nvml),
            };
            Ok::<_, PredictError>(Together { fit, peak_nvml })
        })
        .transpose()?;
    let alone = predict(&Question {
        capacity: Some(Bytes(u64::MAX)),
        ..*question
    })?;
    Ok(Instances {
        alone,
        processes,
        models,
    })
}
