//! What is wrong in a file, and where: one line for a person, an annotation for GitHub.

use std::fmt;
use std::path::{Path, PathBuf};
use vramcast::config::quoted;

/// Something that keeps the gate from answering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) file: PathBuf,
    /// Counted from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.text)
    }
}

impl std::error::Error for Problem {}

impl Problem {
    pub(crate) fn new(file: &Path, line: usize, text: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line,
            text: text.into(),
        }
    }

    /// What the TOML parser says.
    pub(crate) fn of_toml(file: &Path, text: &str, error: &toml::de::Error) -> Self {
        let line = error.span().map_or(1, |span| line_at(text, span.start));
        let message = error.message().trim_end().replace('\n', ", ");
        Self::new(file, line, unknown_key(&message).unwrap_or(message))
    }

    /// What the JSON parser says.
    pub(crate) fn of_json(file: &Path, what: &str, error: &serde_json::Error) -> Self {
        let line = error.line().max(1);
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        Self::new(file, line, format!("{what}: {message}"))
    }
}

/// The line of a place in a text, counted from 1.
pub(crate) fn line_at(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().iter().take(offset);
    before.filter(|byte| **byte == b'\n').count() + 1
}

/// An unknown key with the nearest known one, instead of a list of all of them.
fn unknown_key(message: &str) -> Option<String> {
    let mut words = message
        .strip_prefix("unknown field ")?
        .split('`')
        .skip(1)
        .step_by(2);
    let unknown = words.next()?;
    let nearness = |word: &&str| strsim::jaro_winkler(unknown, word);
    let near = words.max_by(|a, b| nearness(a).total_cmp(&nearness(b)))?;
    Some(format!(
        "unknown key `{}`; the nearest known one is `{near}`",
        quoted(unknown)
    ))
}
