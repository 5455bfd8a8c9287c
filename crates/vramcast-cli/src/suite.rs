//! Probe suites: which workloads to run, in TOML. Every field may be a list, and a table stands for
//! all combinations of its lists.

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Deserializer, de};
use std::path::Path;
use vramcast::bytes::Bytes;
use vramcast::workload::{
    Attention, Code, Loop, Mode, Optimizer, Placement, Precision, Runtime, Task, Workload,
};

/// One workload of a suite.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) model: String,
    pub(crate) workload: Workload,
    /// What PyTorch's allocator may reserve.
    pub(crate) allocator_limit: Option<Bytes>,
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
    /// candle where absent.
    #[serde(default = "candle")]
    runtime: Runtime,
    #[serde(default)]
    optimizer: OneOrMany<Optimizer>,
    #[serde(default)]
    code: OneOrMany<Code>,
    #[serde(default)]
    precision: OneOrMany<Precision>,
    /// The runtime's own where absent.
    attention: Option<OneOrMany<Attention>>,
    #[serde(default)]
    checkpointing: OneOrMany<bool>,
    #[serde(default = "one")]
    accumulation: OneOrMany<u32>,
    #[serde(default = "yes")]
    dropout: OneOrMany<bool>,
    #[serde(default)]
    drop_graph: OneOrMany<bool>,
    #[serde(default)]
    padding: OneOrMany<bool>,
    #[serde(default, rename = "loop")]
    training_loop: OneOrMany<Loop>,
    #[serde(default)]
    placement: OneOrMany<Placement>,
    #[serde(default)]
    lora_rank: OneOrMany<u64>,
    #[serde(default)]
    compile: OneOrMany<bool>,
    #[serde(default = "one")]
    models: OneOrMany<u64>,
    #[serde(default)]
    allocator_conf: OneOrMany<String>,
    /// The same for the whole table.
    allocator_limit: Option<Size>,
}

/// A size as people write it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size(pub(crate) Bytes);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Bytes::parse(&text).map(Self).map_err(de::Error::custom)
    }
}

fn candle() -> Runtime {
    Runtime::Candle
}

fn one<N: From<u8>>() -> OneOrMany<N> {
    OneOrMany::One(N::from(1))
}

fn yes() -> OneOrMany<bool> {
    OneOrMany::One(true)
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

/// Every combination, the last field changing fastest.
fn expand(table: &Table) -> Vec<Entry> {
    let attention = OneOrMany::One(table.runtime.attention());
    let attention = table.attention.as_ref().unwrap_or(&attention);
    let models = table.model.all().iter().map(|model| Entry {
        model: model.clone(),
        workload: Workload::new(table.runtime, Task::default(), Mode::default(), 1, 1),
        allocator_limit: table.allocator_limit.map(|size| size.0),
    });
    let mut entries: Vec<Entry> = models.collect();
    vary(&mut entries, &table.task, |w, &task| w.task = task);
    vary(&mut entries, &table.mode, |w, &mode| w.mode = mode);
    vary(&mut entries, &table.optimizer, |w, &optimizer| {
        w.optimizer = optimizer;
    });
    vary(&mut entries, &table.code, |w, &code| w.code = code);
    vary(&mut entries, &table.precision, |w, &precision| {
        w.precision = precision;
    });
    vary(&mut entries, attention, |w, &attention| {
        w.attention = attention
    });
    vary(&mut entries, &table.checkpointing, |w, &on| {
        w.checkpointing = on
    });
    vary(&mut entries, &table.accumulation, |w, &n| {
        w.accumulation = n
    });
    vary(&mut entries, &table.dropout, |w, &on| w.dropout = on);
    vary(&mut entries, &table.drop_graph, |w, &on| w.drop_graph = on);
    vary(&mut entries, &table.padding, |w, &on| w.padding = on);
    vary(&mut entries, &table.training_loop, |w, &who| {
        w.training_loop = who;
    });
    vary(&mut entries, &table.placement, |w, &how| w.placement = how);
    vary(&mut entries, &table.compile, |w, &on| w.compile = on);
    vary(&mut entries, &table.models, |w, &n| w.models = n);
    vary(&mut entries, &table.lora_rank, |w, &rank| {
        w.lora_rank = rank
    });
    vary(&mut entries, &table.allocator_conf, |w, conf| {
        w.allocator_conf.clone_from(conf);
    });
    vary(&mut entries, &table.batch, |w, &batch| w.batch = batch);
    vary(&mut entries, &table.seq, |w, &seq| w.seq = seq);
    entries
}

/// Each entry once for each value.
fn vary<T>(entries: &mut Vec<Entry>, values: &OneOrMany<T>, set: impl Fn(&mut Workload, &T)) {
    let varied = entries.iter().flat_map(|entry| {
        values.all().iter().map(|value| {
            let mut entry = entry.clone();
            set(&mut entry.workload, value);
            entry
        })
    });
    *entries = varied.collect();
}
