//! Two runs beside each other: which of the peaks, phases, components and layers changed.

use crate::bytes::{Bytes, signed};
use crate::figures::{Figure, Figures};
use crate::layers::{Folded, Layer, Span};
use crate::timeline::{Category, Phase};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use strum::IntoEnumIterator;

/// A size in both. In bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// In the first.
    pub before: Bytes,
    /// In the second.
    pub after: Bytes,
}

impl Change {
    /// Second less first.
    pub fn growth(self) -> i128 {
        self.after.minus(self.before)
    }

    /// The growth as a share of the first; `None` where the first is 0.
    pub fn share(self) -> Option<f64> {
        (self.before.0 > 0).then(|| self.growth() as f64 / self.before.0 as f64)
    }

    /// `by 12.4 %`: how much it grew or shrank, in words.
    pub fn by(self) -> String {
        match self.share().map(|share| 100.0 * share.abs()) {
            None => "from nothing".to_owned(),
            Some(percent) if percent > 0.0 && percent < 0.05 => "by less than 0.1 %".to_owned(),
            Some(percent) => format!("by {percent:.1} %"),
        }
    }

    /// `allocated grew by 12.4 % (+769 MiB) to 6.83 GiB`: what became of a peak.
    pub fn told(self, figure: Figure) -> String {
        let growth = self.growth();
        let verb = if growth > 0 { "grew" } else { "shrank" };
        let (by, after) = (self.by(), self.after);
        format!("{figure} {verb} {by} ({}) to {after}", signed(growth))
    }
}

/// A named size in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Row<N> {
    /// What it is.
    pub name: N,
    /// What became of it.
    #[serde(flatten)]
    pub change: Change,
}

/// What a part of the model, or layers that changed alike, hold in both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerChange {
    /// What it is for.
    pub category: Category,
    /// When it was made.
    pub phase: Phase,
    /// Where.
    pub scope: Span,
    /// Of all that the scope spans together.
    #[serde(flatten)]
    pub change: Change,
}

/// Two runs beside each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The peaks that both have.
    pub peaks: Vec<Row<Figure>>,
    /// The phase of the peak in the first.
    pub peak_phase_before: Option<Phase>,
    /// In the second.
    pub peak_phase_after: Option<Phase>,
    /// The phases that both have, by what the runtime counts.
    pub phases: Vec<Row<Phase>>,
    /// What is alive at the peak, by category; empty where one of them does not know.
    pub components: Vec<Row<&'static str>>,
    /// The same by layer.
    pub layers: Vec<LayerChange>,
}

impl Difference {
    /// Compares two runs.
    pub fn new(before: &Figures, after: &Figures) -> Self {
        let peaks = Figure::iter().filter_map(|name| {
            Some(Row {
                name,
                change: Change {
                    before: before.peak(name)?,
                    after: after.peak(name)?,
                },
            })
        });
        let phases = after.phases.iter().filter_map(|phase| {
            let earlier = before.phases.iter().find(|p| p.name == phase.name)?;
            Some(Row {
                name: phase.name,
                change: Change {
                    before: earlier.peak,
                    after: phase.peak,
                },
            })
        });
        let known = before.at_peak.zip(after.at_peak);
        let components = known.into_iter().flat_map(|(before, after)| {
            let pairs = before.parts().into_iter().zip(after.parts());
            pairs.map(|((name, before), (_, after))| Row {
                name,
                change: Change { before, after },
            })
        });
        Self {
            peaks: peaks.collect(),
            peak_phase_before: before.peak_phase,
            peak_phase_after: after.peak_phase,
            phases: phases.collect(),
            components: components
                .filter(|row| row.change.before.0 > 0 || row.change.after.0 > 0)
                .collect(),
            layers: match (before.layers.as_slice(), after.layers.as_slice()) {
                ([], _) | (_, []) => Vec::new(),
                (before, after) => layers(before, after),
            },
        }
    }

    /// Whether nothing that both know differs.
    pub fn is_empty(&self) -> bool {
        let same = |change: &Change| change.growth() == 0;
        self.peaks.iter().all(|row| same(&row.change))
            && self.phases.iter().all(|row| same(&row.change))
            && self.components.iter().all(|row| same(&row.change))
            && self.layers.iter().all(|layer| same(&layer.change))
    }

    /// What the runtime counts at the peak: allocated bytes, else requested ones.
    pub fn counted(&self) -> Option<&Row<Figure>> {
        let of = |figure| self.peaks.iter().find(move |row| row.name == figure);
        of(Figure::Allocated).or_else(|| of(Figure::Requested))
    }

    /// The component that changed most in the direction of what the runtime counts, if one did.
    pub fn main_component(&self) -> Option<&Row<&'static str>> {
        let counted = self.counted().map_or(0, |row| row.change.growth());
        let rows = self.components.iter();
        rows.filter(|row| is_along(row.change, counted))
            .max_by_key(|row| row.change.growth().abs())
    }

    /// The layers in which a component changed in its own direction, those that changed most first.
    pub fn main_layers(&self, component: &Row<&'static str>) -> Vec<&LayerChange> {
        let growth = component.change.growth();
        let layers = self.layers.iter();
        let mut along: Vec<&LayerChange> = layers
            .filter(|layer| layer.category.to_string() == component.name)
            .filter(|layer| is_along(layer.change, growth))
            .collect();
        along.sort_by_key(|layer| Reverse(layer.change.growth().abs()));
        along
    }
}

/// Whether something changed in a direction; in any, where the direction is 0.
fn is_along(change: Change, direction: i128) -> bool {
    let sign = change.growth().signum();
    sign != 0 && (direction == 0 || sign == direction.signum())
}

/// A part of the model, its module by number, and what it holds bytes for.
type Part = (Category, Phase, usize, Option<u32>);

/// Every layer of both, layers in a row that changed alike as one. Parts of the model are in the
/// order of the second, those that it lacks last.
fn layers(before: &[Layer], after: &[Layer]) -> Vec<LayerChange> {
    let mut modules: Vec<&str> = Vec::new();
    for layer in after.iter().chain(before) {
        if !modules.contains(&layer.scope.module.as_str()) {
            modules.push(&layer.scope.module);
        }
    }
    let number = |module: &str| {
        modules
            .iter()
            .position(|m| *m == module)
            .unwrap_or_default()
    };
    let mut all: BTreeMap<Part, (u64, u64)> = BTreeMap::new();
    for (layers, second) in [(before, false), (after, true)] {
        for layer in layers {
            let each = layer.bytes.0 / layer.scope.count();
            for index in layer.scope.each() {
                let key = (
                    layer.category,
                    layer.phase,
                    number(&layer.scope.module),
                    index,
                );
                let sizes = all.entry(key).or_default();
                if second {
                    sizes.1 = sizes.1.saturating_add(each);
                } else {
                    sizes.0 = sizes.0.saturating_add(each);
                }
            }
        }
    }
    let mut folded = Folded::default();
    for ((category, phase, module, index), sizes) in all {
        folded.push(category, phase, (modules[module], index), sizes);
    }
    let change =
        |(category, phase, scope, (before, after)): (_, _, Span, (u64, u64))| LayerChange {
            category,
            phase,
            change: Change {
                before: Bytes(before.saturating_mul(scope.count())),
                after: Bytes(after.saturating_mul(scope.count())),
            },
            scope,
        };
    folded.0.into_iter().map(change).collect()
}
