//! What two runs differ in, as rows and sentences for people.

use vramcast::bytes::{Bytes, signed};
use vramcast::diff::{Change, Difference, LayerChange};

/// The heads of [`rows`]' columns, between those of the two runs.
pub(crate) fn header<'a>(before: &'a str, after: &'a str) -> [&'a str; 5] {
    ["", before, after, "change", ""]
}

/// A layer is left out of the rows where it has less than one so many parts of the change.
const UNSEEN: i128 = 1000;

/// The components that changed, each with the layers in which it did, then all peaks.
pub(crate) fn rows(difference: &Difference) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for component in changed(&difference.components, |row| row.change) {
        rows.push(row(format!("  {}", component.name), component.change, 1));
        let of = |layer: &&LayerChange| layer.category.to_string() == component.name;
        let least = component.change.growth().abs() / UNSEEN;
        let seen = |layer: &&LayerChange| layer.change.growth().abs() > least;
        let layers = changed(&difference.layers, |layer| layer.change);
        for layer in layers.filter(of).filter(seen) {
            let label = format!("    {}, {}", place(layer), layer.phase);
            rows.push(row(label, layer.change, layer.scope.count()));
        }
    }
    for peak in &difference.peaks {
        rows.push(row(format!("= {}", peak.name), peak.change, 1));
    }
    rows
}

fn changed<T>(all: &[T], change: impl Fn(&T) -> Change) -> impl Iterator<Item = &T> {
    all.iter().filter(move |one| change(one).growth() != 0)
}

/// A row of a size, or of `count` equal ones.
fn row(label: String, change: Change, count: u64) -> Vec<String> {
    let size = |bytes: Bytes| match count {
        1 => bytes.to_string(),
        count => format!("{count} x {}", Bytes(bytes.0 / count)),
    };
    vec![
        label,
        size(change.before),
        size(change.after),
        signed(change.growth()),
        share(change),
    ]
}

/// `+12.4 %`; empty where nothing changed, or from nothing.
pub(crate) fn share(change: Change) -> String {
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
    let same = difference
        .components
        .iter()
        .filter(|row| row.change.growth() == 0);
    let names: Vec<&str> = same.map(|row| row.name).collect();
    (!names.is_empty()).then(|| format!("unchanged: {}", names.join(", ")))
}

/// Which component grew most, where, and when it was made.
pub(crate) fn explanation(difference: &Difference) -> Option<String> {
    let component = difference.most_grown()?;
    let growth = component.change.growth();
    let mut text = format!("{} {}", component.name, signed(growth));
    if let Some(layer) = difference.grown_in(component.name) {
        let all = layer.change.growth() == growth;
        text += &format!(": {} in {}", if all { "all" } else { "most" }, place(layer));
        let count = layer.scope.count();
        if count > 1 {
            let each = layer.change.growth() / i128::from(count);
            text += &format!(" ({count} x {})", signed(each));
        }
        text += &format!(", made in {}", layer.phase);
    }
    Some(text)
}

/// The phase of the peak and what became of each phase, in one line.
pub(crate) fn phases(difference: &Difference) -> Option<String> {
    let after = difference.peak_phase_after?;
    let mut text = format!("peak in {after}");
    if let Some(before) = difference
        .peak_phase_before
        .filter(|before| *before != after)
    {
        text += &format!(", before in {before}");
    }
    let phase = |row: &vramcast::diff::Row<_>| {
        let growth = match row.change.growth() {
            0 => String::new(),
            growth => format!(" ({})", signed(growth)),
        };
        format!("{} {}{growth}", row.name, row.change.after)
    };
    let phases: Vec<String> = difference.phases.iter().map(phase).collect();
    if !phases.is_empty() {
        text += &format!("; highest in {}", phases.join(", "));
    }
    Some(text)
}
