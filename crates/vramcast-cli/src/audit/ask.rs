//! What a claim asks of the records, and the answer.

use crate::audit::evidence::{Evidence, context_on_t4, share_of_t4, t4};
use crate::audit::job::{self, Job};
use crate::audit::quantity::Quantity;
use crate::audit::verdict::Traits;
use crate::output;
use std::fmt;
use vramcast::bytes::Bytes;
use vramcast::record::{Emptied, Epochs, Record, RunOutcome};
use vramcast::workload::Runtime;

/// A question about one run, or about several.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    /// A figure.
    Of(Quantity, Job),
    /// The share of a figure that goes from the first to the second.
    Saved(Quantity, [Job; 2]),
    /// The bytes of it that go.
    SavedBytes(Quantity, [Job; 2]),
    /// How many times the first the second is.
    Times(Quantity, [Job; 2]),
    /// How far a figure is at most from the straight line over the batch through the first job and
    /// the last, as a share of it.
    Bent(Quantity, Vec<Job>),
    /// Whether so many at once run on a T4.
    Runs(u64, Job),
    /// Whether it does not.
    Fails(Job),
    /// The share of reserved bytes that goes where the cache is emptied: of the highest, or of what
    /// is left after the epochs.
    Emptied(Emptied, Reserved),
    /// Whether the epochs run with the cache emptied where they do not without, by the allocator's
    /// limit.
    Rescued(Emptied),
}

/// Which reserved bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reserved {
    Highest,
    After,
}

/// What an answer is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Elements(u64),
    /// May be negative, as a difference.
    Bytes(i128),
    Share(f64),
    Times(f64),
    /// Whether that happens, which nobody knows at the edge of a card, and what is taken.
    OnCard(Wanted, Option<bool>, Option<Taken>),
    /// Whether it runs with a change alone.
    Rescued(bool),
}

/// Which end of a run a claim says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Runs,
    Fails,
}

/// What a run takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Reserved(Bytes),
    Nvml(Bytes),
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserved(bytes) => write!(f, "{bytes} reserved"),
            Self::Nvml(bytes) => write!(f, "{bytes} by NVML"),
        }
    }
}

/// What is known of a question.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) traits: Traits,
    /// What the value is of.
    pub(crate) figure: String,
    /// Or why there is none.
    pub(crate) predicted: Result<Value, String>,
    pub(crate) measured: Option<Value>,
    /// The ids of the records.
    pub(crate) records: Vec<String>,
}

impl Value {
    /// In the unit of claims: elements, bytes, shares, times, 1 for what happens. `None` where
    /// nobody knows.
    pub(crate) fn number(self) -> Option<f64> {
        let happens = |so: bool| f64::from(u8::from(so));
        match self {
            Self::Elements(n) => Some(n as f64),
            Self::Bytes(bytes) => Some(bytes as f64),
            Self::Share(x) | Self::Times(x) => Some(x),
            Self::OnCard(wanted, runs, _) => {
                runs.map(|runs| happens(runs == (wanted == Wanted::Runs)))
            }
            Self::Rescued(so) => Some(happens(so)),
        }
    }

    /// How far a prediction is from this measured value.
    pub(crate) fn error(self, predicted: Self) -> String {
        let (Some(measured), Some(foreseen)) = (self.number(), predicted.number()) else {
            return String::new();
        };
        match self {
            _ if foreseen == measured => "0".to_owned(),
            Self::Share(_) => format!("{:.2} points", 100.0 * (foreseen - measured)),
            Self::OnCard(..) | Self::Rescued(_) => "otherwise".to_owned(),
            Self::Elements(_) | Self::Bytes(_) | Self::Times(_) => {
                output::percent((foreseen - measured) / measured)
            }
        }
    }
}

/// Bytes as people read them, and in the billions that a claim counts in.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Elements(n) => write!(f, "{:.1} M", n as f64 / 1e6),
            Self::Bytes(bytes) => {
                let sign = if bytes < 0 { "-" } else { "" };
                let size = bytes.unsigned_abs();
                let short = Bytes(u64::try_from(size).unwrap_or(u64::MAX));
                write!(f, "{sign}{short} ({sign}{:.3} × 10⁹)", size as f64 / 1e9)
            }
            Self::Share(share) => write!(f, "{:.1} %", 100.0 * share),
            Self::Times(times) => write!(f, "{times:.2} times"),
            Self::OnCard(_, runs, taken) => {
                f.write_str(match runs {
                    Some(true) => "runs",
                    Some(false) => "out of memory",
                    None => "on the edge",
                })?;
                match taken {
                    Some(taken) => write!(f, ", {taken}"),
                    None => Ok(()),
                }
            }
            Self::Rescued(true) => f.write_str("runs with it alone"),
            Self::Rescued(false) => f.write_str("ends as without"),
        }
    }
}

/// Nothing predicts what an emptied cache does.
const NOT_PREDICTED: &str = "an emptied cache is not predicted";

impl Ask {
    /// What a claim's value would be if there were nothing in it: half the claim for sizes, which
    /// are never nothing.
    pub(crate) fn nothing(&self, claimed: f64) -> f64 {
        match self {
            Self::Of(..) => claimed / 2.0,
            Self::Times(..) => 1.0,
            _ => 0.0,
        }
    }

    /// What runs, where it is a job; scripts of their own run epochs.
    pub(crate) fn jobs(&self) -> &[Job] {
        match self {
            Self::Of(_, job) | Self::Runs(_, job) | Self::Fails(job) => std::slice::from_ref(job),
            Self::Saved(_, pair) | Self::SavedBytes(_, pair) | Self::Times(_, pair) => pair,
            Self::Bent(_, jobs) => jobs,
            Self::Emptied(..) | Self::Rescued(_) => &[],
        }
    }

    /// Where; PyTorch alone has a cache that a program can empty.
    pub(crate) fn runtime(&self) -> Runtime {
        let job = self.jobs().first();
        job.map_or(Runtime::Torch, |job| job.workload.runtime)
    }

    pub(crate) fn answer(&self, evidence: &Evidence) -> Answer {
        match self {
            Self::Of(quantity, job) => {
                let value = |[n]: [u64; 1]| match quantity {
                    Quantity::Parameters => Value::Elements(n),
                    _ => Value::Bytes(n.into()),
                };
                figures(evidence, *quantity, [job], value)
            }
            Self::Saved(quantity, [before, after]) => {
                let saved = |[b, a]: [u64; 2]| Value::Share(1.0 - a as f64 / b as f64);
                figures(evidence, *quantity, [before, after], saved)
            }
            Self::SavedBytes(quantity, [before, after]) => {
                let saved = |[b, a]: [u64; 2]| Value::Bytes(i128::from(b) - i128::from(a));
                figures(evidence, *quantity, [before, after], saved)
            }
            Self::Times(quantity, [before, after]) => {
                let times = |[b, a]: [u64; 2]| Value::Times(a as f64 / b as f64);
                figures(evidence, *quantity, [before, after], times)
            }
            Self::Bent(quantity, jobs) => bent(evidence, *quantity, jobs),
            Self::Runs(1, job) => runs(evidence, job, Wanted::Runs),
            Self::Fails(job) => runs(evidence, job, Wanted::Fails),
            Self::Runs(processes, job) => shared(evidence, *processes, job),
            Self::Emptied(when, which) => emptied(evidence, *when, *which),
            Self::Rescued(when) => rescued(evidence, *when),
        }
    }
}

/// A value of the figures of several jobs.
fn figures<const N: usize>(
    evidence: &Evidence,
    quantity: Quantity,
    jobs: [&Job; N],
    value: impl Fn([u64; N]) -> Value,
) -> Answer {
    let all = of_jobs(evidence, quantity, &jobs);
    let whole = |figures: Vec<u64>| <[u64; N]>::try_from(figures).ok();
    Answer {
        predicted: all
            .predicted
            .and_then(|figures| whole(figures).map(&value).ok_or_else(nothing_predicted)),
        measured: all.measured.and_then(whole).map(&value),
        records: all.records,
        traits: named(&jobs, quantity),
        figure: name(quantity, jobs[0]),
    }
}

fn nothing_predicted() -> String {
    "the prediction has no such figure".to_owned()
}

/// One figure of several jobs.
struct OfJobs {
    predicted: Result<Vec<u64>, String>,
    measured: Option<Vec<u64>>,
    records: Vec<String>,
}

fn of_jobs(evidence: &Evidence, quantity: Quantity, jobs: &[&Job]) -> OfJobs {
    let records: Vec<Option<&Record>> = jobs.iter().map(|job| evidence.run(job)).collect();
    let predicted = |job: &&Job| {
        let (prediction, timeline) = evidence.predict(job)?;
        quantity
            .predicted(&prediction, &timeline)
            .ok_or_else(nothing_predicted)
    };
    let measured = |record: &Option<&Record>| {
        let ran = record.filter(|record| record.outcome == RunOutcome::Ok);
        quantity.measured(ran?)
    };
    OfJobs {
        predicted: jobs.iter().map(predicted).collect(),
        measured: records.iter().map(measured).collect(),
        records: ids(&records),
    }
}

fn ids(records: &[Option<&Record>]) -> Vec<String> {
    let ids = records.iter().flatten().map(|record| record.id.clone());
    ids.collect()
}

/// candle's pool counts what was requested.
fn name(quantity: Quantity, job: &Job) -> String {
    match (quantity, job.workload.runtime) {
        (Quantity::Allocated, Runtime::Candle) => "requested".to_owned(),
        _ => quantity.to_string(),
    }
}

fn named(jobs: &[&Job], quantity: Quantity) -> Traits {
    let mut traits = job::traits(jobs);
    traits.insert(0, ("figure", name(quantity, jobs[0])));
    traits
}

fn bent(evidence: &Evidence, quantity: Quantity, jobs: &[Job]) -> Answer {
    let jobs: Vec<&Job> = jobs.iter().collect();
    let all = of_jobs(evidence, quantity, &jobs);
    let batches: Vec<u64> = jobs.iter().map(|job| job.workload.batch).collect();
    let bend = |figures: Vec<u64>| Value::Share(off_the_line(&batches, &figures));
    Answer {
        predicted: all.predicted.map(bend),
        measured: all.measured.map(bend),
        records: all.records,
        traits: named(&jobs, quantity),
        figure: name(quantity, jobs[0]),
    }
}

/// The largest distance of a figure from the line through the first and the last, as a share of it.
fn off_the_line(at: &[u64], figures: &[u64]) -> f64 {
    let points: Vec<(f64, f64)> = at
        .iter()
        .zip(figures)
        .map(|(&x, &y)| (x as f64, y as f64))
        .collect();
    let (Some(&(x0, y0)), Some(&(x1, y1))) = (points.first(), points.last()) else {
        return 0.0;
    };
    let line = |x: f64| y0 + (y1 - y0) * (x - x0) / (x1 - x0);
    let off = points.iter().map(|&(x, y)| (line(x) - y).abs() / y);
    off.fold(0.0, f64::max)
}

/// Whether so many processes that reserve so much each run on a T4; `None` where it depends on its
/// context, which nobody measured.
fn fits_t4(reserved: u64, processes: u64) -> Option<bool> {
    let with = |context: Bytes| u128::from(processes) * u128::from(reserved + context.0);
    let (context, capacity) = (context_on_t4(), u128::from(t4().capacity().0));
    if with(context.high) <= capacity {
        Some(true)
    } else if with(context.low) > capacity {
        Some(false)
    } else {
        None
    }
}

/// Whether a job runs on a T4: with the allocator limited as it is there, or by what it reserves
/// without a limit. Of PyTorch that shows only that it does, since it gives cache back where there is
/// less.
fn runs(evidence: &Evidence, job: &Job, wanted: Wanted) -> Answer {
    let judge = |ran: bool, reserved: Option<u64>| {
        let taken = reserved.map(|bytes| Taken::Reserved(Bytes(bytes)));
        let value = |runs| Value::OnCard(wanted, runs, taken);
        if job.limited || !ran {
            return Some(value(Some(ran)));
        }
        match (fits_t4(reserved?, 1), job.workload.runtime) {
            (Some(true), _) | (_, Runtime::Candle) => Some(value(fits_t4(reserved?, 1))),
            (_, Runtime::Torch) => None,
        }
    };
    let record = evidence.run(job);
    let predicted = evidence.predict(job).and_then(|(prediction, _)| {
        let reserved = Some(prediction.peak_reserved.0);
        judge(prediction.runs(), reserved).ok_or_else(nothing_predicted)
    });
    Answer {
        predicted,
        measured: record.and_then(|record| {
            let reserved = Quantity::Reserved.measured(record);
            judge(record.outcome == RunOutcome::Ok, reserved)
        }),
        records: ids(&[record]),
        traits: with_processes(job, 1),
        figure: ON_T4.to_owned(),
    }
}

const ON_T4: &str = "on a T4";

fn with_processes(job: &Job, processes: u64) -> Traits {
    let mut traits = job.traits();
    traits.push(("processes", processes.to_string()));
    traits
}

/// Whether several processes run on a T4. candle's are not run together: what they take adds up.
fn shared(evidence: &Evidence, processes: u64, job: &Job) -> Answer {
    let (predicted, measured, records) = match job.workload.runtime {
        Runtime::Candle => {
            let all = of_jobs(evidence, Quantity::Reserved, &[job]);
            let sum = |figures: Vec<u64>| {
                let each = figures[0];
                let taken = Taken::Reserved(Bytes(each.saturating_mul(processes)));
                Value::OnCard(Wanted::Runs, fits_t4(each, processes), Some(taken))
            };
            (all.predicted.map(sum), all.measured.map(sum), all.records)
        }
        Runtime::Torch => {
            let group = evidence.sharing(job, processes);
            let value = |runs, nvml: Option<u64>| {
                let taken = nvml.map(|bytes| Taken::Nvml(Bytes(bytes)));
                Value::OnCard(Wanted::Runs, Some(runs), taken)
            };
            // Not the process of a record of the same job without a limit.
            let fresh = job.clone().limited();
            let limit = group.map_or(share_of_t4(processes), |group| group.cap_bytes);
            let predicted = evidence.predict_within(&fresh, Some(limit));
            let predicted = predicted.map(|(prediction, _)| {
                let all = prediction.peak_nvml.0.saturating_mul(processes);
                value(prediction.runs(), Some(all))
            });
            let measured = group.map(|group| {
                let before = group.nvml_before.map_or(0, |before| before.0);
                let used = group.nvml_used.and_then(|used| used.0.checked_sub(before));
                value(group.outcome == RunOutcome::Ok, used)
            });
            let records = group.map(|group| group.id.clone());
            (predicted, measured, records.into_iter().collect())
        }
    };
    Answer {
        predicted,
        measured,
        records,
        traits: with_processes(job, processes),
        figure: ON_T4.to_owned(),
    }
}

/// The epochs of a loop that never empties its cache, and of one that does.
fn pair(evidence: &Evidence, when: Emptied, limited: bool) -> Option<[&Epochs; 2]> {
    let with = evidence.epochs(when, limited)?;
    Some([evidence.epochs(Emptied::Never, limited)?, with])
}

fn of_epochs(evidence: &Evidence, when: Emptied, limited: bool, figure: &str) -> Answer {
    let pair = pair(evidence, when, limited);
    let limit = if limited { "allocator limited" } else { "" };
    let what = pair.map_or(String::new(), |[_, with]| {
        format!(
            "{}, {}, sequences of {} to {}",
            with.model,
            with.workload.describe(),
            with.lengths.iter().min().copied().unwrap_or_default(),
            with.workload.seq
        )
    });
    Answer {
        predicted: Err(NOT_PREDICTED.to_owned()),
        measured: None,
        records: pair
            .map(|pair| pair.map(|epochs| epochs.id.clone()).to_vec())
            .unwrap_or_default(),
        traits: vec![
            ("figure", figure.to_owned()),
            ("model", what),
            ("when", format!("emptied after each {when}")),
            ("limit", limit.to_owned()),
        ],
        figure: figure.to_owned(),
    }
}

fn emptied(evidence: &Evidence, when: Emptied, which: Reserved) -> Answer {
    let figure = match which {
        Reserved::Highest => "highest reserved",
        Reserved::After => "reserved between epochs",
    };
    let of = |epochs: &Epochs| {
        let all = epochs.epochs.iter().map(|epoch| match which {
            Reserved::Highest => epoch.peak_reserved.0,
            Reserved::After => epoch.reserved_after.0,
        });
        all.max()
    };
    let saved = pair(evidence, when, false)
        .and_then(|[never, with]| Some(Value::Share(1.0 - of(with)? as f64 / of(never)? as f64)));
    Answer {
        measured: saved,
        ..of_epochs(evidence, when, false, figure)
    }
}

fn rescued(evidence: &Evidence, when: Emptied) -> Answer {
    let rescued = pair(evidence, when, true).map(|[never, with]| {
        let rescued = never.outcome == RunOutcome::Oom && with.outcome == RunOutcome::Ok;
        Value::Rescued(rescued)
    });
    Answer {
        measured: rescued,
        ..of_epochs(evidence, when, true, "what runs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_a_smaller_context_admits_is_on_the_edge() {
        let capacity = t4().capacity().0;
        let context = context_on_t4();
        assert_eq!(fits_t4(capacity - context.high.0, 1), Some(true));
        assert_eq!(fits_t4(capacity - context.bytes.0, 1), None);
        assert_eq!(fits_t4(capacity - context.low.0 + 1, 1), Some(false));
        assert_eq!(fits_t4(capacity / 2 - context.high.0, 2), Some(true));
        assert_eq!(fits_t4(capacity / 2, 2), Some(false));
    }

    fn check_line(figures: &[u64], expected: f64) {
        let off = off_the_line(&[1, 2, 4], figures);
        assert!((off - expected).abs() < 1e-12, "{figures:?}: {off}");
    }

    #[test]
    fn what_lies_on_a_line_is_not_bent_wherever_the_line_begins() {
        check_line(&[10, 20, 40], 0.0);
        check_line(&[110, 120, 140], 0.0);
        check_line(&[100, 100, 130], 0.1);
    }

    #[test]
    fn a_value_is_told_in_the_units_of_people_and_of_claims() {
        let print = |value: Value| value.to_string();
        assert_eq!(print(Value::Bytes(1_340_575_752)), "1.25 GiB (1.341 × 10⁹)");
        assert_eq!(print(Value::Elements(109_483_778)), "109.5 M");
        assert_eq!(print(Value::Share(0.357)), "35.7 %");
        let taken = Some(Taken::Reserved(Bytes(3 << 30)));
        let runs = Value::OnCard(Wanted::Fails, Some(true), taken);
        assert_eq!(print(runs), "runs, 3.00 GiB reserved");
        assert_eq!(runs.number(), Some(0.0));
    }
}
