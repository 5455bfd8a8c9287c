//! `vramcast diff`: what changed between two runs.

use crate::Exit;
use crate::args::Diff;
use anyhow::Result;

pub(crate) fn run(_args: &Diff) -> Result<Exit> {
    todo!()
}
