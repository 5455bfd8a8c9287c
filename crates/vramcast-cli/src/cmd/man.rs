//! `vramcast man`.

use crate::args::Args;
use crate::{Exit, output, records};
use anyhow::{Context, Result};
use clap::CommandFactory;
use std::path::Path;

pub(crate) fn run(out: &Path) -> Result<Exit> {
    records::prepare(out)?;
    clap_mangen::generate_to(Args::command(), out)
        .with_context(|| format!("{}: cannot be written", out.display()))?;
    output::remark(&format!("manual: {}", out.join("vramcast.1").display()));
    Ok(Exit::Fine)
}
