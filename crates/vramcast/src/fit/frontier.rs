//! Batch and sequence together: the peak at every point of a grid, and the largest batch that fits
//! at each sequence.

use super::search::Search;
use super::{Axis, Fit, fit};
use crate::bytes::Bytes;
use crate::predict::{Effort, PredictError, Question, predict};
use crate::workload::Workload;
use rayon::prelude::*;
use serde::Serialize;

/// The largest batch at one sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Point {
    /// Tokens in a sequence.
    pub seq: u64,
    /// What was found.
    #[serde(flatten)]
    pub fit: Fit,
    /// What NVML shows at the largest batch, if any fits.
    pub peak_nvml: Option<Bytes>,
}

/// The largest batch at each of some sequences, in their order.
///
/// # Errors
/// As [`fit`].
pub fn frontier(question: &Question<'_>, seqs: &[u64]) -> Result<Vec<Point>, PredictError> {
    let at = |&seq: &u64| {
        let fit = at_sequence(question, seq, |question| fit(question, Axis::Batch))?;
        let peak_nvml = (fit.largest > 0)
            .then(|| expected(question, fit.largest, seq))
            .transpose()?;
        Ok(Point {
            seq,
            fit,
            peak_nvml,
        })
    };
    seqs.par_iter().map(at).collect()
}

/// Peaks over batch and sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Grid {
    /// Sequences in a batch, ascending.
    pub batches: Vec<u64>,
    /// Tokens in a sequence, ascending.
    pub seqs: Vec<u64>,
    /// What NVML shows where there is room, by batch and then by sequence. `None` where the model
    /// refuses the point.
    pub peak_nvml: Vec<Vec<Option<Bytes>>>,
    /// The largest batch whose expected run ends well, by sequence; 0 for none.
    pub largest: Vec<u64>,
}

/// What a job takes around the frontier: at even distances up to the longest sequence, and up to the
/// batch that fits at a quarter of it.
///
/// # Errors
/// As [`fit`].
pub fn grid(question: &Question<'_>, rows: u64, columns: u64) -> Result<Grid, PredictError> {
    let seqs = even(question.config.max_sequence(), columns);
    let largest = |&seq: &u64| {
        at_sequence(question, seq, |question| {
            Ok(Search::new(question, Axis::Batch)?.largest_soon())
        })
    };
    let largest: Vec<u64> = seqs
        .par_iter()
        .map(largest)
        .collect::<Result<_, PredictError>>()?;
    let batches = even(largest[largest.len() / 4].max(rows), rows);
    // Where nothing limits it the allocator keeps its cache.
    let free = Question {
        capacity: Some(Bytes(u64::MAX)),
        allocator_limit: None,
        ..*question
    };
    let peaks = |&batch: &u64| {
        let at = |&seq: &u64| expected(&free, batch, seq).ok();
        seqs.iter().map(at).collect()
    };
    let peak_nvml = batches.par_iter().map(peaks).collect();
    Ok(Grid {
        batches,
        seqs,
        peak_nvml,
        largest,
    })
}

/// At most `count` values at even distances, the last of them `most`.
pub fn even(most: u64, count: u64) -> Vec<u64> {
    let step = most.div_ceil(count).max(1);
    let values = 1..=most.div_ceil(step);
    values.map(|i| (i * step).min(most)).collect()
}

/// Asks the question at another sequence.
fn at_sequence<R>(question: &Question<'_>, seq: u64, ask: impl FnOnce(&Question<'_>) -> R) -> R {
    let workload = Workload {
        seq,
        ..question.workload.clone()
    };
    ask(&Question {
        workload: &workload,
        ..*question
    })
}

/// What NVML shows of the expected run.
fn expected(question: &Question<'_>, batch: u64, seq: u64) -> Result<Bytes, PredictError> {
    let workload = Workload {
        batch,
        seq,
        ..question.workload.clone()
    };
    let prediction = predict(&Question {
        workload: &workload,
        effort: Effort::Expected,
        ..*question
    })?;
    Ok(prediction.peak_nvml)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_even_and_end_at_the_most() {
        for (most, count, expected) in [
            (512, 4, vec![128, 256, 384, 512]),
            (514, 4, vec![129, 258, 387, 514]),
            (3, 32, vec![1, 2, 3]),
            (33, 32, (1..=16).map(|i| 2 * i).chain([33]).collect()),
        ] {
            assert_eq!(even(most, count), expected, "{most}");
        }
    }
}
