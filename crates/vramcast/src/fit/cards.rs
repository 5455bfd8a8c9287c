//! Every known card: whether a job fits there, and the largest that does.

use super::Axis;
use super::search::{Search, by_hand};
use crate::bytes::Bytes;
use crate::gpu::{GPUS, Gpu};
use crate::predict::{Effort, PredictError, Question, Verdict, predict};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

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
        /// What is left of the capacity beside that; below 0 where it is not enough.
        headroom: i128,
        /// The largest batch or sequence whose expected run ends well; 0 for none.
        largest: u64,
        /// What is said of the job with it.
        verdict_at_largest: Verdict,
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
    let unlimited = Question {
        gpu: None,
        capacity: Some(Bytes(u64::MAX)),
        ..*question
    };
    let curve = Curve {
        search: Search::new(&unlimited, axis)?,
        known: Mutex::default(),
    };
    let on = |gpu: &'static Gpu| {
        let question = Question {
            gpu: Some(gpu),
            effort: Effort::Verdict,
            ..*question
        };
        let prediction = predict(&question)?;
        let mut search = Search::new(&question, axis)?;
        let largest = search.largest_near(curve.largest(Bytes(gpu.capacity().0)));
        Ok(CardAnswer::Predicted {
            verdict: prediction.verdict,
            peak_nvml: prediction.peak_nvml,
            headroom: Bytes(gpu.capacity().0).minus(prediction.peak_nvml),
            largest,
            verdict_at_largest: search.verdict(largest),
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

/// What NVML shows along an axis where no card is named: near what it is on each, so that most
/// values need not be asked of every card.
struct Curve<'a> {
    search: Search<'a>,
    known: Mutex<BTreeMap<u64, Option<Bytes>>>,
}

impl Curve<'_> {
    fn at(&self, value: u64) -> Option<Bytes> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&peak) = known().get(&value) {
            return peak;
        }
        let asked = self.search.at(value, Effort::Expected);
        let peak = asked.ok().map(|prediction| prediction.peak_nvml);
        known().insert(value, peak);
        peak
    }

    /// The largest value that takes no more than `capacity`.
    fn largest(&self, capacity: Bytes) -> u64 {
        by_hand(self.search.least(), |value| {
            self.at(value).is_some_and(|peak| peak <= capacity)
        })
    }
}
