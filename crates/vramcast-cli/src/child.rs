//! Running a probe in a process of its own, so that an OOM, a panic or a kill there costs nothing
//! here.

use crate::nvml::{self, Watch};
use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::process::{Command, ExitStatus, Stdio};
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

/// How a probe ended, and what it measured.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) outcome: RunOutcome,
    pub(crate) measured: Measured,
    pub(crate) error: Option<String>,
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

/// The parent's side: runs a job in a child. The card is read before the child has a context, and
/// in a loop while it runs.
pub(crate) fn run(job: &Job) -> Result<Ended> {
    let card = match job.cuda {
        Some(index) => Some(nvml::card(index)?),
        None => None,
    };
    let watch = card.as_ref().map(|card| Watch::start(card.index));
    let (status, stdout, stderr) = spawn(job)?;
    let watched = watch.map(Watch::stop);
    let (outcome, mut measured, error) = match serde_json::from_slice(&stdout) {
        Ok(Said::Measured(measured)) if status.success() => (RunOutcome::Ok, *measured, None),
        Ok(Said::OutOfMemory(text)) => (RunOutcome::Oom, Measured::default(), Some(text)),
        Ok(Said::Failed(text)) => (RunOutcome::Failed, Measured::default(), Some(text)),
        _ => {
            let (outcome, text) = silent(status, &stderr);
            (outcome, Measured::default(), Some(text))
        }
    };
    measured.nvml_before = card.map(|card| card.used);
    measured.nvml_used = watched.map(|w| w.highest);
    measured.nvml_samples = watched.map(|w| w.samples);
    Ok(Ended {
        outcome,
        measured,
        error,
    })
}

fn spawn(job: &Job) -> Result<(ExitStatus, Vec<u8>, String)> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut child = Command::new(program)
        .arg("probe-child")
        // One line is read from its errors, not a trace.
        .env("RUST_BACKTRACE", "0")
        // Else candle reads the machine's topology before every product, which floods the log.
        .env("RAYON_NUM_THREADS", threads())
        // CUDA counts cards as NVML does.
        .env("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start the probe's process")?;
    let mut stdin = child.stdin.take().context("the probe has no input")?;
    // A child that died at once cannot read; what it said is in its output.
    let _ = stdin.write_all(&serde_json::to_vec(job)?);
    drop(stdin);
    let mut stderr_pipe = child
        .stderr
        .take()
        .context("the probe has no error output")?;
    let complaints = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stderr_pipe.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let output = child.wait_with_output()?;
    Ok((
        output.status,
        output.stdout,
        complaints.join().unwrap_or_default(),
    ))
}

/// As many threads as the user asked for, or as the machine has.
fn threads() -> String {
    std::env::var("RAYON_NUM_THREADS").unwrap_or_else(|_| {
        std::thread::available_parallelism()
            .map_or(1, usize::from)
            .to_string()
    })
}

/// What became of a child that said nothing.
fn silent(status: ExitStatus, stderr: &str) -> (RunOutcome, String) {
    let out_of_memory = ["memory allocation of", "OUT_OF_MEMORY"];
    let sign = stderr
        .lines()
        .find(|line| out_of_memory.iter().any(|sign| line.contains(sign)));
    if let Some(line) = sign {
        return (RunOutcome::Oom, line.to_owned());
    }
    let last = stderr
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("");
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        let hint = if signal == 9 {
            ": killed, as Linux does when a machine's memory is full"
        } else {
            ""
        };
        let outcome = if signal == 9 {
            RunOutcome::Oom
        } else {
            RunOutcome::Failed
        };
        return (
            outcome,
            format!("the probe's process died of signal {signal}{hint}; {last}"),
        );
    }
    (
        RunOutcome::Failed,
        format!("the probe's process ended with {status}; {last}"),
    )
}
