//! The command `vramcast`: arguments, files, NVML, child processes and exit codes. Everything that
//! it says is computed elsewhere.

mod args;
mod audit;
mod calibration;
mod charts;
mod child;
mod cmd;
mod command_line;
mod difference;
mod gate;
mod model;
mod nvml;
mod output;
mod python;
mod records;
mod suite;
mod trial;

use clap::Parser;
use std::process::ExitCode;

/// The probe on the CPU counts what candle allocates.
#[global_allocator]
static ALLOCATOR: vramcast_candle::counting::Counting = vramcast_candle::counting::Counting;

/// How the command ended, for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It fits, or the check passed.
    Fine = 0,
    /// It does not fit, or the check failed.
    DoesNotFit = 1,
    /// The question could not be answered.
    CouldNotAnswer = 2,
}

fn main() -> ExitCode {
    let exit = match cmd::run(args::Args::parse()) {
        Ok(exit) => exit,
        Err(error) if is_broken_pipe(&error) => Exit::Fine,
        Err(error) => {
            output::complain(&error);
            Exit::CouldNotAnswer
        }
    };
    ExitCode::from(exit as u8)
}

/// Whoever reads the output has seen enough.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .root_cause()
        .downcast_ref::<std::io::Error>()
        .is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}
