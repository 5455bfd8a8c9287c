//! From the peak of a job down to that of the changed job, one change a row.
//!
//! Constraint: a change that adds memory is drawn as such, to the right of the one before.

use crate::scene::{Align, Scene, text_width};
use crate::style::{
    BAND, BLUE, Capacity, GREEN, GREY, HALF_CAPITAL, LABEL, MARGIN, Plot, SMALL, VERMILION, WIDTH,
    byte_ticks, head, shorten,
};
use vramcast::bytes::Bytes;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What is changed.
    pub label: String,
    /// The peak with it and all changes before it.
    pub peak: Bytes,
}

/// What the chart shows.
#[derive(Clone, Copy, Debug)]
pub struct Waterfall<'a> {
    /// The model and what runs, in one line.
    pub title: &'a str,
    /// What the sizes are.
    pub quantity: &'a str,
    /// The peak before any change.
    pub now: Bytes,
    /// The changes in their order.
    pub changes: &'a [Change],
    /// What it must fit into.
    pub capacity: Option<&'a Capacity>,
}

/// Height of a row and of its bar, in pixels.
const ROW: f64 = 34.0;
const BAR: f64 = 20.0;

/// Draws the way down.
pub fn waterfall(input: &Waterfall<'_>) -> Scene {
    let mut scene = Scene::new(input.title, WIDTH);
    let end_peak = input.changes.last().map_or(input.now, |last| last.peak);
    let captions = vec![caption(input, end_peak)];
    let end = head(&mut scene, input.title, &captions);
    let rows: Vec<Row> = rows(input, end_peak);
    let peaks = rows.iter().map(|row| row.from.0.max(row.to.0));
    let capacity = input.capacity.map_or(0, |capacity| capacity.bytes.0);
    let most = peaks.max().unwrap_or(0).max(1);
    // A capacity far beyond is told, not drawn.
    let drawn = input
        .capacity
        .filter(|_| capacity <= most.saturating_mul(2));
    let most = most.max(drawn.map_or(0, |capacity| capacity.bytes.0)) as f64;
    let ticks = byte_ticks(most, 6.0);
    let width = |text: &str| text_width(text, LABEL, false);
    let labels = rows.iter().map(|row| width(&row.label));
    let values = rows.iter().map(|row| width(&row.value));
    let plot = Plot {
        left: MARGIN + labels.fold(ticks.width() / 2.0, f64::max) + 10.0,
        top: end + 36.0,
        right: WIDTH - MARGIN - values.fold(0.0, f64::max) - 12.0,
        bottom: end + 36.0 + 8.0 + rows.len() as f64 * ROW,
    };
    scene.height = plot.bottom + 48.0;
    for i in (1..rows.len()).step_by(2) {
        let top = plot.top + 4.0 + i as f64 * ROW;
        let right = WIDTH - MARGIN + 6.0;
        scene.rect([MARGIN - 6.0, top, right, top + ROW], BAND);
    }
    plot.horizontal_axis(&mut scene, &ticks, |v| v / most);
    plot.frame(&mut scene);
    plot.horizontal_title(&mut scene, &format!("{} ({})", input.quantity, ticks.unit));
    let x = |bytes: Bytes| plot.x(bytes.0 as f64 / most);
    for (i, row) in rows.iter().enumerate() {
        let middle = plot.top + 4.0 + (i as f64 + 0.5) * ROW;
        let (left, right) = (x(row.from).min(x(row.to)), x(row.from).max(x(row.to)));
        let bar = [
            left,
            middle - BAR / 2.0,
            right.max(left + 1.0),
            middle + BAR / 2.0,
        ];
        scene.rect(bar, row.colour);
        if i + 1 < rows.len() {
            // Where the next row begins.
            let below = middle + ROW - BAR / 2.0;
            let at = x(row.to);
            scene.line(&[(at, middle - BAR / 2.0), (at, below)], 1.0, GREY);
        }
        let baseline = middle + HALF_CAPITAL * LABEL;
        let label = scene.text(plot.left - 8.0, baseline, LABEL, &row.label);
        label.align = Align::Right;
        let value = scene.text(WIDTH - MARGIN, baseline, LABEL, &row.value);
        value.align = Align::Right;
    }
    if let Some(capacity) = drawn {
        let at = x(capacity.bytes);
        scene.dashed((at, plot.top - 6.0), (at, plot.bottom), 1.5, VERMILION);
        let label = shorten(&capacity.label(), SMALL, true, WIDTH - 2.0 * MARGIN);
        let half = text_width(&label, SMALL, true) / 2.0;
        let centre = at.clamp(MARGIN + half, WIDTH - MARGIN - half);
        let text = scene.text(centre, plot.top - 12.0, SMALL, &label);
        text.align = Align::Centre;
        text.bold = true;
        text.colour = VERMILION;
    }
    scene
}

struct Row {
    label: String,
    from: Bytes,
    to: Bytes,
    value: String,
    colour: crate::Colour,
}

/// The most room for a label, in pixels.
const LABEL_WIDTH: f64 = 260.0;

fn rows(input: &Waterfall<'_>, end: Bytes) -> Vec<Row> {
    // A whole bar ends where the changes begin.
    let whole = |label: &str, peak: Bytes| Row {
        label: label.to_owned(),
        from: Bytes(0),
        to: peak,
        value: peak.to_string(),
        colour: BLUE,
    };
    let mut rows = vec![whole("as it is", input.now)];
    let mut before = input.now;
    for change in input.changes {
        let less = change.peak <= before;
        let (sign, colour) = if less { ("-", GREEN) } else { ("+", VERMILION) };
        rows.push(Row {
            label: shorten(&change.label, LABEL, false, LABEL_WIDTH),
            from: before,
            to: change.peak,
            value: format!("{sign}{}", Bytes(before.0.abs_diff(change.peak.0))),
            colour,
        });
        before = change.peak;
    }
    rows.push(whole("changed", end));
    rows
}

fn caption(input: &Waterfall<'_>, end: Bytes) -> String {
    let mut text = format!("from {} to {}", input.now, end);
    if input.now.0 > 0 {
        let left = end.0 as f64 / input.now.0 as f64;
        text += &format!(", {:.0} % of it", 100.0 * left);
    }
    if let Some(capacity) = input.capacity {
        text += &format!("; there is {} ({})", capacity.bytes, capacity.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg;
    use crate::tidy::{assert_tidy, assert_xml};
    use proptest::prelude::*;
    use vramcast::bytes::GIB;

    fn draw(now: u64, changes: &[(String, u64)], capacity: Option<u64>) -> Scene {
        let change = |(label, peak): &(String, u64)| Change {
            label: label.clone(),
            peak: Bytes(*peak),
        };
        let changes: Vec<Change> = changes.iter().map(change).collect();
        let capacity = capacity.map(|bytes| Capacity {
            name: "Tesla T4".to_owned(),
            bytes: Bytes(bytes),
        });
        waterfall(&Waterfall {
            title: "bert-base-uncased training",
            quantity: "peak memory",
            now: Bytes(now),
            changes: &changes,
            capacity: capacity.as_ref(),
        })
    }

    #[test]
    fn every_change_has_its_saving_and_the_card_its_line() {
        let changes = [
            ("amp-fp16".to_owned(), 12 * GIB),
            ("a worse kernel".to_owned(), 13 * GIB),
        ];
        let scene = draw(20 * GIB, &changes, Some(15 * GIB));
        assert_tidy(&scene);
        let text = svg(&scene);
        assert_xml(&text);
        for part in [
            "as it is",
            "-8.00 GiB",
            "+1.00 GiB",
            "changed",
            "Tesla T4 15.00 GiB",
            "from 20.00 GiB to 13.00 GiB, 65 % of it",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_changes_are_drawn_tidily(
            now in any::<u64>(),
            changes in prop::collection::vec((".{0,60}", any::<u64>()), 0..12),
            capacity in prop::option::of(any::<u64>()),
            small in 0u32..64,
        ) {
            let changes: Vec<_> = changes.into_iter().map(|(l, p)| (l, p >> small)).collect();
            let scene = draw(now >> small, &changes, capacity.map(|c| c >> small));
            assert_tidy(&scene);
            assert_xml(&svg(&scene));
        }
    }
}
