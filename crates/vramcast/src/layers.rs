//! What is alive at one moment of a run, by category, by the phase that made it and by the part of
//! the model that did. Layers in a row that hold the same are one entry.

use crate::bytes::Bytes;
use crate::timeline::{Category, Event, Phase, Timeline};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use strum::IntoEnumIterator;

/// A part of the model, or layers in a row: `embeddings`, `encoder.layer.3`,
/// `encoder.layer.0..=11`; empty outside every module.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Span {
    /// The module's name.
    pub module: String,
    /// The first and the last of several like it.
    pub range: Option<(u32, u32)>,
}

/// More layers than a timeline numbers.
const MOST: u32 = 1 << 16;

impl Span {
    /// How many parts it spans.
    pub fn count(&self) -> u64 {
        self.range
            .map_or(1, |(first, last)| u64::from(last - first) + 1)
    }

    /// Each part by itself.
    pub fn each(&self) -> impl Iterator<Item = Option<u32>> {
        let (first, last) = self.range.unwrap_or_default();
        let numbered = self.range.is_some();
        (first..=last).map(move |index| numbered.then_some(index))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.range {
            None => f.write_str(&self.module),
            Some((first, last)) if first == last => write!(f, "{}.{first}", self.module),
            Some((first, last)) => write!(f, "{}.{first}..={last}", self.module),
        }
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (module, range) = match text.split_once("..=") {
            Some((from, last)) => {
                let (module, first) = from.rsplit_once('.').unwrap_or((from, ""));
                (module, Some((first.parse().ok(), last.parse().ok())))
            }
            None => match text.rsplit_once('.').map(|(m, i)| (m, i.parse().ok())) {
                Some((module, Some(index))) => (module, Some((Some(index), Some(index)))),
                _ => (text, None),
            },
        };
        let range = match range {
            None => None,
            Some((Some(first), Some(last))) if first <= last && last < MOST => Some((first, last)),
            Some(_) => return Err(format!("`{text}` is no part of a model")),
        };
        Ok(Self {
            module: module.to_owned(),
            range,
        })
    }
}

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// What a part of the model, or each of several layers, holds for one purpose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// What it is for.
    pub category: Category,
    /// When it was made.
    pub phase: Phase,
    /// Where it was made.
    pub scope: Span,
    /// Requested bytes, of all that the scope spans together.
    pub bytes: Bytes,
}

/// What is alive after `event`, by category, phase and part of the model, in this order. Sums to
/// the live bytes.
pub fn layers_at(timeline: &Timeline, event: usize) -> Vec<Layer> {
    let scopes = timeline.scopes.len();
    let phases = Phase::iter().count();
    let mut live = vec![0u64; Category::COUNT * phases * scopes];
    let place = |buffer: u32| {
        let b = &timeline.buffers[buffer as usize];
        let row = b.category as usize * phases + b.phase as usize;
        (row * scopes + usize::from(b.scope.0), b.bytes)
    };
    for &event in &timeline.events[..=event] {
        match event {
            Event::Alloc(buffer) => {
                let (at, bytes) = place(buffer);
                live[at] += bytes;
            }
            Event::Free(buffer) => {
                let (at, bytes) = place(buffer);
                live[at] -= bytes;
            }
            Event::Begin(_) | Event::Synchronize => {}
        }
    }
    let mut layers = Folded::default();
    let rows =
        Category::all().flat_map(|category| Phase::iter().map(move |phase| (category, phase)));
    for ((category, phase), row) in rows.zip(live.chunks(scopes)) {
        for (scope, &bytes) in timeline.scopes.iter().zip(row).filter(|(_, b)| **b > 0) {
            layers.push(category, phase, (scope.module, scope.index), bytes);
        }
    }
    let layer = |(category, phase, scope, each): (Category, Phase, Span, u64)| Layer {
        category,
        phase,
        bytes: Bytes(each * scope.count()),
        scope,
    };
    layers.0.into_iter().map(layer).collect()
}

/// Entries of which those in a row that hold the same are one. `T` is what each of them holds.
#[derive(Debug)]
pub(crate) struct Folded<T>(pub(crate) Vec<(Category, Phase, Span, T)>);

impl<T> Default for Folded<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: PartialEq> Folded<T> {
    /// Adds a part after all that are there.
    pub(crate) fn push(
        &mut self,
        category: Category,
        phase: Phase,
        (module, index): (&str, Option<u32>),
        each: T,
    ) {
        if let Some((c, p, span, held)) = self.0.last_mut()
            && (*c, *p, &*held) == (category, phase, &each)
            && span.module == module
            && let Some((range, index)) = span.range.as_mut().zip(index)
            && range.1.checked_add(1) == Some(index)
        {
            range.1 = index;
            return;
        }
        let span = Span {
            module: module.to_owned(),
            range: index.map(|index| (index, index)),
        };
        self.0.push((category, phase, span, each));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_read_as_it_is_written() {
        for text in [
            "",
            "embeddings",
            "encoder.layer.3",
            "encoder.layer.0..=11",
            "a.b",
        ] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.to_string(), text);
        }
        let layers: Span = "encoder.layer.2..=11".parse().unwrap();
        assert_eq!(
            (layers.module.as_str(), layers.count()),
            ("encoder.layer", 10)
        );
        assert!("encoder.layer.3..=2".parse::<Span>().is_err());
        assert!("encoder.layer.x..=2".parse::<Span>().is_err());
    }
}
