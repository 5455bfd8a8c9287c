//! The baseline: the figures that were accepted last, with the configuration that they are of. A file
//! for review: one entry a workload in the order of `vramcast.toml`, replaced whole or not at all.

use super::problem::Problem;
use crate::records::write_file;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use vramcast::config::quoted;
use vramcast::figures::Figures;

/// The form of the file that this version writes.
const SCHEMA: u32 = 1;

/// Tells the file from records and predictions.
const KIND: &str = "baseline";

/// What was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Baseline {
    schema: u32,
    kind: String,
    /// The version that wrote it.
    pub(crate) vramcast: String,
    pub(crate) workloads: Vec<Accepted>,
}

/// The figures of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Accepted {
    pub(crate) name: String,
    /// What was asked: other figures are expected where it is another.
    pub(crate) configuration: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) predicted: Option<Figures>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) measured: Option<Measurement>,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measurement {
    /// The card, or `cpu`; absent where nobody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) on: Option<String>,
    pub(crate) figures: Figures,
}

/// A baseline and where it came from.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) baseline: Baseline,
    path: PathBuf,
    text: String,
}

/// The fields that say what a file is.
#[derive(Deserialize)]
struct Head {
    schema: Option<Value>,
    kind: Option<Value>,
}

/// Whether a text is a baseline, good or bad.
pub(crate) fn is_one(text: &str) -> bool {
    serde_json::from_str::<Head>(text).is_ok_and(|head| head.kind == Some(KIND.into()))
}

/// Reads a baseline; `None` if there is none.
///
/// # Errors
/// The line that is wrong, and what to do.
pub(crate) fn read(path: &Path) -> Result<Option<Read>, Problem> {
    match std::fs::read_to_string(path) {
        Ok(text) => parse(path, text).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Problem::new(path, 1, format!("cannot be read: {error}"))),
    }
}

/// The baseline that the file `path` holds as `text`.
///
/// # Errors
/// As [`read`].
pub(crate) fn parse(path: &Path, text: String) -> Result<Read, Problem> {
    let broken = |error: serde_json::Error| {
        let what =
            "no baseline, or cut off; restore it, or delete it and run `vramcast check --update`";
        Problem::of_json(path, what, &error)
    };
    let head: Head = serde_json::from_str(&text).map_err(broken)?;
    let line = |key: &str| line_of(&text, 0, key).unwrap_or(1);
    if head.kind != Some(KIND.into()) {
        return Err(Problem::new(
            path,
            line("kind"),
            "not a baseline of vramcast",
        ));
    }
    if head.schema != Some(SCHEMA.into()) {
        let schema = head
            .schema
            .map_or("none".to_owned(), |schema| schema.to_string());
        let text = format!(
            "a baseline of schema {}, and this version reads {SCHEMA}; delete it and run `vramcast \
             check --update`, or use the version that wrote it",
            quoted(&schema)
        );
        return Err(Problem::new(path, line("schema"), text));
    }
    let baseline: Baseline = serde_json::from_str(&text).map_err(broken)?;
    Ok(Read {
        baseline,
        path: path.to_owned(),
        text,
    })
}

/// The line of the first `key` after so many lines, counted from 1.
fn line_of(text: &str, after: usize, key: &str) -> Option<usize> {
    let begins = format!("\"{key}\":");
    let mut lines = text.lines().enumerate().skip(after);
    lines.find_map(|(i, line)| line.trim_start().starts_with(&begins).then_some(i + 1))
}

impl Read {
    pub(crate) fn accepted(&self, name: &str) -> Option<&Accepted> {
        self.baseline
            .workloads
            .iter()
            .find(|accepted| accepted.name == name)
    }

    /// `vramcast-baseline.json:9`: where a field of a workload's configuration is.
    pub(crate) fn place(&self, name: &str, field: &str) -> String {
        let is_named = |line: &str| {
            let value = line
                .trim()
                .strip_prefix("\"name\":")
                .map(|v| v.trim().trim_end_matches(','));
            value.is_some_and(|v| serde_json::from_str(v).is_ok_and(|v: String| v == name))
        };
        let named = self.text.lines().position(is_named).unwrap_or_default();
        let ends = line_of(&self.text, named + 1, "name").unwrap_or(usize::MAX);
        let line = line_of(&self.text, named, field).filter(|line| *line < ends);
        format!("{}:{}", self.path.display(), line.unwrap_or(named + 1))
    }
}

impl Accepted {
    /// The first field in which another configuration differs, and its value here and there.
    pub(crate) fn differs(&self, other: &Map<String, Value>) -> Option<[String; 3]> {
        differences(&self.configuration, other).into_iter().next()
    }
}

/// The fields in which two configurations differ, and their values in both.
pub(crate) fn differences(a: &Map<String, Value>, b: &Map<String, Value>) -> Vec<[String; 3]> {
    let mut keys: Vec<&String> = a.keys().collect();
    keys.extend(b.keys().filter(|key| !a.contains_key(*key)));
    let word = |value: Option<&Value>| match value {
        None => "the default".to_owned(),
        Some(Value::String(text)) => quoted(text),
        Some(value) => value.to_string(),
    };
    keys.into_iter()
        .filter(|key| a.get(*key) != b.get(*key))
        .map(|key| [key.clone(), word(a.get(key)), word(b.get(key))])
        .collect()
}

/// Replaces a baseline, unless it says the same.
///
/// # Errors
/// A file that cannot be written.
pub(crate) fn write(path: &Path, before: Option<&Read>, workloads: Vec<Accepted>) -> Result<()> {
    if before.is_some_and(|read| read.baseline.workloads == workloads) {
        return Ok(());
    }
    let baseline = Baseline {
        schema: SCHEMA,
        kind: KIND.to_owned(),
        vramcast: env!("CARGO_PKG_VERSION").to_owned(),
        workloads,
    };
    let mut text = serde_json::to_string_pretty(&baseline)?;
    text.push('\n');
    write_file(path, text.as_bytes())
}
