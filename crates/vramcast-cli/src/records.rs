//! Record files: JSON lines, written whole or not at all.

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use vramcast::config::quoted;
use vramcast::record::{Record, SCHEMA};
use vramcast::workload::Runtime;

/// A line that is no record of ours.
#[derive(Debug)]
pub(crate) struct Skipped {
    pub(crate) id: String,
    pub(crate) reason: String,
}

/// Reads every line of a record file. Lines of runtimes that are not predicted are skipped, and said
/// to be.
///
/// # Errors
/// The file and the line that is no record.
pub(crate) fn read(path: &Path) -> Result<(Vec<Record>, Vec<Skipped>)> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{}: cannot be read", path.display()))?;
    let (mut records, mut skipped) = (Vec::new(), Vec::new());
    let lines = text.trim_start_matches('\u{feff}').lines().enumerate();
    for (i, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let at = || format!("{}:{}", path.display(), i + 1);
        let value: Value = serde_json::from_str(line)
            .map_err(|e| anyhow!("{}: not a JSON object, or cut off: {e}", at()))?;
        let text = |field: &str| value.get(field).and_then(Value::as_str);
        if value.get("schema").and_then(Value::as_u64) != Some(u64::from(SCHEMA)) {
            bail!("{}: not a record of schema {SCHEMA}", at());
        }
        match text("runtime") {
            None => bail!("{}: a record without a `runtime`", at()),
            Some(runtime) if runtime != Runtime::Candle.to_string() => skipped.push(Skipped {
                id: text("id").map_or_else(at, str::to_owned),
                reason: format!("runtime {} is not predicted yet", quoted(runtime)),
            }),
            Some(_) => {
                let record = Record::deserialize(&value);
                records.push(record.map_err(|e| anyhow!("{}: not a record: {e}", at()))?);
            }
        }
    }
    Ok((records, skipped))
}

/// Adds a record to a file, replacing it only once the whole is on disk. What was measured before
/// stays.
pub(crate) fn append(path: &Path, record: &Record) -> Result<()> {
    let mut text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            return Err(error).with_context(|| format!("{}: cannot be read", path.display()));
        }
    };
    serde_json::to_writer(&mut text, record)?;
    text.push(b'\n');
    write_file(path, &text)
}

/// Makes sure, before a long run, that its results can be written.
pub(crate) fn prepare(folder: &Path) -> Result<()> {
    let cannot = || format!("{}: cannot be written", folder.display());
    std::fs::create_dir_all(folder).with_context(cannot)?;
    tempfile::tempfile_in(folder).with_context(cannot)?;
    Ok(())
}

/// Writes a file whole or not at all, making its folder.
pub(crate) fn write_file(path: &Path, content: &[u8]) -> Result<()> {
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let cannot = || format!("{}: cannot be written", path.display());
    std::fs::create_dir_all(folder).with_context(cannot)?;
    let mut builder = tempfile::Builder::new();
    // Temporary files are private by default; records are not.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644));
    let mut file = builder.tempfile_in(folder).with_context(cannot)?;
    file.write_all(content).with_context(cannot)?;
    file.as_file().sync_all().with_context(cannot)?;
    file.persist(path).with_context(cannot)?;
    Ok(())
}
