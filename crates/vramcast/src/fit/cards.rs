//! Every known card: whether a job fits there, and the largest that does.

use super::{Axis, fit};
use crate::bytes::Bytes;
use crate::gpu::{GPUS, Gpu};
use crate::predict::{Effort, PredictError, Question, Verdict, predict};
use rayon::prelude::*;
use serde::Serialize;

/// A job on one card.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OnCard {
    /// The card's name.
    pub gpu: &'static str,
    /// What a process can have of it.
    pub capacity: Bytes,
    /// What is said of the job there.
    #[serde(flatten)]
    pub answer: CardAnswer,
}

/// What is said of a job on a card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum CardAnswer {
    /// It is predicted.
    Predicted {
        /// Whether it fits.
        verdict: Verdict,
        /// What NVML shows.
        peak_nvml: Bytes,
        /// The largest batch or sequence whose expected run ends well; 0 for none.
        largest: u64,
    },
    /// It is not, for this reason.
    NotPredicted {
        /// In words.
        reason: String,
    },
}

impl CardAnswer {
    /// Whether the job fits for certain.
    pub fn fits(&self) -> bool {
        matches!(self, Self::Predicted { verdict, .. } if *verdict == Verdict::Fits)
    }
}

/// A job on all cards, from the smallest to the largest.
///
/// # Errors
/// Those of [`predict`] that do not depend on the card.
pub fn cards(question: &Question<'_>, axis: Axis) -> Result<Vec<OnCard>, PredictError> {
    predict(&Question {
        gpu: None,
        effort: Effort::Expected,
        ..*question
    })?;
    let on = |gpu: &'static Gpu| {
        let question = Question {
            gpu: Some(gpu),
            effort: Effort::Verdict,
            ..*question
        };
        let prediction = predict(&question)?;
        Ok(CardAnswer::Predicted {
            verdict: prediction.verdict,
            peak_nvml: prediction.peak_nvml,
            largest: fit(&question, axis)?.largest,
        })
    };
    let answers: Vec<Result<CardAnswer, PredictError>> = GPUS.par_iter().map(on).collect();
    let mut cards: Vec<OnCard> = GPUS
        .iter()
        .zip(answers)
        .map(|(gpu, answer)| OnCard {
            gpu: gpu.name,
            capacity: Bytes(gpu.capacity().0),
            answer: answer.unwrap_or_else(|error| CardAnswer::NotPredicted {
                reason: error.to_string(),
            }),
        })
        .collect();
    cards.sort_by_key(|card| card.capacity);
    Ok(cards)
}
