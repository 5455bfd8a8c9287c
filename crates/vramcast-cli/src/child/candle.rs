//! The probe of candle: this program again, with a job on its stdin.

use super::{Ended, run, silent};
use crate::nvml::Card;
use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};
use std::process::Command;
use vramcast::record::{Measured, RunOutcome};
use vramcast_candle::{Job, ProbeError, probe};

/// What a child prints: its one line on stdout.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Said {
    Measured(Box<Measured>),
    OutOfMemory(String),
    Failed(String),
}

/// Bytes of the stack on which a probe runs, enough for thousands of layers.
const STACK: usize = 1 << 28;

/// The child's side: reads a job from stdin, runs it, prints what it measured.
pub(crate) fn serve() -> Result<()> {
    let job: Job = serde_json::from_reader(std::io::stdin()).context("not a job")?;
    // candle drops a graph recursively: a deep model needs a deep stack.
    let probe = std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || probe(&job))?;
    let said = match probe.join().map_err(|_| anyhow!("the probe panicked"))? {
        Ok(measured) => Said::Measured(Box::new(measured)),
        Err(ProbeError::OutOfMemory(text)) => Said::OutOfMemory(text),
        Err(error) => Said::Failed(error.to_string()),
    };
    serde_json::to_writer(std::io::stdout(), &said)?;
    Ok(())
}

/// The parent's side: runs a job in a child.
pub(crate) fn measure(job: &Job, card: Option<&Card>) -> Result<Ended> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut command = Command::new(program);
    command
        .arg("probe-child")
        // One line is read from its errors, not a trace.
        .env("RUST_BACKTRACE", "0")
        // Else candle reads the machine's topology before every product, which floods the log.
        .env("RAYON_NUM_THREADS", threads());
    let exited = run(command, &serde_json::to_vec(job)?, card)?;
    let (outcome, mut measured, error) = match serde_json::from_slice(&exited.stdout) {
        Ok(Said::Measured(measured)) if exited.status.success() => {
            (RunOutcome::Ok, *measured, None)
        }
        Ok(Said::OutOfMemory(text)) => (RunOutcome::Oom, Measured::default(), Some(text)),
        Ok(Said::Failed(text)) => (RunOutcome::Failed, Measured::default(), Some(text)),
        _ => {
            let (outcome, text) = silent(exited.status, &exited.stderr);
            (outcome, Measured::default(), Some(text))
        }
    };
    exited.note_nvml(&mut measured);
    Ok(Ended {
        outcome,
        measured,
        error,
    })
}

/// As many threads as the user asked for, or as the machine has.
fn threads() -> String {
    std::env::var("RAYON_NUM_THREADS").unwrap_or_else(|_| {
        std::thread::available_parallelism()
            .map_or(1, usize::from)
            .to_string()
    })
}
