//! Whether jobs run on a T4.

use crate::audit::evidence::Evidence;
use crate::audit::figures::{ids, nothing_predicted, of_jobs};
use crate::audit::job::Job;
use crate::audit::quantity::Quantity;
use crate::audit::t4::{fits_t4, share_of_t4};
use crate::audit::value::{Answer, Taken, Value, Wanted};
use crate::audit::verdict::Traits;
use vramcast::bytes::Bytes;
use vramcast::record::RunOutcome;
use vramcast::workload::Runtime;

/// Whether a job runs on a T4: with the allocator limited as it is there, or by what it reserves
/// without a limit. Of PyTorch that shows only that it does, since it gives cache back where there is
/// less.
pub(crate) fn runs(evidence: &Evidence, job: &Job, wanted: Wanted) -> Answer {
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
pub(crate) fn shared(evidence: &Evidence, processes: u64, job: &Job) -> Answer {
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
