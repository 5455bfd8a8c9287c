//! `vramcast.toml` as it is written: what TOML may hold, before it is known what it means.

use crate::suite::Size;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use toml::Spanned;
use vramcast::bytes::Bytes;
use vramcast::figures::Figure;
use vramcast::share::Share;
use vramcast::workload::{
    Attention, Code, Loop, Mode, Optimizer, Placement, Precision, Runtime, Task,
};

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) baseline: Option<PathBuf>,
    pub(super) gpu: Option<Spanned<String>>,
    pub(super) torch: Option<Spanned<String>>,
    pub(super) tolerance: Option<Spanned<Levels>>,
    #[serde(default)]
    pub(super) workload: Vec<Table>,
}

/// A `[[workload]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub(super) name: Spanned<String>,
    pub(super) gpu: Option<Spanned<String>>,
    pub(super) torch: Option<Spanned<String>>,
    pub(super) tolerance: Option<Spanned<Levels>>,
    #[serde(default)]
    pub(super) budget: Budget,
    pub(super) measured: Option<String>,
    pub(super) model: Option<String>,
    #[serde(default)]
    pub(super) task: Task,
    #[serde(default)]
    pub(super) mode: Mode,
    pub(super) batch: Option<u64>,
    pub(super) seq: Option<u64>,
    #[serde(default)]
    pub(super) runtime: Runtime,
    /// As the loop has it where absent.
    pub(super) optimizer: Option<Optimizer>,
    #[serde(default)]
    pub(super) code: Code,
    #[serde(default)]
    pub(super) precision: Precision,
    /// The runtime's own where absent.
    pub(super) attention: Option<Attention>,
    #[serde(default)]
    pub(super) checkpointing: bool,
    pub(super) accumulation: Option<u32>,
    pub(super) dropout: Option<bool>,
    #[serde(default)]
    pub(super) drop_graph: bool,
    #[serde(default)]
    pub(super) padding: bool,
    #[serde(default, rename = "loop")]
    pub(super) training_loop: Loop,
    pub(super) placement: Option<Placement>,
    #[serde(default)]
    pub(super) lora_rank: u64,
    #[serde(default)]
    pub(super) compile: bool,
    pub(super) models: Option<u64>,
    #[serde(default)]
    pub(super) allocator_conf: String,
    pub(super) allocator_limit: Option<Size>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Levels {
    pub(super) allocator: Option<Level>,
    pub(super) nvml: Option<Level>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Level {
    pub(super) warn: Option<Share>,
    pub(super) fail: Option<Share>,
}

/// A size for what NVML shows, or a size for each of several figures.
#[derive(Debug, Default)]
pub(super) struct Budget(pub(super) BTreeMap<Figure, Bytes>);

impl<'de> Deserialize<'de> for Budget {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(BudgetVisitor).map(Self)
    }
}

struct BudgetVisitor;

impl<'de> Visitor<'de> for BudgetVisitor {
    type Value = BTreeMap<Figure, Bytes>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a size such as \"14GiB\" for NVML, or a table such as { allocated = \"12GiB\" }",
        )
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        let size = Bytes::parse(text).map_err(E::custom)?;
        Ok(BTreeMap::from([(Figure::Nvml, size)]))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut budget = BTreeMap::new();
        while let Some((figure, size)) = map.next_entry::<Figure, Size>()? {
            budget.insert(figure, size.0);
        }
        Ok(budget)
    }
}
