//! The largest batch, or the longest sequence, that fits.
//!
//! Fitting need not be monotonic: near the limit PyTorch's allocator gives its cache back at
//! different moments, so a batch may fail and a larger one run. The search is the one that people
//! make by hand, doubling until a run fails and halving the rest; what runs beyond its answer is
//! listed.

mod cards;
mod frontier;
mod instances;
mod search;

pub use cards::{CardAnswer, OnCard, cards};
pub use frontier::{Grid, Point, even, frontier, grid};
pub use instances::{Instances, Together, instances};

use crate::predict::{Effort, PredictError, Question};
use search::Search;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

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
    IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Axis {
    /// The largest batch at the workload's sequence.
    #[default]
    Batch,
    /// The longest sequence at the workload's batch.
    Seq,
    /// The most processes that run the job at the same time, each with a context of its own and an
    /// equal share of what there is.
    Processes,
    /// The most models that one process holds and runs in turn.
    Models,
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
    let mut search = Search::new(question, axis)?;
    let largest = search.largest();
    let tried = search.tried().to_vec();
    let (certain, possible) = search.band(largest);
    let last = possible.min(largest.saturating_add(MOST_BEYOND));
    let beyond = (largest + 1..=last).filter(|&value| search.runs(value));
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
