//! What to change so that a job takes less memory: each lever alone, and the combinations that are
//! worth their cost.
//!
//! Every figure is a prediction of the changed job, not a share taken off: levers overlap. What a
//! lever costs beside memory is said in words, with who found it, and ranks by kind alone; nothing
//! is weighed against bytes.

mod lever;

pub use lever::Cost;
use lever::Lever;

use crate::bytes::Bytes;
use crate::predict::{PredictError, Prediction, Question, Verdict, predict};
use crate::workload::{Attention, Mode, Optimizer, Precision, Runtime, Workload};
use rayon::prelude::*;
use serde::Serialize;
use std::cmp::Ordering;

/// One lever of a suggestion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Its name.
    pub lever: String,
    /// What it costs.
    pub cost: Cost,
    /// In words.
    pub caveat: &'static str,
    /// What to write.
    pub change: String,
    /// What NVML shows with this one and those before it.
    pub peak_nvml: Bytes,
}

/// A lever or a combination, and what it leads to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Suggestion {
    /// Its levers, the cheapest first.
    pub steps: Vec<Step>,
    /// The prediction of the changed job.
    pub prediction: Prediction,
}

/// All advice for a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The job as it is.
    pub now: Prediction,
    /// Each lever alone, the one that saves most first.
    pub levers: Vec<Suggestion>,
    /// Combinations from the cheapest on. Of a job that does not fit for certain: those that do,
    /// and would not with a lever less. Of any other: those whose peak is lower than with
    /// everything cheaper.
    pub combinations: Vec<Suggestion>,
    /// How many jobs were predicted.
    pub tried: usize,
}

/// Advises on a job.
///
/// # Errors
/// Those of [`predict`] for the job as it is.
pub fn advise(question: &Question<'_>) -> Result<Advice, PredictError> {
    let workload = question.workload;
    let now = predict(question)?;
    let choices = choices(question);
    let alone = singles(&choices, workload);
    let combined = product(&choices);
    let must_fit = matches!(now.verdict, Verdict::Tight | Verdict::Oom);
    let found: Vec<(Vec<Tried>, usize)> = combined
        .par_iter()
        .map(|levers| split(question, levers, must_fit))
        .collect();
    let tried = found.iter().map(|(_, tried)| tried).sum::<usize>();
    let mut candidates: Vec<Tried> = found.into_iter().flat_map(|(found, _)| found).collect();
    candidates.retain(|tried| !tried.levers.is_empty());
    candidates.sort_by(|a, b| a.compare(b, workload.mode));
    let combinations = || {
        if must_fit {
            return least(question, candidates);
        }
        let kept = frontier(candidates, now.peak_nvml);
        let suggestions = kept.par_iter().filter_map(|t| suggest(question, &t.levers));
        suggestions.collect()
    };
    let levers = || -> Vec<Suggestion> {
        let suggestions = alone.par_iter();
        suggestions
            .filter_map(|&lever| suggest(question, &[lever]))
            .collect()
    };
    let (combinations, mut levers) = rayon::join(combinations, levers);
    levers.sort_by_key(|s| s.prediction.peak_nvml);
    Ok(Advice {
        now,
        levers,
        combinations,
        tried,
    })
}

/// What can be chosen, one list a question: each of its levers, or none of them.
fn choices(question: &Question<'_>) -> Vec<Vec<Lever>> {
    let workload = question.workload;
    let trains = workload.mode == Mode::Train;
    let torch = workload.runtime == Runtime::Torch;
    // Tensor cores know bfloat16 from Ampere on (CUDA C++ programming guide, compute capability 8.0).
    let wide = question
        .gpu
        .is_none_or(|gpu| gpu.compute_capability >= (8, 0));
    let (amp, half) = if wide {
        (Precision::AmpBf16, Precision::Bf16)
    } else {
        (Precision::AmpFp16, Precision::Fp16)
    };
    let mut precisions = Vec::new();
    if workload.precision == Precision::Fp32 && trains {
        precisions.push(Lever::Autocast(amp));
    }
    // Weights in float16 do not train: their gradients underflow without a scaler, which refuses them.
    if !matches!(workload.precision, Precision::Bf16 | Precision::Fp16) && (wide || !trains) {
        precisions.push(Lever::HalfWeights(half));
    }
    let mut optimizers = Vec::new();
    if trains && workload.lora_rank == 0 {
        let adam = [
            Optimizer::Adamw,
            Optimizer::AdamwSingle,
            Optimizer::AdamwFused,
        ];
        if adam.contains(&workload.optimizer) {
            if torch {
                optimizers.push(Lever::Optimizer(Optimizer::Adafactor));
            }
            optimizers.push(Lever::Optimizer(Optimizer::Sgd));
        }
    }
    let one = |lever, applies: bool| applies.then_some(lever).into_iter().collect();
    vec![
        one(
            Lever::FusedAttention,
            torch && workload.attention == Attention::Eager,
        ),
        one(
            Lever::ExpandableSegments,
            torch && !workload.allocator_conf.contains("expandable_segments"),
        ),
        one(Lever::DropGraph, !torch && trains && !workload.drop_graph),
        precisions,
        one(Lever::Checkpointing, trains && !workload.checkpointing),
        optimizers,
        // There it keeps a mask of full width for each use, and copies besides.
        one(Lever::NoDropout, !torch && trains && workload.dropout),
        one(Lever::Shorter(workload.seq / 2), workload.seq > 1),
    ]
}

/// Each lever alone, and the batch halved and taken one by one.
fn singles(choices: &[Vec<Lever>], workload: &Workload) -> Vec<Lever> {
    let parts = parts(workload);
    let splits = [parts.first(), parts.last().filter(|_| parts.len() > 1)];
    let splits = splits.into_iter().flatten().map(|&k| Lever::Split(k));
    choices.iter().flatten().copied().chain(splits).collect()
}

/// In how many equal passes a batch can be taken.
fn parts(workload: &Workload) -> Vec<u32> {
    let most = u64::min(workload.batch, 1 << 12);
    let divides = |k: &u64| workload.batch.is_multiple_of(*k);
    (2..=most).filter(divides).map(|k| k as u32).collect()
}

/// All ways to choose, none among them.
fn product(choices: &[Vec<Lever>]) -> Vec<Vec<Lever>> {
    let mut ways = vec![vec![]];
    for choice in choices {
        let longer: Vec<Vec<Lever>> = choice
            .iter()
            .flat_map(|&lever| {
                ways.iter()
                    .map(move |way: &Vec<Lever>| way.iter().copied().chain([lever]).collect())
            })
            .collect();
        ways.extend(longer);
    }
    ways
}

/// A combination, and what came of it.
struct Tried {
    levers: Vec<Lever>,
    /// What NVML shows at most.
    peak: Bytes,
}

impl Tried {
    /// How often it costs what, the dearest first, and into how many passes it splits.
    fn price(&self, mode: Mode) -> ([usize; Cost::COUNT], u32) {
        let mut price = [0; Cost::COUNT];
        let mut passes = 1;
        for lever in &self.levers {
            price[Cost::COUNT - 1 - lever.cost(mode) as usize] += 1;
            if let Lever::Split(k) = lever {
                passes = *k;
            }
        }
        (price, passes)
    }

    /// The cheaper one first; of the same price, the lower peak.
    fn compare(&self, other: &Self, mode: Mode) -> Ordering {
        let price = self.price(mode).cmp(&other.price(mode));
        price.then(self.peak.cmp(&other.peak))
    }

    /// Whether it changes all that `other` does, and more.
    fn contains(&self, other: &Self) -> bool {
        let has = |lever: &Lever| match lever {
            Lever::Split(k) => self
                .levers
                .iter()
                .any(|mine| matches!(mine, Lever::Split(l) if l >= k)),
            _ => self.levers.contains(lever),
        };
        other.levers.iter().all(has)
    }
}

fn pull(levers: &[Lever], workload: &Workload) -> Workload {
    let start = workload.clone();
    levers
        .iter()
        .fold(start, |workload, lever| lever.pull(&workload))
}

/// What is said of a changed job; `None` where PyTorch or the shadow refuses it.
fn ask(question: &Question<'_>, workload: &Workload, range: bool) -> Option<Prediction> {
    let changed = Question {
        workload,
        range,
        ..*question
    };
    predict(&changed).ok()
}

/// A combination with the batch in one pass and in more, and how many jobs were predicted. What must
/// fit comes with every number of passes from the fewest that run as expected, none if none does;
/// anything else whole and in single sequences. What PyTorch or the shadow refuses is left out.
fn split(question: &Question<'_>, levers: &[Lever], must_fit: bool) -> (Vec<Tried>, usize) {
    let mut tried = 0;
    let all: Vec<u32> = [1].into_iter().chain(parts(question.workload)).collect();
    let with = |passes: u32| -> Vec<Lever> {
        let split = (passes > 1).then_some(Lever::Split(passes));
        levers.iter().copied().chain(split).collect()
    };
    let mut at = |passes: u32| {
        tried += 1;
        let expected = ask(question, &pull(&with(passes), question.workload), false)?;
        (expected.runs() || !must_fit).then_some(expected.peak_nvml)
    };
    let found = if must_fit {
        // Fewer passes take more.
        let (mut low, mut high, mut peak) = (0, all.len(), None);
        while low < high {
            let middle = if low == 0 { 0 } else { low.midpoint(high) };
            match at(all[middle]) {
                Some(runs) => (peak, high) = (Some(runs), middle),
                None => low = middle + 1,
            }
        }
        let runs = all[low..].iter();
        runs.filter_map(|&passes| Some((passes, peak?))).collect()
    } else {
        let mut ends = vec![all[0], all[all.len() - 1]];
        ends.dedup();
        let ends = ends.into_iter();
        ends.filter_map(|passes| Some((passes, at(passes)?)))
            .collect::<Vec<_>>()
    };
    let found = found.into_iter().map(|(passes, peak)| Tried {
        levers: with(passes),
        peak,
    });
    (found.collect(), tried)
}

/// Those that fit whatever is not known, without those of which a part does.
fn least(question: &Question<'_>, candidates: Vec<Tried>) -> Vec<Suggestion> {
    let (mut kept, mut suggestions): (Vec<Tried>, _) = (vec![], vec![]);
    for tried in candidates {
        if kept.iter().any(|cheaper| tried.contains(cheaper)) {
            continue;
        }
        if let Some(found) = suggest(question, &tried.levers).filter(fits) {
            kept.push(tried);
            suggestions.push(found);
        }
    }
    suggestions
}

fn fits(suggestion: &Suggestion) -> bool {
    suggestion.prediction.verdict == Verdict::Fits
}

/// What a cheaper combination leaves must be worth it: a hundredth of the peak.
const WORTH: u64 = 100;

/// Those with a lower peak than everything cheaper.
fn frontier(candidates: Vec<Tried>, now: Bytes) -> Vec<Tried> {
    let mut lowest = now;
    let mut kept = vec![];
    for tried in candidates {
        if tried.peak.0 + now.0 / WORTH <= lowest.0 {
            lowest = tried.peak;
            kept.push(tried);
        }
    }
    kept
}

/// A combination with its whole prediction, and the peak after each of its levers.
fn suggest(question: &Question<'_>, levers: &[Lever]) -> Option<Suggestion> {
    let mode = question.workload.mode;
    let mut ordered = levers.to_vec();
    ordered.sort_by_key(|lever| lever.cost(mode));
    let workload = pull(&ordered, question.workload);
    let prediction = ask(question, &workload, true)?;
    let step = |i: usize| {
        let lever = ordered[i];
        let so_far = pull(&ordered[..=i], question.workload);
        let peak_nvml = if i + 1 == ordered.len() {
            prediction.peak_nvml
        } else {
            ask(question, &so_far, false)?.peak_nvml
        };
        Some(Step {
            lever: lever.name(),
            cost: lever.cost(mode),
            caveat: lever.caveat(mode),
            change: lever.change(&so_far),
            peak_nvml,
        })
    };
    let steps = (0..ordered.len()).map(step).collect::<Option<_>>()?;
    Some(Suggestion { steps, prediction })
}
