//! Files of records and predictions: JSON lines, or one JSON value as `--json` prints it; written
//! whole or not at all.

use anyhow::{Context, Result, anyhow, bail};
use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use strum::VariantNames;
use vramcast::config::quoted;
use vramcast::predict::Prediction;
use vramcast::record::{BatchSearch, Epochs, NeedSearch, Record, SCHEMA, Sharing};
use vramcast::workload::Runtime;

/// A line of a record file.
#[derive(Debug)]
pub(crate) enum Line {
    Prediction(Box<Prediction>),
    Run(Box<Record>),
    BatchSearch(Box<BatchSearch>),
    NeedSearch(Box<NeedSearch>),
    Epochs(Box<Epochs>),
    Sharing(Box<Sharing>),
    /// A record in words that this version does not know.
    Unknown {
        id: String,
        reason: String,
    },
}

/// Reads every record and prediction of a file, which may be compressed (`.gz`).
///
/// # Errors
/// The file and the line that is neither.
pub(crate) fn read(path: &Path) -> Result<Vec<Line>> {
    lines(open(path)?, path)
}

/// The text of a file, which may be compressed: for whoever does not know yet what it holds. A pipe
/// can be read once alone.
///
/// # Errors
/// A file that cannot be read, or is no text.
pub(crate) fn text(path: &Path) -> Result<String> {
    let mut text = String::new();
    let read = open(path)?.read_to_string(&mut text);
    read.with_context(|| cannot(path))?;
    Ok(text)
}

fn cannot(path: &Path) -> String {
    format!("{}: cannot be read", path.display())
}

fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    let file = File::open(path).with_context(|| cannot(path))?;
    Ok(match path.extension().is_some_and(|e| e == "gz") {
        true => Box::new(BufReader::new(MultiGzDecoder::new(file))),
        false => Box::new(BufReader::new(file)),
    })
}

/// Reads every record and prediction of what the file `path` holds.
///
/// # Errors
/// As [`read`].
pub(crate) fn lines(mut reader: impl BufRead, path: &Path) -> Result<Vec<Line>> {
    let cannot = || cannot(path);
    let (mut lines, mut text, mut number) = (Vec::new(), String::new(), 0);
    while reader.read_line(&mut text).with_context(cannot)? > 0 {
        number += 1;
        let read = text.trim_start_matches('\u{feff}').trim();
        // What `--json` prints begins with a line of its own.
        if lines.is_empty() && (read == "{" || read.starts_with('[')) {
            reader.read_to_string(&mut text).with_context(cannot)?;
            return indented(text.trim_start_matches('\u{feff}'), path, number);
        }
        if !read.is_empty() {
            lines.push(line(read, &format!("{}:{number}", path.display()))?);
        }
        text.clear();
    }
    Ok(lines)
}

/// Reads one JSON object, or a list of them, that goes over many lines from the `first` on.
fn indented(text: &str, path: &Path, first: usize) -> Result<Vec<Line>> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let number = first - 1 + error.line();
        anyhow!("{}:{number}: not JSON, or cut off: {error}", path.display())
    })?;
    let values = match value {
        Value::Array(values) => values,
        value => vec![value],
    };
    let at = format!("{}:{first}", path.display());
    let of = |value: &Value| line(&value.to_string(), &at);
    values.iter().map(of).collect()
}

/// The fields that say what kind of line it is.
#[derive(Deserialize)]
struct Kind {
    schema: Option<u32>,
    kind: Option<String>,
    id: Option<String>,
    runtime: Option<String>,
    verdict: Option<String>,
}

fn line(text: &str, at: &str) -> Result<Line> {
    let kind: Kind = serde_json::from_str(text)
        .map_err(|e| anyhow!("{at}: not a JSON object, or cut off: {e}"))?;
    if kind.schema != Some(SCHEMA) {
        bail!("{at}: not a record of schema {SCHEMA}");
    }
    let id = || kind.id.clone().unwrap_or_else(|| at.to_owned());
    match &kind.runtime {
        None => bail!("{at}: a record without a `runtime`"),
        Some(runtime) if !Runtime::VARIANTS.contains(&runtime.as_str()) => {
            return Ok(Line::Unknown {
                id: id(),
                reason: format!("runtime {} is not predicted", quoted(runtime)),
            });
        }
        Some(_) => {}
    }
    let read = match kind.kind.as_deref() {
        Some("max-batch") => batch_search(text).map(|search| Line::BatchSearch(Box::new(search))),
        Some("need") => serde_json::from_str(text).map(Line::NeedSearch),
        Some("epochs") => serde_json::from_str(text).map(Line::Epochs),
        Some("sharing") => serde_json::from_str(text).map(Line::Sharing),
        _ if kind.verdict.is_some() => serde_json::from_str(text).map(Line::Prediction),
        _ => serde_json::from_str(text).map(Line::Run),
    };
    match read {
        Ok(Line::Prediction(p)) if !p.adds_up() => {
            bail!("{at}: not a prediction: its sizes contradict one another")
        }
        Ok(line) => Ok(line),
        // A word of another version, family or program is no fault of the file.
        Err(error) if error.to_string().starts_with("unknown variant") => Ok(Line::Unknown {
            id: id(),
            reason: unknown_word(&error.to_string()),
        }),
        Err(error) => bail!("{at}: not a record: {error}"),
    }
}

/// What serde says of a word that an enum does not have, in the words of a person.
fn unknown_word(error: &str) -> String {
    let word = error.split('`').nth(1).unwrap_or(error);
    format!("`{}` is not predicted", quoted(word))
}

/// The batch of a search is what it found.
fn batch_search(text: &str) -> serde_json::Result<BatchSearch> {
    let mut value: Value = serde_json::from_str(text)?;
    value["batch"] = value["max_batch"].clone();
    BatchSearch::deserialize(value)
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
    // A link stays, and a device is never replaced by a file.
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if path.exists() && !path.is_file() {
        bail!("{}: not a file", path.display());
    }
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
