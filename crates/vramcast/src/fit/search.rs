//! The search itself: doubling until a run fails, then halving the rest, as people do by hand.

use super::{Axis, Tried};
use crate::bytes::Bytes;
use crate::predict::{Effort, PredictError, Prediction, Question, Verdict, predict};

/// A question, asked anew for other values of an axis.
pub(super) struct Search<'a> {
    question: &'a Question<'a>,
    axis: Axis,
    tried: Vec<Tried>,
}

impl<'a> Search<'a> {
    /// # Errors
    /// A question without anything to fit into, and those of the smallest value.
    pub(super) fn new(question: &'a Question<'a>, axis: Axis) -> Result<Self, PredictError> {
        let mut search = Self {
            question,
            axis,
            tried: Vec::new(),
        };
        // A limit of each allocator is no share of anything.
        if axis == Axis::Processes && question.capacity().is_none() {
            return Err(PredictError::Workload(
                "what do the processes share? give --gpu or --capacity".to_owned(),
            ));
        }
        let least = search.least();
        let smallest = search.at(least, Effort::Expected)?;
        if smallest.verdict == Verdict::Unknown {
            return Err(PredictError::Workload(
                "what must it fit into? give --gpu, --capacity or --allocator-limit".to_owned(),
            ));
        }
        search.remember(least, &smallest);
        Ok(search)
    }

    /// The smallest value: compiled code for a single sequence is not predicted.
    pub(super) fn least(&self) -> u64 {
        match self.axis {
            Axis::Batch if self.question.workload.compile => 2,
            Axis::Batch | Axis::Seq | Axis::Processes | Axis::Models => 1,
        }
    }

    /// What was looked at, in order.
    pub(super) fn tried(&self) -> &[Tried] {
        &self.tried
    }

    /// The answer for a value.
    ///
    /// # Errors
    /// Those of [`predict`].
    pub(super) fn at(&self, value: u64, effort: Effort) -> Result<Prediction, PredictError> {
        let mut workload = self.question.workload.clone();
        let mut question = Question {
            effort,
            ..*self.question
        };
        let share = |whole: Bytes| Bytes(whole.0 / value.max(1));
        match self.axis {
            Axis::Batch => workload.batch = value,
            Axis::Seq => workload.seq = value,
            Axis::Models => workload.models = value,
            Axis::Processes => question.capacity = question.capacity().map(share),
        }
        predict(&Question {
            workload: &workload,
            ..question
        })
    }

    /// Whether the expected run of a value ends well. What is refused does not.
    pub(super) fn runs(&mut self, value: u64) -> bool {
        let known = self.tried.iter().find(|tried| tried.value == value);
        if let Some(known) = known {
            return known.runs;
        }
        match self.at(value, Effort::Expected) {
            Ok(prediction) => self.remember(value, &prediction),
            Err(_) => false,
        }
    }

    /// Notes how the expected run of a value ends: whether it does well.
    fn remember(&mut self, value: u64, prediction: &Prediction) -> bool {
        let runs = prediction.runs();
        self.tried.push(Tried { value, runs });
        runs
    }

    pub(super) fn verdict(&self, value: u64) -> Verdict {
        match value {
            0 => Verdict::Fits,
            // What the model refuses does not run.
            _ => self
                .at(value, Effort::Verdict)
                .map_or(Verdict::Oom, |p| p.verdict),
        }
    }

    /// The largest value whose expected run ends well; 0 for none.
    pub(super) fn largest(&mut self) -> u64 {
        let least = self.least();
        by_hand(least, |value| self.runs(value))
    }

    /// About where the capacity is reached: the line through two small values.
    fn extrapolated(&self) -> Option<u64> {
        let (low, high) = (4 * self.least(), 16 * self.least());
        let peak = |value| self.at(value, Effort::Expected).ok();
        let (below, above) = (peak(low)?, peak(high)?);
        let limit = self.question.allocator_limit;
        let allowed = limit.and_then(|limit| limit.plus(below.context).ok());
        let room = [self.question.capacity(), allowed].into_iter().flatten();
        let room = u128::from(room.min()?.0.checked_sub(below.peak_nvml.0)?);
        let slope = above.peak_nvml.0.checked_sub(below.peak_nvml.0)?;
        let more = room * u128::from(high - low) / u128::from(slope.max(1));
        u64::try_from(more).ok()?.checked_add(low)
    }

    /// The largest value, as [`Self::largest`] finds it, with fewer of the values far from it.
    pub(super) fn largest_soon(&mut self) -> u64 {
        match self.extrapolated() {
            Some(guess) => self.largest_near(guess),
            None => self.largest(),
        }
    }

    /// The same, where it is thought to be about `guess`: what is far below is taken to run and what
    /// is far above to fail, and the answer is tried in full where that does not prove right.
    pub(super) fn largest_near(&mut self, guess: u64) -> u64 {
        let far = guess / 5 + 2;
        let above = guess.saturating_add(far);
        let least = self.least();
        let found = by_hand(least, |value| {
            value < guess - far.min(guess) || (value <= above && self.runs(value))
        });
        if found >= least && self.runs(found) && !self.runs(found + 1) {
            return found;
        }
        self.largest()
    }

    /// The largest value that fits for certain, and the largest that may run: galloping away from
    /// the answer, then halving.
    pub(super) fn band(&self, largest: u64) -> (u64, u64) {
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

/// Doubles from `least` until `test` fails, and halves the rest; 0 where `least` fails.
pub(super) fn by_hand(least: u64, mut test: impl FnMut(u64) -> bool) -> u64 {
    let (mut holds, mut fails) = (least - 1, least);
    while fails > holds && test(fails) {
        holds = fails;
        fails = fails.saturating_mul(2);
    }
    let found = last(holds, fails, test);
    if found < least { 0 } else { found }
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
