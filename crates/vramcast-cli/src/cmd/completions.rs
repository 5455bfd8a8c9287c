//! `vramcast completions`.

use crate::args::Args;
use crate::{Exit, output};
use anyhow::Result;
use clap::CommandFactory;
use clap_complete::{Shell, generate};

pub(crate) fn run(shell: Shell) -> Result<Exit> {
    let mut script = Vec::new();
    generate(shell, &mut Args::command(), "vramcast", &mut script);
    output::print(&String::from_utf8(script)?)?;
    Ok(Exit::Fine)
}
