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
use crate::dtype::DType;
use crate::predict::{Effort, PredictError, Prediction, Question, Verdict, predict};
use crate::workload::{Attention, Mode, Optimizer, Precision, Runtime, Workload};
use rayon::prelude::*;
use serde::Serialize;
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    /// The prediction of the changed job, without its need.
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
    let jobs = Jobs {
        question,
        asked: Mutex::default(),
    };
    let combinations = || match now.verdict {
        Verdict::Tight | Verdict::Oom => least(&jobs, combined),
        Verdict::Fits | Verdict::Unknown => frontier(&jobs, &combined, now.peak_nvml),
    };
    let levers = || -> Vec<Suggestion> {
        let suggestions = alone.par_iter();
        suggestions
            .filter_map(|&lever| suggest(&jobs, &[lever]))
            .collect()
    };
    let (combinations, mut levers) = rayon::join(combinations, levers);
    levers.sort_by_key(|s| s.prediction.peak_nvml);
    Ok(Advice {
        now,
        levers,
        combinations,
        tried: jobs.known().len(),
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
    if workload.precision.weights() == DType::F32 && (wide || !trains) {
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
        one(Lever::Uncompiled, workload.compile),
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

/// A combination, in so many passes, and what came of it.
struct Tried {
    levers: Vec<Lever>,
    passes: u32,
    prediction: Prediction,
}

impl Tried {
    /// All its levers.
    fn all(&self) -> Vec<Lever> {
        with(&self.levers, self.passes)
    }

    /// How often it costs what, the dearest first, then its passes, then its peak: the cheaper one
    /// first.
    fn price(&self, mode: Mode) -> ([usize; Cost::COUNT], u32, Bytes) {
        let mut price = [0; Cost::COUNT];
        for lever in self.all() {
            price[Cost::COUNT - 1 - lever.cost(mode) as usize] += 1;
        }
        (price, self.passes, self.prediction.peak_nvml)
    }
}

/// Levers, and the batch in so many passes.
fn with(levers: &[Lever], passes: u32) -> Vec<Lever> {
    let split = (passes > 1).then_some(Lever::Split(passes));
    levers.iter().copied().chain(split).collect()
}

fn pull(levers: &[Lever], workload: &Workload) -> Workload {
    let start = workload.clone();
    levers
        .iter()
        .fold(start, |workload, lever| lever.pull(&workload))
}

/// The job and what was asked of changed ones, each of them once.
struct Jobs<'a> {
    question: &'a Question<'a>,
    /// A few hundred, so they are looked through.
    asked: Mutex<Vec<Asked>>,
}

struct Asked {
    workload: Workload,
    effort: Effort,
    prediction: Option<Prediction>,
}

impl Jobs<'_> {
    fn known(&self) -> MutexGuard<'_, Vec<Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is said of a changed job; `None` where PyTorch or the shadow refuses it.
    fn ask(&self, workload: &Workload, effort: Effort) -> Option<Prediction> {
        let same = |asked: &&Asked| asked.effort == effort && asked.workload == *workload;
        if let Some(asked) = self.known().iter().find(same) {
            return asked.prediction.clone();
        }
        let changed = Question {
            workload,
            effort,
            ..*self.question
        };
        let prediction = predict(&changed).ok();
        let mut known = self.known();
        if !known.iter().any(|asked| same(&asked)) {
            known.push(Asked {
                workload: workload.clone(),
                effort,
                prediction: prediction.clone(),
            });
        }
        prediction
    }
}

/// The combinations that fit whatever is not known and would not with a lever or a pass less.
/// Combinations of fewer levers come first: what contains one that fits is not predicted, nor in as
/// many passes as it has.
fn least(jobs: &Jobs<'_>, mut combined: Vec<Vec<Lever>>) -> Vec<Suggestion> {
    combined.sort_by_key(Vec::len);
    let mut kept: Vec<Tried> = vec![];
    for alike in combined.chunk_by(|a, b| a.len() == b.len()) {
        let found = alike.par_iter().map(|levers| {
            let within = |cheaper: &&Tried| cheaper.levers.iter().all(|l| levers.contains(l));
            let cheaper = kept.iter().filter(within).map(|tried| tried.passes);
            fewest(jobs, levers, cheaper.min().unwrap_or(u32::MAX))
        });
        let found: Vec<Tried> = found.flatten().collect();
        kept.extend(found);
    }
    suggestions(jobs, kept)
}

/// A combination in the fewest passes, less than `below`, in which it fits for certain, if there
/// are any. What PyTorch or the shadow refuses does not fit.
fn fewest(jobs: &Jobs<'_>, levers: &[Lever], below: u32) -> Option<Tried> {
    let job = |passes| pull(&with(levers, passes), jobs.question.workload);
    // A step of more passes takes no less than its first two, which are soon predicted.
    let runs = |passes| {
        let mut workload = job(passes);
        workload.accumulation = workload.accumulation.min(2);
        jobs.ask(&workload, Effort::Expected)
            .is_some_and(|p| p.runs())
    };
    let mut passes: Vec<u32> = [1]
        .into_iter()
        .chain(parts(jobs.question.workload))
        .collect();
    passes.retain(|&passes| passes < below);
    // In one pass gradients need not outlive it, so more passes can take more than one; of these,
    // more take less.
    let low = if passes.first().is_some_and(|&one| runs(one)) {
        0
    } else {
        let (mut low, mut high) = (1, passes.len().checked_sub(1)?);
        if !runs(passes[high]) {
            return None;
        }
        while low < high {
            let middle = low.midpoint(high);
            if runs(passes[middle]) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    };
    passes[low..].iter().find_map(|&passes| {
        let prediction = jobs.ask(&job(passes), Effort::Verdict)?;
        (prediction.verdict == Verdict::Fits).then(|| Tried {
            levers: levers.to_vec(),
            passes,
            prediction,
        })
    })
}

/// What a combination saves over everything cheaper must be worth it: a hundredth of the peak where
/// it costs nothing, a twentieth where it costs anything.
const WORTH: [u64; 2] = [100, 20];

/// The combinations, in one pass and in single sequences, with a lower peak than everything
/// cheaper.
fn frontier(jobs: &Jobs<'_>, combined: &[Vec<Lever>], now: Bytes) -> Vec<Suggestion> {
    let workload = jobs.question.workload;
    let mut ends = vec![1];
    ends.extend(parts(workload).last());
    let ways = combined
        .par_iter()
        .flat_map_iter(|levers| ends.iter().map(move |&passes| (levers, passes)));
    let found = ways.filter_map(|(levers, passes)| {
        let workload = pull(&with(levers, passes), workload);
        Some(Tried {
            levers: levers.clone(),
            passes,
            prediction: jobs.ask(&workload, Effort::Expected)?,
        })
    });
    let mut found: Vec<Tried> = found.collect();
    let mode = workload.mode;
    found.sort_by_cached_key(|tried| tried.price(mode));
    let mut lowest = now;
    found.retain(|tried| {
        let peak = tried.prediction.peak_nvml;
        let costs = tried.all().iter().any(|l| l.cost(mode) > Cost::Nothing);
        let lower = peak.0 + now.0 / WORTH[usize::from(costs)] <= lowest.0;
        if lower {
            lowest = peak;
        }
        lower
    });
    suggestions(jobs, found)
}

/// The cheapest first.
fn suggestions(jobs: &Jobs<'_>, mut found: Vec<Tried>) -> Vec<Suggestion> {
    let mode = jobs.question.workload.mode;
    found.sort_by_cached_key(|tried| tried.price(mode));
    let all = found.par_iter().map(|tried| suggest(jobs, &tried.all()));
    all.flatten().collect()
}

/// A combination with its whole prediction, and the peak after each of its levers.
fn suggest(jobs: &Jobs<'_>, levers: &[Lever]) -> Option<Suggestion> {
    let mode = jobs.question.workload.mode;
    let mut ordered = levers.to_vec();
    ordered.sort_by_key(|lever| lever.cost(mode));
    let workload = pull(&ordered, jobs.question.workload);
    let prediction = jobs.ask(&workload, Effort::Verdict)?;
    let step = |i: usize| {
        let lever = ordered[i];
        let so_far = pull(&ordered[..=i], jobs.question.workload);
        let peak_nvml = if i + 1 == ordered.len() {
            prediction.peak_nvml
        } else {
            jobs.ask(&so_far, Effort::Expected)?.peak_nvml
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
