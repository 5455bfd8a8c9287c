//! How far predictions are from measured records: every row, and the figures that sum them up.

use crate::bytes::{Bytes, MIB};
use crate::fit::Fit;
use crate::predict::{Prediction, Verdict};
use crate::record::{BatchSearch, NeedSearch, Record, RunOutcome};
use crate::workload::{Mode, Precision, Runtime, Workload};
use serde::Serialize;

/// One figure of one record. Sizes in bytes; the error is (predicted - measured) / measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// As measured.
    pub measured: Bytes,
    /// As predicted.
    pub predicted: Bytes,
    /// Relative error, positive where the prediction is too high.
    pub error: f64,
}

/// The steps in which CUDA's pool grows (`alloc::CudaPool`).
const POOL_STEP: u64 = 32 * MIB;

impl Figure {
    /// Whether it is within 1 %, or within one step of the pool.
    fn is_near(&self) -> bool {
        let off = self.predicted.minus(self.measured).unsigned_abs();
        off * 100 <= u128::from(self.measured.0) || off <= u128::from(POOL_STEP)
    }

    fn new(measured: Bytes, predicted: Bytes) -> Self {
        let difference = predicted.minus(measured) as f64;
        let error = if measured.0 == 0 {
            f64::from(u8::from(predicted.0 > 0))
        } else {
            difference / measured.0 as f64
        };
        Self {
            measured,
            predicted,
            error,
        }
    }
}

/// One record beside its prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The record's id.
    pub id: String,
    /// The model.
    pub model: String,
    /// What ran.
    #[serde(flatten)]
    pub workload: Workload,
    /// The card, or the device where there is none.
    pub place: String,
    /// How the run ended.
    pub outcome: RunOutcome,
    /// What was predicted for the record's card.
    pub verdict: Verdict,
    /// Requested bytes.
    pub requested: Option<Figure>,
    /// Allocated bytes; candle's pool counts what was requested.
    pub allocated: Option<Figure>,
    /// Reserved bytes.
    pub reserved: Option<Figure>,
    /// What NVML showed beyond its baseline.
    pub nvml: Option<Figure>,
    /// Whether that lies in the range that was predicted.
    pub nvml_in_range: Option<bool>,
}

/// A measured search for the largest batch beside the predicted one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SearchedBatch {
    /// The record's id.
    pub id: String,
    /// The model.
    pub model: String,
    /// What ran; its batch is the measured one.
    #[serde(flatten)]
    pub workload: Workload,
    /// What the allocator was allowed to reserve.
    pub cap: Bytes,
    /// The largest batch that ran.
    pub measured: u64,
    /// The largest that was expected to run.
    pub predicted: u64,
    /// The largest that was said to fit.
    pub certain: u64,
    /// The largest that was not said to run out of memory.
    pub possible: u64,
    /// Batches that were tried and ended otherwise than expected.
    pub otherwise: Vec<u64>,
}

impl SearchedBatch {
    /// Whether the measured batch is in the band that was declared.
    pub fn in_band(&self) -> bool {
        (self.certain..=self.possible).contains(&self.measured)
    }
}

/// A measured search for the need beside the predicted one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SearchedNeed {
    /// The record's id.
    pub id: String,
    /// The model.
    pub model: String,
    /// What ran.
    #[serde(flatten)]
    pub workload: Workload,
    /// The smallest cap with which it ran, against the predicted need.
    pub need: Figure,
    /// The largest cap with which it did not run.
    pub fails_at: Bytes,
}

/// A record without a prediction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unpredicted {
    /// The record's id.
    pub id: String,
    /// Why.
    pub reason: String,
}

/// The distribution of one figure's relative errors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Rows that have the figure.
    pub count: usize,
    /// Rows predicted to the byte.
    pub exact: usize,
    /// Rows within 1 %, or within one step of the pool, 32 MiB.
    pub near: usize,
    /// Median of the absolute errors.
    pub median: f64,
    /// 95th percentile of the absolute errors.
    pub p95: f64,
    /// The largest absolute error.
    pub worst: f64,
    /// Median of the signed errors.
    pub signed_median: f64,
    /// Share of rows predicted too low.
    pub under: f64,
}

/// The figures of all rows of one runtime, mode and precision.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// What ran.
    pub runtime: Runtime,
    /// Training or inference.
    pub mode: Mode,
    /// Types.
    pub precision: Precision,
    /// Rows.
    pub count: usize,
    /// Requested bytes.
    pub requested: Option<Spread>,
    /// Allocated bytes.
    pub allocated: Option<Spread>,
    /// Reserved bytes.
    pub reserved: Option<Spread>,
    /// NVML.
    pub nvml: Option<Spread>,
    /// Rows whose NVML figure lies in the range that was predicted.
    pub nvml_in_range: usize,
}

/// A figure of a row, and of a group of rows.
#[derive(Clone, Copy)]
pub struct Measure {
    /// Which of the peaks.
    pub name: &'static str,
    /// Of one row.
    pub of: fn(&Compared) -> Option<Figure>,
    /// Over a group.
    pub over: fn(&Group) -> Option<Spread>,
}

/// What a runtime is judged by, in the order of tables and charts. candle's pool counts what was
/// requested, PyTorch's allocator its blocks.
pub fn measures(runtime: Runtime) -> [Measure; 3] {
    let counted = match runtime {
        Runtime::Candle => Measure {
            name: "requested",
            of: |row| row.requested,
            over: |group| group.requested,
        },
        Runtime::Torch => Measure {
            name: "allocated",
            of: |row| row.allocated,
            over: |group| group.allocated,
        },
    };
    let reserved = Measure {
        name: "reserved",
        of: |row| row.reserved,
        over: |group| group.reserved,
    };
    let nvml = Measure {
        name: "nvml",
        of: |row| row.nvml,
        over: |group| group.nvml,
    };
    [counted, reserved, nvml]
}

/// How verdicts fared against what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Confusion {
    /// Said to fit, and ran.
    pub fits_ran: usize,
    /// Said to fit, and ran out of memory: the error that must not happen.
    pub fits_oom: usize,
    /// Said to be tight.
    pub tight: usize,
    /// Said not to fit, and did not.
    pub oom_oom: usize,
    /// Said not to fit, and ran.
    pub oom_ran: usize,
}

/// Rows and summary of a set of records.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Accuracy {
    /// Every record with a prediction.
    pub rows: Vec<Compared>,
    /// Searches for the largest batch.
    pub batches: Vec<SearchedBatch>,
    /// Searches for the need.
    pub needs: Vec<SearchedNeed>,
    /// What they come to.
    pub summary: Summary,
}

impl Accuracy {
    /// Whether there was nothing to compare, not even what is not predicted.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
            && self.batches.is_empty()
            && self.needs.is_empty()
            && self.summary.unpredicted.is_empty()
    }
}

/// What a set of records comes to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Figures by runtime, mode and precision.
    pub groups: Vec<Group>,
    /// Verdicts.
    pub verdicts: Confusion,
    /// Records without a prediction.
    pub unpredicted: Vec<Unpredicted>,
}

/// What groups rows.
fn key(row: &Compared) -> (Runtime, Mode, Precision) {
    (
        row.workload.runtime,
        row.workload.mode,
        row.workload.precision,
    )
}

/// Puts a record beside its prediction.
pub fn compare(record: &Record, prediction: &Prediction) -> Compared {
    let ran = record.outcome == RunOutcome::Ok;
    let figure = |measured: Option<Bytes>, predicted| {
        measured
            .filter(|_| ran)
            .map(|measured| Figure::new(measured, predicted))
    };
    let m = &record.measured;
    // Records of an idle card do not say what it used before: nothing.
    let before = m.nvml_before.unwrap_or(Bytes(0));
    let nvml = m.nvml_used.and_then(|used| used.0.checked_sub(before.0));
    let nvml = nvml.map(Bytes);
    // candle's pool counts what was requested.
    let allocated = match record.workload.runtime {
        Runtime::Candle => m.peak_requested,
        Runtime::Torch => m.peak_allocated,
    };
    Compared {
        id: record.id.clone(),
        model: record.model.clone(),
        workload: record.workload.clone(),
        place: record.gpu.clone().unwrap_or_else(|| record.device.clone()),
        outcome: record.outcome,
        verdict: prediction.verdict,
        requested: figure(m.peak_requested, prediction.peak_requested),
        allocated: figure(allocated, prediction.peak_allocated),
        reserved: figure(m.highest_reserved(), prediction.peak_reserved),
        nvml: figure(nvml, prediction.peak_nvml),
        nvml_in_range: nvml.filter(|_| ran).map(|measured| {
            (prediction.peak_nvml_low..=prediction.peak_nvml_high).contains(&measured)
        }),
    }
}

/// Puts a search for the largest batch beside the predicted one.
pub fn compare_batch(record: &BatchSearch, fit: &Fit) -> SearchedBatch {
    let otherwise = fit.tried.iter().filter(|ours| {
        let theirs = record.tried.get(&ours.value);
        theirs.is_some_and(|theirs| theirs.fits != ours.runs)
    });
    SearchedBatch {
        id: record.id.clone(),
        model: record.model.clone(),
        workload: record.workload.clone(),
        cap: record.cap_bytes,
        measured: record.max_batch,
        predicted: fit.largest,
        certain: fit.certain,
        possible: fit.possible,
        otherwise: otherwise.map(|ours| ours.value).collect(),
    }
}

/// Puts a search for the need beside the predicted one; `None` without a predicted need.
pub fn compare_need(record: &NeedSearch, prediction: &Prediction) -> Option<SearchedNeed> {
    Some(SearchedNeed {
        id: record.id.clone(),
        model: record.model.clone(),
        workload: record.workload.clone(),
        need: Figure::new(record.runs_at_cap, prediction.need?),
        fails_at: record.fails_at_cap,
    })
}

/// Sums rows up.
pub fn summarize(
    rows: Vec<Compared>,
    batches: Vec<SearchedBatch>,
    needs: Vec<SearchedNeed>,
    unpredicted: Vec<Unpredicted>,
) -> Accuracy {
    let mut groups: Vec<Group> = Vec::new();
    for row in &rows {
        let key = key(row);
        if groups
            .iter()
            .any(|g| (g.runtime, g.mode, g.precision) == key)
        {
            continue;
        }
        let members: Vec<&Compared> = rows.iter().filter(|r| self::key(r) == key).collect();
        let spread = |figure: fn(&Compared) -> Option<Figure>| {
            spread(&members.iter().filter_map(|r| figure(r)).collect::<Vec<_>>())
        };
        groups.push(Group {
            runtime: key.0,
            mode: key.1,
            precision: key.2,
            count: members.len(),
            requested: spread(|r| r.requested),
            allocated: spread(|r| r.allocated),
            reserved: spread(|r| r.reserved),
            nvml: spread(|r| r.nvml),
            nvml_in_range: members
                .iter()
                .filter(|r| r.nvml_in_range == Some(true))
                .count(),
        });
    }
    let mut verdicts = Confusion::default();
    for row in &rows {
        let count = match (row.verdict, row.outcome) {
            (Verdict::Unknown, _) | (_, RunOutcome::Failed) => continue,
            (Verdict::Fits, RunOutcome::Ok) => &mut verdicts.fits_ran,
            (Verdict::Fits, RunOutcome::Oom) => &mut verdicts.fits_oom,
            (Verdict::Tight, _) => &mut verdicts.tight,
            (Verdict::Oom, RunOutcome::Oom) => &mut verdicts.oom_oom,
            (Verdict::Oom, RunOutcome::Ok) => &mut verdicts.oom_ran,
        };
        *count += 1;
    }
    Accuracy {
        rows,
        batches,
        needs,
        summary: Summary {
            groups,
            verdicts,
            unpredicted,
        },
    }
}

/// The distribution of some figures' errors; `None` if there are none.
pub fn spread(figures: &[Figure]) -> Option<Spread> {
    let sorted = |of: fn(&Figure) -> f64| {
        let mut errors: Vec<f64> = figures.iter().map(of).collect();
        errors.sort_by(f64::total_cmp);
        errors
    };
    let absolute = sorted(|f| f.error.abs());
    let signed = sorted(|f| f.error);
    // The smallest error that at least this share of the rows does not exceed.
    let rank = |share: f64| ((absolute.len() as f64 * share).ceil() as usize).max(1) - 1;
    Some(Spread {
        count: figures.len(),
        near: figures.iter().filter(|f| f.is_near()).count(),
        exact: figures.iter().filter(|f| f.measured == f.predicted).count(),
        median: *absolute.get(rank(0.5))?,
        p95: *absolute.get(rank(0.95))?,
        worst: *absolute.last()?,
        signed_median: *signed.get(rank(0.5))?,
        under: signed.iter().filter(|e| **e < 0.0).count() as f64 / figures.len() as f64,
    })
}
