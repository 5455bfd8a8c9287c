//! The largest batch, or the longest sequence, that fits.
//!
//! Fitting need not be monotonic: near the limit PyTorch's allocator gives its cache back at
//! different moments, so a batch may fail and a larger one run. The search is the one that people
//! make by hand, doubling until a run fails and halving the rest; what runs beyond its answer is
//! listed.

mod cards;

pub use cards::{CardAnswer, OnCard, cards};

use crate::predict::{Effort, PredictError, Prediction, Question, Verdict, predict};
use crate::workload::Workload;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantNames};

/// What is searched.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    VariantNames,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Axis {
    /// The largest batch at the workload's sequence.
    #[default]
    Batch,
    /// The longest sequence at the workload's batch.
    Seq,
}

/// One value that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    /// The batch or the sequence.
    pub value: u64,
    /// Whether the expected run ends well.
    pub runs: bool,
}

/// What a search found. Zero stands for none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fit {
    /// What was searched.
    pub axis: Axis,
    /// The largest value whose expected run ends well while that of the next does not.
    pub largest: u64,
    /// The largest value up to there that is said to fit whatever is not known.
    pub certain: u64,
    /// The largest value from there on that may still run.
    pub possible: u64,
    /// Values beyond `largest` whose expected run ends well, too: fitting is not monotonic here.
    pub beyond: Vec<u64>,
    /// Whether the model, not the card, sets the limit: its position table, or 32-bit indices.
    pub bounded_by_model: bool,
    /// What was looked at, in order.
    pub tried: Vec<Tried>,
}

/// More values above the answer are not looked at.
const MOST_BEYOND: u64 = 64;

/// Searches the largest value of `axis`; the question's own value of it does not matter.
///
/// # Errors
/// A question without a card and without a capacity, and those of [`predict`] for the smallest
/// value.
pub fn fit(question: &Question<'_>, axis: Axis) -> Result<Fit, PredictError> {
    let mut search = Search {
        question,
        axis,
        tried: Vec::new(),
    };
    let least = search.least();
    if search.at(least, Effort::Expected)?.verdict == Verdict::Unknown {
        return Err(PredictError::Workload(
            "what must it fit into? give --gpu, --capacity or --allocator-limit".to_owned(),
        ));
    }
    let (mut runs, mut fails) = (least - 1, least);
    // What the model refuses is beyond it.
    while fails > runs && search.runs(fails).unwrap_or(false) {
        runs = fails;
        fails *= 2;
    }
    let largest = last(runs, fails, |value| search.runs(value).unwrap_or(false));
    let largest = if largest < least { 0 } else { largest };
    let tried = search.tried.clone();
    let (certain, possible) = search.band(largest);
    let last = possible.min(largest.saturating_add(MOST_BEYOND));
    let beyond = (largest + 1..=last).filter(|&value| search.runs(value).unwrap_or(false));
    let beyond = beyond.collect();
    Ok(Fit {
        axis,
        largest,
        certain,
        possible,
        beyond,
        bounded_by_model: search.at(largest + 1, Effort::Expected).is_err(),
        tried,
    })
}

struct Search<'a> {
    question: &'a Question<'a>,
    axis: Axis,
    tried: Vec<Tried>,
}

impl Search<'_> {
    /// The smallest value: compiled code for a single sequence is not predicted.
    fn least(&self) -> u64 {
        match self.axis {
            Axis::Batch if self.question.workload.compile => 2,
            Axis::Batch | Axis::Seq => 1,
        }
    }

    fn at(&self, value: u64, effort: Effort) -> Result<Prediction, PredictError> {
        let mut workload: Workload = self.question.workload.clone();
        match self.axis {
            Axis::Batch => workload.batch = value,
            Axis::Seq => workload.seq = value,
        }
        predict(&Question {
            workload: &workload,
            effort,
            ..*self.question
        })
    }

    /// Whether the expected run of a value ends well.
    fn runs(&mut self, value: u64) -> Result<bool, PredictError> {
        let known = self.tried.iter().find(|tried| tried.value == value);
        if let Some(known) = known {
            return Ok(known.runs);
        }
        let runs = self.at(value, Effort::Expected)?.runs();
        self.tried.push(Tried { value, runs });
        Ok(runs)
    }

    fn verdict(&self, value: u64) -> Verdict {
        match value {
            0 => Verdict::Fits,
            // What the model refuses does not run.
            _ => self
                .at(value, Effort::Verdict)
                .map_or(Verdict::Oom, |p| p.verdict),
        }
    }

    /// The largest value that fits for certain, and the largest that may run: galloping away from
    /// the answer, then halving.
    fn band(&self, largest: u64) -> (u64, u64) {
        let (mut certain, mut above, mut step) = (largest, largest + 1, 1);
        while self.verdict(certain) != Verdict::Fits {
            above = certain;
            certain = certain.saturating_sub(step);
            step *= 2;
        }
        let (mut possible, mut never, mut step) = (largest, largest + 1, 1);
        while self.verdict(never) != Verdict::Oom {
            possible = never;
            never += step;
            step *= 2;
        }
        (
            last(certain, above, |value| self.verdict(value) == Verdict::Fits),
            last(possible, never, |value| self.verdict(value) != Verdict::Oom),
        )
    }
}

/// Halves the distance between a value that holds and a larger one that does not, and returns the
/// last that holds.
fn last(mut holds: u64, mut fails: u64, mut test: impl FnMut(u64) -> bool) -> u64 {
    while fails - holds > 1 {
        let middle = holds.midpoint(fails);
        if test(middle) {
            holds = middle;
        } else {
            fails = middle;
        }
    }
    holds
}
