//! One file a command, each a function from its arguments to an exit status.

pub(crate) mod accuracy;
mod advise;
mod audit;
mod calibrate;
mod catalogue;
mod check;
mod completions;
mod diff;
mod doctor;
mod fit;
mod lengths;
mod man;
mod predict;
mod probe;
mod report;

use crate::Exit;
use crate::args::{Args, Command};
use anyhow::Result;

/// Runs the command that was typed.
pub(crate) fn run(args: Args) -> Result<Exit> {
    match args.command {
        Command::Predict(args) => predict::run(&args),
        Command::Fit(args) => fit::run(&args),
        Command::Advise(args) => advise::run(&args),
        Command::Lengths(args) => lengths::run(&args),
        Command::Probe(args) => probe::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Accuracy(args) => accuracy::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Audit(args) => audit::run(&args),
        Command::Models(args) => catalogue::models(args.json),
        Command::Gpus(args) => catalogue::gpus(args.json),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions { shell } => completions::run(shell),
        Command::Man { out } => man::run(&out),
        Command::ProbeChild => crate::child::candle::serve().map(|()| Exit::Fine),
    }
}
