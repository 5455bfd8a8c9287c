//! Probe suites: which workloads to run, in TOML. Every field may be a list, and a table stands for
//! all combinations of its lists.

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use std::path::Path;
use vramcast::workload::{Code, Mode, Optimizer, Runtime, Task, Workload};

/// One workload of a suite.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) model: String,
    pub(crate) workload: Workload,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    workload: Vec<Table>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    model: OneOrMany<String>,
    task: OneOrMany<Task>,
    mode: OneOrMany<Mode>,
    batch: OneOrMany<u64>,
    seq: OneOrMany<u64>,
    #[serde(default)]
    optimizer: OneOrMany<Optimizer>,
    #[serde(default)]
    code: OneOrMany<Code>,
}

#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "a value that this field knows, or a list of them"
)]
enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T: Default> Default for OneOrMany<T> {
    fn default() -> Self {
        Self::One(T::default())
    }
}

impl<T> OneOrMany<T> {
    fn all(&self) -> &[T] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

/// Reads a suite.
///
/// # Errors
/// The place in the file, and what is wrong there.
pub(crate) fn read(path: &Path) -> Result<Vec<Entry>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{}: cannot be read", path.display()))?;
    let file: File = toml::from_str(&text).map_err(|error| {
        let before = error.span().map_or("", |span| &text[..span.start]);
        let line = before.matches('\n').count() + 1;
        let message = error.message().trim_end().replace('\n', ", ");
        anyhow!("{}:{line}: {message}", path.display())
    })?;
    let entries: Vec<Entry> = file.workload.iter().flat_map(expand).collect();
    if entries.is_empty() {
        bail!("{}: the suite is empty; add a [[workload]]", path.display());
    }
    Ok(entries)
}

fn expand(table: &Table) -> Vec<Entry> {
    let mut entries = Vec::new();
    for model in table.model.all() {
        for &task in table.task.all() {
            for &mode in table.mode.all() {
                for &optimizer in table.optimizer.all() {
                    for &code in table.code.all() {
                        for &batch in table.batch.all() {
                            for &seq in table.seq.all() {
                                let workload = Workload {
                                    optimizer,
                                    code,
                                    ..Workload::new(Runtime::Candle, task, mode, batch, seq)
                                };
                                entries.push(Entry {
                                    model: model.clone(),
                                    workload,
                                });
                            }
                        }
                    }
                }
            }
        }
    }
    entries
}
