//! Record files: JSON lines, written whole or not at all.

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use std::io::Write;
use std::path::Path;
use vramcast::record::{Record, SCHEMA};

/// A line that is no record of ours.
#[derive(Debug)]
pub(crate) struct Skipped {
    pub(crate) id: String,
    pub(crate) reason: String,
}

/// Reads every line of a record file. Lines of other runtimes are skipped, and said to be.
///
/// # Errors
/// The file and the line that is not JSON.
pub(crate) fn read(path: &Path) -> Result<(Vec<Record>, Vec<Skipped>)> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{}: cannot be read", path.display()))?;
    let (mut records, mut skipped) = (Vec::new(), Vec::new());
    for (i, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let at = || format!("{}:{}", path.display(), i + 1);
        let value: serde_json::Value = serde_json::from_str(line)
            .map_err(|e| anyhow!("{}: not a JSON object, or cut off: {e}", at()))?;
        let schema = value.get("schema").and_then(serde_json::Value::as_u64);
        if schema != Some(u64::from(SCHEMA)) {
            return Err(anyhow!("{}: not a record of schema {SCHEMA}", at()));
        }
        match Record::deserialize(&value) {
            Ok(record) => records.push(record),
            Err(error) => {
                let id = value.get("id").and_then(serde_json::Value::as_str);
                let id = id.map_or_else(at, str::to_owned);
                skipped.push(Skipped {
                    id,
                    reason: error.to_string(),
                });
            }
        }
    }
    Ok((records, skipped))
}

/// Writes records, replacing the file only once all of them are on disk.
pub(crate) fn write(path: &Path, records: &[Record]) -> Result<()> {
    let mut text = Vec::new();
    for record in records {
        serde_json::to_writer(&mut text, record)?;
        text.push(b'\n');
    }
    write_file(path, &text)
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
