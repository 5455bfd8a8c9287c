//! Figures of one job, and what becomes of those of several.

use crate::audit::evidence::Evidence;
use crate::audit::job::{self, Job};
use crate::audit::quantity::Quantity;
use crate::audit::value::{Answer, Value};
use crate::audit::verdict::Traits;
use vramcast::record::{Record, RunOutcome};
use vramcast::workload::Runtime;

/// A value of the figures of several jobs.
pub(crate) fn figures<const N: usize>(
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

pub(crate) fn nothing_predicted() -> String {
    "the prediction has no such figure".to_owned()
}

/// One figure of several jobs.
pub(crate) struct OfJobs {
    pub(crate) predicted: Result<Vec<u64>, String>,
    pub(crate) measured: Option<Vec<u64>>,
    pub(crate) records: Vec<String>,
}

pub(crate) fn of_jobs(evidence: &Evidence, quantity: Quantity, jobs: &[&Job]) -> OfJobs {
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

pub(crate) fn ids(records: &[Option<&Record>]) -> Vec<String> {
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

pub(crate) fn bent(evidence: &Evidence, quantity: Quantity, jobs: &[Job]) -> Answer {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
