//! Figures that other programs measured: our records, and what `torch.cuda.memory_stats()` returned,
//! dumped as JSON.

use super::problem::Problem;
use serde_json::Value;
use std::path::Path;
use vramcast::bytes::Bytes;
use vramcast::config::quoted;
use vramcast::figures::{Figure, Figures};
use vramcast::gate::{Finding, Level, What};
use vramcast::record::{Record, RunOutcome};
use vramcast::workload::Runtime;

/// Figures of a run, and where it ran.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The card, or `cpu`; absent where nobody says.
    pub(crate) on: Option<String>,
    pub(crate) figures: Figures,
    /// The peaks that repeat, and so can be held against a baseline.
    pub(crate) judged: &'static [Figure],
    /// That it ran out of memory, if it did.
    pub(crate) findings: Vec<Finding>,
}

/// PyTorch's allocator counts all of these; NVML's figure has a tolerance of its own.
const OF_PYTORCH: [Figure; 4] = [
    Figure::Requested,
    Figure::Allocated,
    Figure::Reserved,
    Figure::Nvml,
];

/// What candle's pool reserves depends on the speed of the host: the same run, repeated, reserves up
/// to a seventh more (`reports/candle/accuracy.md`).
const OF_CANDLE: [Figure; 1] = [Figure::Requested];

/// What a record says, if its run did not fail in another way than running out of memory.
///
/// # Errors
/// What the run said.
pub(crate) fn of_record(record: &Record) -> Result<Seen, String> {
    let said = record.error.as_deref().unwrap_or("it did not say why");
    let findings = match record.outcome {
        RunOutcome::Ok => Vec::new(),
        RunOutcome::Oom => vec![Finding {
            level: Level::Fail,
            what: What::OutOfMemory {
                text: format!("ran out of memory: {}", quoted(said)),
            },
        }],
        RunOutcome::Failed => return Err(format!("the run failed: {}", quoted(said))),
    };
    let on = match record.device.as_str() {
        "cpu" => Some("cpu".to_owned()),
        _ => record.gpu.clone(),
    };
    Ok(Seen {
        on,
        figures: match record.outcome {
            RunOutcome::Ok => Figures::from(&record.measured),
            RunOutcome::Oom | RunOutcome::Failed => Figures::default(),
        },
        judged: match record.workload.runtime {
            Runtime::Candle => &OF_CANDLE,
            Runtime::Torch => &OF_PYTORCH,
        },
        findings,
    })
}

/// What `torch.cuda.memory_stats()` returned, if the file `path` holds that as `text`.
///
/// # Errors
/// A JSON object that is neither that nor one of ours.
pub(crate) fn stats(path: &Path, text: &str) -> Result<Option<Seen>, Problem> {
    let Ok(Value::Object(object)) = serde_json::from_str(text) else {
        return Ok(None);
    };
    if object.contains_key("schema") {
        return Ok(None);
    }
    let get = |key: &str| object.get(key).and_then(Value::as_u64);
    let needed = |key: &str| {
        get(key).map(Bytes).ok_or_else(|| {
            let text = format!(
                "neither a record nor what torch.cuda.memory_stats() returns: no number `{key}`"
            );
            Problem::new(path, 1, text)
        })
    };
    let figures = Figures {
        requested: get("requested_bytes.all.peak").map(Bytes),
        allocated: Some(needed("allocated_bytes.all.peak")?),
        reserved: Some(needed("reserved_bytes.all.peak")?),
        ..Figures::default()
    };
    let ooms = get("num_ooms").filter(|ooms| *ooms > 0);
    let findings = ooms.map(|ooms| Finding {
        level: Level::Warn,
        what: What::OutOfMemory {
            text: format!(
                "PyTorch's allocator ran out of memory {ooms} times and went on (num_ooms)"
            ),
        },
    });
    Ok(Some(Seen {
        on: None,
        figures,
        judged: &OF_PYTORCH,
        findings: findings.into_iter().collect(),
    }))
}
