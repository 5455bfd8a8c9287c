//! Running a probe in a process of its own, so that an OOM, a panic or a kill there costs nothing
//! here.

pub(crate) mod candle;
pub(crate) mod torch;

use crate::nvml::{self, Card, Watch, Watched};
use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use vramcast::bytes::Bytes;
use vramcast::record::{Measured, RunOutcome};

/// How a probe ended, and what it measured.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) outcome: RunOutcome,
    pub(crate) measured: Measured,
    pub(crate) error: Option<String>,
}

/// What a child left, and what NVML showed meanwhile.
struct Exited {
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: String,
    /// Used bytes before the child had a context.
    before: Option<Bytes>,
    watched: Option<Watched>,
}

impl Exited {
    /// Adds what NVML showed.
    fn note_nvml(&self, measured: &mut Measured) {
        measured.nvml_before = self.before.or(measured.nvml_before);
        measured.nvml_used = self.watched.map(|w| w.highest).or(measured.nvml_used);
        measured.nvml_samples = self.watched.map(|w| w.samples);
    }
}

/// Runs a child to its end with `input` on its stdin. The card, where there is one, is read before
/// the child has a context, and in a loop while it runs.
fn run(mut command: Command, input: &[u8], card: Option<&Card>) -> Result<Exited> {
    let before = card.and_then(|card| nvml::used(card.index));
    let watch = card.map(|card| Watch::start(card.index));
    let name = command.get_program().display().to_string();
    let mut child = command
        // CUDA counts cards as NVML does.
        .env("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{name} cannot be started"))?;
    let mut stdin = child.stdin.take().context("the probe has no input")?;
    // A child that died at once cannot read; what it said is in its output.
    let _ = stdin.write_all(input);
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
    Ok(Exited {
        status: output.status,
        stdout: output.stdout,
        stderr: complaints.join().unwrap_or_default(),
        before,
        watched: watch.map(Watch::stop),
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
    let last = stderr.lines().rev().find(|line| !line.trim().is_empty());
    let last = first_line(last.unwrap_or(""));
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

/// The first line of what somebody said, cut where it is longer than anybody reads.
fn first_line(text: &str) -> String {
    const LONGEST: usize = 600;
    let line = text.lines().next().unwrap_or("");
    line.chars().take(LONGEST).collect()
}
