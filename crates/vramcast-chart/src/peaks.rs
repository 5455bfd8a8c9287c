//! The peak over the batch, one line per sequence length, with what cards hold: which batch fits
//! where.
//!
//! Constraint: every line is named where it ends, and no two names lie on one another.

use crate::scene::{Mark, Scene, Shape, text_width};
use crate::style::{
    AXIS, Capacity, GREY, HALF_CAPITAL, LABEL, LEADING, LogRange, MARGIN, Plot, SMALL, Ticks,
    WIDTH, head, line_style, shorten, spread,
};
use vramcast::bytes::{Bytes, grouped};

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// What is the same along it: `sequence 512`.
    pub label: String,
    /// Batch and peak bytes, in the order of the line.
    pub points: Vec<(u64, Bytes)>,
}

/// What the chart shows.
#[derive(Clone, Copy, Debug)]
pub struct Peaks<'a> {
    /// The model and what runs, in one line.
    pub title: &'a str,
    /// Which of the five peaks the sizes are: `peak requested memory`.
    pub quantity: &'a str,
    /// What is along the horizontal axis: `batch (sequences)`.
    pub along: &'a str,
    /// The lines.
    pub series: &'a [Series],
    /// The cards to hold them against.
    pub cards: &'a [Capacity],
}

/// Cards beyond this many times the highest peak, or below this part of the lowest, are only
/// mentioned.
const OFF_THE_SCALE: f64 = 32.0;

/// The most room for a label, in pixels.
const LABEL_WIDTH: f64 = 260.0;

/// Draws peaks over the batch.
pub fn peaks(input: &Peaks<'_>) -> Scene {
    let points = || input.series.iter().flat_map(|s| &s.points);
    let peaks = points().map(|&(_, bytes)| bytes.0 as f64);
    let (low, high) = peaks
        .clone()
        .fold((f64::INFINITY, 0.0f64), |(l, h), b| (l.min(b), h.max(b)));
    let near = |card: &&Capacity| {
        let bytes = card.bytes.0 as f64;
        bytes <= high.max(1.0) * OFF_THE_SCALE && bytes * OFF_THE_SCALE >= low
    };
    let (drawn, off): (Vec<_>, Vec<_>) = input.cards.iter().partition(near);

    let mut scene = Scene::new(input.title, WIDTH);
    let captions = captions(&drawn, &off);
    let end = head(&mut scene, input.title, &captions);
    let cards = drawn.iter().map(|card| card.bytes.0 as f64);
    let vertical = LogRange::around(peaks.chain(cards), 0.06);
    let horizontal = LogRange::around(points().map(|&(x, _)| x as f64), 0.05);
    let ticks = vertical.byte_ticks(10.0);
    // All labels must find room beside the plot.
    let labels = input.series.len() + drawn.len();
    let widths = input
        .series
        .iter()
        .map(|series| text_width(&series.label, LABEL, true) + 16.0)
        .chain(
            drawn
                .iter()
                .map(|card| text_width(&card.label(), SMALL, false)),
        );
    let label_width = widths.fold(0.0, f64::max).min(LABEL_WIDTH);
    let plot_height = (labels as f64 * LEADING).max(420.0);
    let plot = Plot {
        left: MARGIN + ticks.width() + 8.0,
        top: end + 36.0,
        right: WIDTH - MARGIN - label_width - 30.0,
        bottom: end + 36.0 + plot_height,
    };
    scene.height = plot.bottom + 48.0;
    let y = |bytes: Bytes| plot.y(vertical.position(bytes.0 as f64));
    let x = |batch: u64| plot.x(horizontal.position(batch as f64));

    plot.vertical_axis(&mut scene, &ticks, |v| vertical.position(v));
    plot.vertical_title(&mut scene, 12.0, input.quantity);
    let ticks = batch_ticks(points().map(|&(x, _)| x));
    plot.horizontal_axis(&mut scene, &ticks, |v| horizontal.position(v));
    plot.frame(&mut scene);
    plot.horizontal_title(&mut scene, input.along);

    for card in &drawn {
        let y = y(card.bytes);
        scene.dashed((plot.left, y), (plot.right, y), 1.0, GREY);
    }
    for (i, series) in input.series.iter().enumerate() {
        let (colour, mark) = line_style(i);
        let points: Vec<_> = series.points.iter().map(|&(b, p)| (x(b), y(p))).collect();
        if points.len() > 1 {
            scene.line(&points, 2.0, colour);
        }
        for at in points {
            scene.marker(at, 4.0, mark, colour);
        }
    }
    draw_labels(&mut scene, &plot, input, &drawn, x, y);
    scene
}

fn captions(drawn: &[&Capacity], off: &[&Capacity]) -> Vec<String> {
    let mut captions = vec!["logarithmic axes".to_owned()];
    if !drawn.is_empty() {
        captions[0] += "; dashed: what cards hold";
    }
    if !off.is_empty() {
        let names: Vec<String> = off.iter().map(|card| card.label()).collect();
        captions.push(format!("off the scale: {}", names.join(", ")));
    }
    captions
}

/// The batches that occur.
fn batch_ticks(batches: impl Iterator<Item = u64>) -> Ticks {
    let mut batches: Vec<u64> = batches.collect();
    batches.sort_unstable();
    batches.dedup();
    Ticks {
        unit: "",
        at: batches
            .into_iter()
            .map(|b| (b as f64, grouped(i128::from(b))))
            .collect(),
    }
}

/// A label on the right.
struct Label<'a> {
    /// Where its line ends.
    from: (f64, f64),
    text: String,
    style: Option<(crate::style::Colour, Mark)>,
    size: f64,
    name: &'a str,
}

/// Names the lines and the cards at the right, each led to from where its line ends.
fn draw_labels(
    scene: &mut Scene,
    plot: &Plot,
    input: &Peaks<'_>,
    cards: &[&Capacity],
    x: impl Fn(u64) -> f64,
    y: impl Fn(Bytes) -> f64,
) {
    let series = input.series.iter().enumerate().filter_map(|(i, series)| {
        let &(batch, peak) = series.points.last()?;
        Some(Label {
            from: (x(batch), y(peak)),
            text: series.label.clone(),
            style: Some(line_style(i)),
            size: LABEL,
            name: &series.label,
        })
    });
    let cards = cards.iter().map(|card| Label {
        from: (plot.right, y(card.bytes)),
        text: card.label(),
        style: None,
        size: SMALL,
        name: &card.name,
    });
    let labels: Vec<Label<'_>> = series.chain(cards).collect();
    let wanted: Vec<f64> = labels.iter().map(|label| label.from.1).collect();
    let half = LEADING / 2.0;
    let places = spread(&wanted, LEADING, plot.top + half, plot.bottom - half);
    let left = plot.right + 26.0;
    for (label, middle) in labels.iter().zip(places) {
        let baseline = middle + HALF_CAPITAL * label.size;
        let end = (left - 4.0, middle);
        match label.style {
            Some((colour, mark)) => {
                let from = (label.from.0 + 7.0, label.from.1);
                scene.line(&[from, (plot.right.max(from.0), from.1), end], 0.5, colour);
                scene.marker((left + 5.0, middle), 4.0, mark, colour);
                let text = shorten(&label.text, label.size, true, LABEL_WIDTH - 16.0);
                scene.text(left + 15.0, baseline, label.size, &text).bold = true;
            }
            None => {
                scene.line(&[label.from, end], 0.5, AXIS);
                let mut text = label.text.clone();
                // The size matters more than the end of a long name.
                let size = &label.text[label.name.len()..];
                let room = LABEL_WIDTH - text_width(size, label.size, false);
                if text_width(&text, label.size, false) > LABEL_WIDTH {
                    text = shorten(label.name, label.size, false, room) + size;
                }
                scene.text(left, baseline, label.size, &text).colour = GREY;
            }
        }
    }
    // Leaders end under the labels, not over the lines.
    scene
        .shapes
        .sort_by_key(|shape| !matches!(shape, Shape::Line { width, .. } if *width < 1.0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg;
    use crate::tidy::{assert_tidy, assert_xml};
    use proptest::prelude::*;
    use vramcast::bytes::{GIB, MIB};

    fn series(label: &str, points: &[(u64, u64)]) -> Series {
        Series {
            label: label.to_owned(),
            points: points.iter().map(|&(x, b)| (x, Bytes(b))).collect(),
        }
    }

    fn card(name: &str, bytes: u64) -> Capacity {
        Capacity {
            name: name.to_owned(),
            bytes: Bytes(bytes),
        }
    }

    fn draw(series: &[Series], cards: &[Capacity]) -> Scene {
        peaks(&Peaks {
            title: "bert-base-uncased training",
            quantity: "peak requested memory",
            along: "batch (sequences)",
            series,
            cards,
        })
    }

    #[test]
    fn lines_and_cards_are_named() {
        let lines = [
            series("sequence 128", &[(1, 700 * MIB), (8, 2 * GIB)]),
            series("sequence 512", &[(1, GIB), (8, 8 * GIB)]),
        ];
        let cards = [card("Tesla T4", 15 * GIB), card("tiny", 1)];
        let scene = draw(&lines, &cards);
        assert_tidy(&scene);
        let text = svg(&scene);
        assert_xml(&text);
        for part in [
            "sequence 128",
            "sequence 512",
            "Tesla T4 15.00 GiB",
            "off the scale: tiny 1 B",
            "batch (sequences)",
            "1 GiB",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_peaks_are_drawn_tidily(
            lines in prop::collection::vec(
                (".{0,40}", prop::collection::vec((any::<u64>(), any::<u64>()), 0..20)),
                0..15,
            ),
            cards in prop::collection::vec((".{0,40}", any::<u64>()), 0..40),
            small in 0u32..64,
        ) {
            let lines: Vec<_> = lines
                .iter()
                .map(|(label, points)| {
                    let points: Vec<_> =
                        points.iter().map(|&(x, b)| (x >> small, b >> small)).collect();
                    series(label, &points)
                })
                .collect();
            let cards: Vec<_> = cards.iter().map(|(n, b)| card(n, b >> small)).collect();
            let scene = draw(&lines, &cards);
            assert_tidy(&scene);
            let text = svg(&scene);
            assert_xml(&text);
            prop_assert_eq!(&text, &svg(&draw(&lines, &cards)));
        }
    }
}
