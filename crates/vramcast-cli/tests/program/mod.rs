//! The program under test, which knows nothing of what the user who tests has calibrated.

use assert_cmd::Command;
use std::path::Path;

/// At the root of the repository: some models of the records are files in it.
pub(crate) fn vramcast() -> Command {
    let mut command = Command::cargo_bin("vramcast").unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    command.current_dir(folder.join("../.."));
    // No such folder: nothing was kept.
    command.env("XDG_DATA_HOME", folder.join("tests/program/no-data"));
    command
}
