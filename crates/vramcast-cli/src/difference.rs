//! What two runs differ in, as rows and sentences for people.

use vramcast::bytes::{Bytes, signed};
use vramcast::diff::{Change, Difference, LayerChange, Row};
use vramcast::figures::Figure;
use vramcast::timeline::Phase;
use vramcast_chart::Rank;

/// One size in both runs.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) label: String,
    pub(crate) rank: Rank,
    pub(crate) change: Change,
    /// How many equal ones it is the sum of.
    count: u64,
}

impl Line {
    /// A size of the line, or so many equal ones.
    pub(crate) fn size(&self, bytes: Bytes) -> String {
        match self.count {
            1 => bytes.to_string(),
            count => format!("{count} x {}", Bytes(bytes.0 / count)),
        }
    }
}

/// A layer is left out where it has less than one so many parts of the change.
const UNSEEN: i128 = 1000;

/// The components that changed, each with the layers in which it did, then all peaks.
pub(crate) fn lines(difference: &Difference) -> Vec<Line> {
    let mut lines = Vec::new();
    let grew = |change: Change| change.growth().abs();
    for component in difference.components.iter().filter(|c| grew(c.change) > 0) {
        lines.push(Line {
            label: component.name.to_owned(),
            rank: Rank::Component,
            change: component.change,
            count: 1,
        });
        let least = grew(component.change) / UNSEEN;
        let layers = difference.layers.iter();
        let layers = layers.filter(|layer| layer.category.to_string() == component.name);
        lines.extend(layers.filter(|l| grew(l.change) > least).map(|layer| Line {
            label: format!("{}, {}", place(layer), layer.phase),
            rank: Rank::Part,
            change: layer.change,
            count: layer.scope.count(),
        }));
    }
    lines.extend(difference.peaks.iter().map(|peak| Line {
        label: peak.name.to_string(),
        rank: Rank::Sum,
        change: peak.change,
        count: 1,
    }));
    lines
}

/// The heads of [`rows`]' columns.
pub(crate) fn header<'a>(before: &'a str, after: &'a str) -> [&'a str; 5] {
    ["", before, after, "change", ""]
}

/// [`lines`] as rows of a table.
pub(crate) fn rows(difference: &Difference) -> Vec<Vec<String>> {
    let row = |line: Line| {
        let indent = match line.rank {
            Rank::Component => "  ",
            Rank::Part => "    ",
            Rank::Sum => "= ",
        };
        vec![
            format!("{indent}{}", line.label),
            line.size(line.change.before),
            line.size(line.change.after),
            signed(line.change.growth()),
            share(line.change),
        ]
    };
    lines(difference).into_iter().map(row).collect()
}

/// `+12.4 %`; empty where nothing changed, or from nothing.
fn share(change: Change) -> String {
    match change.share() {
        Some(share) if change.growth() != 0 => format!("{:+.1} %", 100.0 * share),
        _ => String::new(),
    }
}

fn place(layer: &LayerChange) -> String {
    match layer.scope.to_string() {
        scope if scope.is_empty() => "outside layers".to_owned(),
        scope => scope,
    }
}

/// What is the same in both, in one line.
pub(crate) fn unchanged(difference: &Difference) -> Option<String> {
    let components = difference.components.iter();
    let same = components.filter(|row| row.change.growth() == 0);
    let names: Vec<&str> = same.map(|row| row.name).collect();
    (!names.is_empty()).then(|| format!("unchanged: {}", names.join(", ")))
}

/// `allocated grew by 12.4 % (+769 MiB) to 6.83 GiB`: what became of what the runtime counts at its
/// peak, or else of the peak that changed most.
pub(crate) fn summary(difference: &Difference) -> String {
    let changed = |row: &&Row<Figure>| row.change.growth() != 0;
    let most = |row: &&Row<Figure>| row.change.growth().abs();
    let peaks = || difference.peaks.iter().filter(changed);
    let counted = difference.counted().filter(changed);
    let Some(row) = counted.or_else(|| peaks().max_by_key(most)) else {
        return match difference.is_empty() {
            true => "nothing changed".to_owned(),
            false => "no peak changed".to_owned(),
        };
    };
    row.change.told(row.name)
}

/// Which component changed most, in which layers, and when it was made.
pub(crate) fn explanation(difference: &Difference) -> Option<String> {
    let component = difference.main_component()?;
    let mut text = format!("{} {}", component.name, signed(component.change.growth()));
    let layers = difference.main_layers(component);
    let Some(first) = layers.first() else {
        return Some(text);
    };
    text += &format!(" in {}", place(first));
    let (growth, count) = (first.change.growth(), first.scope.count());
    if count > 1 {
        let each = signed(growth / i128::from(count));
        text += &format!(" ({count} x {each})");
    } else if layers.len() > 1 {
        text += &format!(" ({})", signed(growth));
    }
    if layers.len() > 1 {
        text += " and others";
    }
    Some(format!("{text}, made in {}", first.phase))
}

/// The phase of the peak, and what became of the highest of each phase: a line each.
pub(crate) fn phases(difference: &Difference) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(after) = difference.peak_phase_after {
        let before = difference
            .peak_phase_before
            .filter(|before| *before != after);
        let before = before.map(|before| format!(", before in {before}"));
        lines.push(format!("peak in {after}{}", before.unwrap_or_default()));
    }
    let phase = |row: &Row<Phase>| {
        let growth = match row.change.growth() {
            0 => String::new(),
            growth => format!(" ({})", signed(growth)),
        };
        format!("{} {}{growth}", row.name, row.change.after)
    };
    let phases: Vec<String> = difference.phases.iter().map(phase).collect();
    if !phases.is_empty() {
        lines.push(format!("highest in {}", phases.join(", ")));
    }
    lines
}
