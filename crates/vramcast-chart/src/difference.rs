//! What changed between two runs: a signed bar for each component and each of its layers, and for
//! each sum of them.
//!
//! Constraint: growth is to the right of the line in the middle, what shrinks to its left, and both
//! have their sign in the text.

use crate::scene::{Align, Scene, text_width};
use crate::style::{
    AXIS, BAND, GREEN, GREY, HALF_CAPITAL, LABEL, MARGIN, Plot, SMALL, Ticks, VERMILION, WIDTH,
    byte_ticks, head, shorten,
};
use vramcast::bytes::signed;

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    /// What grew or shrank.
    pub label: String,
    /// By how many bytes.
    pub bytes: i128,
    /// What it was and is, in words.
    pub value: String,
    /// What it is to the rows around it.
    pub rank: Rank,
}

/// What a row is to those around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// A component.
    Component,
    /// A part of the component above.
    Part,
    /// A sum; what is above the first of them is apart.
    Sum,
}

/// What the chart shows.
#[derive(Clone, Copy, Debug)]
pub struct Growths<'a> {
    /// What was compared, in one line.
    pub title: &'a str,
    /// The answer, in one line.
    pub caption: &'a str,
    /// The rows, from top to bottom.
    pub rows: &'a [Growth],
}

/// Heights of a row, of its bar and of the bar of a part, in pixels.
const ROW: f64 = 26.0;
const BAR: f64 = 16.0;
const PART: f64 = 8.0;

/// The most room for a label and for a value, in pixels.
const LABEL_WIDTH: f64 = 250.0;
const VALUE_WIDTH: f64 = 240.0;

/// Draws what changed.
pub fn difference(input: &Growths<'_>) -> Scene {
    let mut scene = Scene::new(input.title, WIDTH);
    let end = head(&mut scene, input.title, &[input.caption.to_owned()]);
    let font = |rank| match rank {
        Rank::Component => (LABEL, false),
        Rank::Part => (SMALL, false),
        Rank::Sum => (LABEL, true),
    };
    let texts: Vec<(String, String, String)> = input
        .rows
        .iter()
        .map(|row| {
            let value = shorten(&row.value, SMALL, false, VALUE_WIDTH);
            let (size, bold) = font(row.rank);
            let label = shorten(&row.label, size, bold, LABEL_WIDTH);
            (label, signed(row.bytes), value)
        })
        .collect();
    let widest =
        |of: &dyn Fn(&(String, String, String)) -> f64| texts.iter().map(of).fold(0.0, f64::max);
    // The largest of the fonts, so that no label is wider.
    let labels = widest(&|(label, _, _)| text_width(label, LABEL, true));
    let values = widest(&|(_, _, value)| text_width(value, SMALL, false));
    let room = widest(&|(_, growth, _)| text_width(growth, SMALL, false)) + 8.0;
    // Room for a text at the end of the longest bar, on either side.
    let (least, most) = input.rows.iter().fold((0, 0), |(least, most), row| {
        (least.min(row.bytes), most.max(row.bytes))
    });
    let grows = most > 0 || least == 0;
    let plot = Plot {
        left: MARGIN + labels + 10.0 + if least < 0 { room } else { 0.0 },
        top: end + 20.0,
        right: WIDTH - MARGIN - values - 14.0 - if grows { room } else { 0.0 },
        bottom: end + 28.0 + input.rows.len() as f64 * ROW,
    };
    scene.height = plot.bottom + 48.0;
    let right = WIDTH - MARGIN;
    for i in (1..input.rows.len()).step_by(2) {
        let top = plot.top + 4.0 + i as f64 * ROW;
        scene.rect([MARGIN - 6.0, top, right + 6.0, top + ROW], BAND);
    }
    let (low, span) = (least as f64, ((most as f64) - (least as f64)).max(1.0));
    let position = |bytes: f64| (bytes - low) / span;
    let ticks = ticks(least, most);
    plot.horizontal_axis(&mut scene, &ticks, position);
    plot.horizontal_title(&mut scene, &format!("change ({})", ticks.unit));
    for (i, (row, (label, growth, value))) in input.rows.iter().zip(&texts).enumerate() {
        let middle = plot.top + 4.0 + (i as f64 + 0.5) * ROW;
        let (size, bold) = font(row.rank);
        let text = scene.text(MARGIN + labels, middle + HALF_CAPITAL * size, size, label);
        text.align = Align::Right;
        text.bold = bold;
        if row.rank == Rank::Part {
            text.colour = GREY;
        }
        if row.rank == Rank::Sum && i > 0 && input.rows[i - 1].rank != Rank::Sum {
            let above = middle - ROW / 2.0;
            scene.line(&[(MARGIN - 6.0, above), (right + 6.0, above)], 1.0, AXIS);
        }
        let height = match row.rank {
            Rank::Part => PART,
            Rank::Component | Rank::Sum => BAR,
        };
        let (zero, at) = (plot.x(position(0.0)), plot.x(position(row.bytes as f64)));
        let bar = [
            zero.min(at),
            middle - height / 2.0,
            zero.max(at),
            middle + height / 2.0,
        ];
        let colour = if row.bytes > 0 { VERMILION } else { GREEN };
        scene.rect(bar, colour);
        let small = middle + HALF_CAPITAL * SMALL;
        let beside = if row.bytes < 0 { at - 5.0 } else { at + 5.0 };
        let text = scene.text(beside, small, SMALL, growth);
        if row.bytes < 0 {
            text.align = Align::Right;
        }
        scene.text(right, small, SMALL, value).align = Align::Right;
    }
    let zero = plot.x(position(0.0));
    scene.line(&[(zero, plot.top), (zero, plot.bottom)], 1.0, AXIS);
    scene
}

/// Round values on both sides of 0, in the unit of the longer one.
fn ticks(least: i128, most: i128) -> Ticks {
    let longest = most.max(-least) as f64;
    let ticks = byte_ticks(longest, 4.0);
    let negative = ticks.at.iter().skip(1).rev();
    let negative = negative.map(|(value, label)| (-value, format!("-{label}")));
    let positive = ticks.at.iter().enumerate().map(|(i, (value, label))| {
        let sign = if i > 0 { "+" } else { "" };
        (*value, format!("{sign}{label}"))
    });
    Ticks {
        unit: ticks.unit,
        at: negative.chain(positive).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg;
    use crate::tidy::{assert_tidy, assert_xml};
    use proptest::prelude::*;
    use vramcast::bytes::MIB;

    fn row(label: &str, bytes: i128, rank: Rank) -> Growth {
        Growth {
            label: label.to_owned(),
            bytes,
            value: "418 MiB to 420 MiB".to_owned(),
            rank,
        }
    }

    fn draw(rows: &[Growth]) -> Scene {
        difference(&Growths {
            title: "fine-tuning <base>",
            caption: "allocated grew by 12.4 %",
            rows,
        })
    }

    #[test]
    fn every_row_has_its_growth_with_a_sign() {
        let rows = [
            row("activations", 297 * i128::from(MIB), Rank::Component),
            row("encoder.layer.0..=11", 280 * i128::from(MIB), Rank::Part),
            row("gradients", -12 * i128::from(MIB), Rank::Component),
            row("allocated", 0, Rank::Sum),
        ];
        let scene = draw(&rows);
        assert_tidy(&scene);
        let text = svg(&scene);
        assert_xml(&text);
        for part in ["+297 MiB", "-12.0 MiB", "+280 MiB", "change (MiB)", "+200"] {
            assert!(text.contains(part), "{part}");
        }
    }

    const RANKS: [Rank; 3] = [Rank::Component, Rank::Part, Rank::Sum];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_growths_are_drawn_tidily(
            rows in prop::collection::vec((".{0,60}", any::<i64>(), 0usize..3), 0..40),
            small in 0u32..64,
        ) {
            let rows: Vec<_> = rows
                .iter()
                .map(|(label, bytes, rank)| row(label, i128::from(*bytes >> small), RANKS[*rank]))
                .collect();
            let scene = draw(&rows);
            assert_tidy(&scene);
            assert_xml(&svg(&scene));
        }
    }
}
