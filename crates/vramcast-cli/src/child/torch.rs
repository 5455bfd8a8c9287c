//! The probe of PyTorch: a script in the user's own Python, with a job on its stdin.

use super::{Ended, first_line, run, silent};
use crate::nvml::Card;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use vramcast::bytes::Bytes;
use vramcast::record::{Measured, RunOutcome};
use vramcast::sequence::Seen;
use vramcast::workload::Workload;

/// The script; it needs nothing of this project.
const SCRIPT: &str = include_str!("../../../../probes/torch_probe.py");

/// What the script reads.
#[derive(Debug, Serialize)]
pub(crate) struct Job<'a> {
    /// A `config.json`.
    pub(crate) config: Value,
    #[serde(flatten)]
    pub(crate) workload: Workload,
    pub(crate) steps: u32,
    /// What the allocator may reserve.
    pub(crate) cap_bytes: Option<Bytes>,
    pub(crate) device: usize,
    pub(crate) trace: bool,
    #[serde(skip)]
    pub(crate) python: &'a Path,
}

/// What the script prints.
#[derive(Debug, Deserialize)]
struct Said {
    outcome: RunOutcome,
    error: Option<String>,
    runtime_version: Option<String>,
    transformers_version: Option<String>,
    #[serde(default)]
    cudnn_last: bool,
    events: Option<Vec<Event>>,
    #[serde(flatten)]
    measured: Measured,
}

/// `[action, address, bytes, stream]`, as PyTorch's memory history names them.
pub(crate) type Event = (String, u64, u64, u64);

/// What ran, and its trace if one was asked for.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) ended: Ended,
    pub(crate) runtime_version: Option<String>,
    pub(crate) transformers_version: Option<String>,
    pub(crate) cudnn_last: bool,
    pub(crate) events: Option<Vec<Event>>,
}

/// Runs a job.
///
/// # Errors
/// A Python that cannot be started. What goes wrong in it is an outcome.
pub(crate) fn measure(job: &Job<'_>, card: Option<&Card>) -> Result<Run> {
    // In a folder of its own: Python imports what lies beside a script first.
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("torch_probe.py");
    std::fs::write(&script, SCRIPT)?;
    let mut command = Command::new(job.python);
    command.arg(&script);
    let mut asked = serde_json::to_value(job)?;
    // The script has one runtime, and nothing of candle's; its config says what is dropped.
    for field in ["runtime", "code", "dropout", "drop_graph"] {
        asked.as_object_mut().and_then(|job| job.remove(field));
    }
    let exited = run(command, &serde_json::to_vec(&asked)?, card)
        .context("the probe of PyTorch needs --python PATH, a Python with torch")?;
    let said = said(&exited.stdout)
        .filter(|said| exited.status.success() || said.outcome == RunOutcome::Failed);
    let Some(said) = said else {
        // A killed Python says nothing of the card.
        let (_, text) = silent(exited.status, &exited.stderr);
        return Ok(Run {
            ended: Ended {
                outcome: RunOutcome::Failed,
                measured: Measured::default(),
                error: Some(format!("no record came: {text}")),
            },
            runtime_version: None,
            transformers_version: None,
            cudnn_last: false,
            events: None,
        });
    };
    let mut measured = said.measured;
    exited.note_nvml(&mut measured);
    Ok(Run {
        ended: Ended {
            outcome: said.outcome,
            measured,
            error: said.error.as_deref().map(first_line),
        },
        runtime_version: said.runtime_version,
        transformers_version: said.transformers_version,
        cudnn_last: said.cudnn_last,
        events: said.events,
    })
}

/// The record in what was printed: its last line. A wrapper or an import may have said more.
fn said(stdout: &[u8]) -> Option<Said> {
    let lines = stdout.split(|&byte| byte == b'\n');
    let last = lines.rev().find(|line| !line.trim_ascii().is_empty())?;
    serde_json::from_slice(last).ok()
}

/// Allocations and frees by number.
pub(crate) fn seen(events: &[Event]) -> Vec<Seen> {
    let (mut live, mut next) = (std::collections::HashMap::new(), 0);
    let told = events
        .iter()
        .filter_map(|(action, address, bytes, _)| match action.as_str() {
            "alloc" => {
                live.insert(*address, next);
                next += 1;
                Some(Seen::Alloc(*bytes))
            }
            "free_completed" => live.remove(address).map(Seen::Free),
            _ => None,
        });
    told.collect()
}
