//! The peak over batch and sequence, a cell each, with the frontier beyond which nothing fits.
//!
//! Two ramps meet at the capacity, so that what is too large shows without reading a number. The
//! frontier is searched by itself and drawn where it lies, not where the colours meet: an allocator
//! that runs short gives its cache back, so somewhat more fits than what it would take with room.

use crate::scene::{Align, Scene, text_width};
use crate::style::{
    AXIS, BAND, Capacity, Colour, GREY, HALF_CAPITAL, INK, LABEL, MARGIN, Plot, SMALL, Ticks,
    WHITE, WIDTH, byte_ticks, count_ticks, head,
};
use vramcast::bytes::{Bytes, grouped};

/// What the chart shows.
#[derive(Clone, Copy, Debug)]
pub struct HeatMap<'a> {
    /// The model and what runs, in one line.
    pub title: &'a str,
    /// Which of the five peaks the sizes are: `peak memory that NVML shows`.
    pub quantity: &'a str,
    /// What it must fit into.
    pub capacity: &'a Capacity,
    /// The batches of the rows, ascending.
    pub batches: &'a [u64],
    /// The sequences of the columns, ascending.
    pub seqs: &'a [u64],
    /// The peaks, by batch and then by sequence; `None` where there is none.
    pub peaks: &'a [Vec<Option<Bytes>>],
    /// The frontier: the largest batch that fits, by sequence; 0 for none.
    pub largest: &'a [u64],
}

/// What fits: from nothing to the capacity.
const BELOW: [Colour; 2] = [Colour(0xE8, 0xF2, 0xF9), Colour(0x00, 0x5A, 0x8F)];
/// What does not: from the capacity up.
const ABOVE: [Colour; 2] = [Colour(0xFD, 0xE7, 0xD2), Colour(0xB8, 0x4A, 0x00)];

/// Size of the plot and of the bar that explains its colours, in pixels.
const PLOT_HEIGHT: f64 = 448.0;
const BAR_WIDTH: f64 = 14.0;
const BAR_STEPS: usize = 56;

/// Draws peaks over batch and sequence.
pub fn heatmap(input: &HeatMap<'_>) -> Scene {
    let peaks = input.peaks.iter().flatten().flatten();
    let highest = peaks.map(|bytes| bytes.0).max().unwrap_or(0);
    let scale = Scale {
        capacity: input.capacity.bytes.0.max(1) as f64,
        highest: highest.max(input.capacity.bytes.0).max(1) as f64,
    };
    let captions = [
        format!(
            "{}; blue fits into {}, orange does not",
            input.quantity,
            input.capacity.label()
        ),
        "line and numbers: the largest batch that runs".to_owned(),
    ];
    let mut scene = Scene::new(input.title, WIDTH);
    let end = head(&mut scene, input.title, &captions);
    let most_batch = input.batches.last().copied().unwrap_or(1).max(1) as f64;
    let most_seq = input.seqs.last().copied().unwrap_or(1).max(1) as f64;
    let rows = count_ticks(most_batch, 8.0);
    let bar_ticks = byte_ticks(scale.highest, 8.0);
    let bar_text = text_width(&input.capacity.bytes.to_string(), SMALL, true);
    let plot = Plot {
        left: (MARGIN + rows.width() + 10.0).ceil(),
        top: (end + 40.0).ceil(),
        right: (WIDTH - MARGIN - bar_ticks.width().max(bar_text) - BAR_WIDTH - 34.0).floor(),
        bottom: (end + 40.0).ceil() + PLOT_HEIGHT,
    };
    scene.height = plot.bottom + 48.0;
    let x = |seq: u64| plot.x(seq as f64 / most_seq);
    let y = |batch: u64| plot.y(batch as f64 / most_batch);

    plot.vertical_axis(&mut scene, &rows, |v| v / most_batch);
    plot.horizontal_axis(&mut scene, &ticks(input.seqs), |v| v / most_seq);
    cells(&mut scene, input, &scale, x, y);
    limits(&mut scene, &plot, input, x, y);
    plot.frame(&mut scene);
    plot.vertical_title(&mut scene, 12.0, "batch (sequences)");
    plot.horizontal_title(&mut scene, "sequence (tokens)");
    bar(&mut scene, &plot, &scale, &bar_ticks, input.capacity);
    scene
}

/// Colours of sizes.
struct Scale {
    capacity: f64,
    highest: f64,
}

impl Scale {
    fn colour(&self, bytes: f64) -> Colour {
        if bytes <= self.capacity {
            mix(BELOW, bytes / self.capacity)
        } else {
            let beyond = (self.highest - self.capacity).max(1.0);
            mix(ABOVE, (bytes - self.capacity) / beyond)
        }
    }
}

fn mix([from, to]: [Colour; 2], share: f64) -> Colour {
    let share = share.clamp(0.0, 1.0);
    let channel = |from: u8, to: u8| {
        (f64::from(from) + share * (f64::from(to) - f64::from(from))).round() as u8
    };
    Colour(
        channel(from.0, to.0),
        channel(from.1, to.1),
        channel(from.2, to.2),
    )
}

/// A rectangle for each run of equal colours in a row. A cell reaches from the value before its own
/// to its own; edges are whole pixels, so that no seam shows between them.
fn cells(
    scene: &mut Scene,
    input: &HeatMap<'_>,
    scale: &Scale,
    x: impl Fn(u64) -> f64,
    y: impl Fn(u64) -> f64,
) {
    let mut below = 0;
    for (&batch, row) in input.batches.iter().zip(input.peaks) {
        let (top, bottom) = (y(batch).round(), y(below).round());
        below = batch;
        let mut run: Option<([f64; 4], Colour)> = None;
        let mut before = 0;
        for (&seq, peak) in input.seqs.iter().zip(row) {
            let (left, right) = (x(before).round(), x(seq).round());
            before = seq;
            let colour = peak.map_or(BAND, |bytes| scale.colour(bytes.0 as f64));
            match &mut run {
                Some((bounds, same)) if *same == colour => bounds[2] = right,
                _ => {
                    if let Some((bounds, colour)) = run {
                        scene.rect(bounds, colour);
                    }
                    run = Some(([left, top, right, bottom], colour));
                }
            }
        }
        if let Some((bounds, colour)) = run {
            scene.rect(bounds, colour);
        }
    }
}

/// Some of the columns, the last among them.
fn ticks(seqs: &[u64]) -> Ticks {
    let stride = seqs.len().div_ceil(8).max(1);
    let mut some: Vec<u64> = seqs.iter().rev().step_by(stride).copied().collect();
    some.reverse();
    Ticks {
        unit: "",
        at: some
            .into_iter()
            .map(|seq| (seq as f64, grouped(i128::from(seq))))
            .collect(),
    }
}

/// The frontier as a staircase, with its batch at some of its steps.
fn limits(
    scene: &mut Scene,
    plot: &Plot,
    input: &HeatMap<'_>,
    x: impl Fn(u64) -> f64,
    y: impl Fn(u64) -> f64,
) {
    let limits: Vec<(u64, u64)> = input
        .seqs
        .iter()
        .copied()
        .zip(input.largest.iter().copied())
        .collect();
    let mut stairs: Vec<(f64, f64)> = Vec::new();
    let mut left = plot.left;
    for &(seq, batch) in &limits {
        let (right, height) = (x(seq), y(batch).max(plot.top));
        stairs.extend([(left, height), (right, height)]);
        left = right;
    }
    // What lies above the plot is not drawn along its edge.
    let above = stairs.iter().take_while(|at| at.1 <= plot.top).count();
    let stairs = stairs.split_off(above.saturating_sub(1));
    if stairs.len() > 1 {
        scene.line(&stairs, 4.5, WHITE);
        scene.line(&stairs, 2.0, INK);
    }
    let mut free_to = f64::INFINITY;
    for &(seq, batch) in limits.iter().rev() {
        let text = grouped(i128::from(batch));
        let half = text_width(&text, LABEL, true) / 2.0 + 3.0;
        let middle = x(seq).min(plot.right - half);
        // Above every step that it spans.
        let spanned = limits.iter().filter(|limit| x(limit.0) > middle - half);
        let highest = spanned.map(|limit| limit.1).max().unwrap_or(batch);
        let height = y(highest.max(batch));
        if middle + half > free_to || middle - half < plot.left || height < plot.top + 2.0 * LABEL {
            continue;
        }
        free_to = middle - half - 40.0;
        let baseline = height - 6.0;
        let top = baseline - LABEL;
        scene.rect([middle - half, top, middle + half, baseline + 3.0], WHITE);
        let label = scene.text(middle, baseline, LABEL, &text);
        label.align = Align::Centre;
        label.bold = true;
    }
}

/// What the colours mean, and where the capacity lies among them.
fn bar(scene: &mut Scene, plot: &Plot, scale: &Scale, ticks: &Ticks, capacity: &Capacity) {
    let left = plot.right + 26.0;
    let right = left + BAR_WIDTH;
    for step in 0..BAR_STEPS {
        let share = |step: usize| step as f64 / BAR_STEPS as f64;
        let bytes = (share(step) + share(step + 1)) / 2.0 * scale.highest;
        let (top, bottom) = (plot.y(share(step + 1)), plot.y(share(step)));
        scene.rect(
            [left, top.round(), right, bottom.round()],
            scale.colour(bytes),
        );
    }
    let at = plot.y(scale.capacity / scale.highest);
    scene.line(&[(left - 5.0, at), (right + 5.0, at)], 2.0, INK);
    let beside = right + 8.0;
    for (value, label) in &ticks.at {
        let y = plot.y(value / scale.highest);
        // The capacity's own label stands there.
        if (y - at).abs() < 1.3 * SMALL {
            continue;
        }
        scene.line(&[(right, y), (right + 4.0, y)], 1.0, AXIS);
        let text = scene.text(beside, y + HALF_CAPITAL * SMALL, SMALL, label);
        text.colour = GREY;
    }
    let text = scene.text(
        beside,
        at + HALF_CAPITAL * SMALL,
        SMALL,
        &capacity.bytes.to_string(),
    );
    text.bold = true;
    let unit = scene.text(left, plot.top - 12.0, SMALL, ticks.unit);
    unit.colour = GREY;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg;
    use crate::tidy::{assert_tidy, assert_xml};
    use proptest::prelude::*;
    use vramcast::bytes::{GIB, MIB};

    fn draw(batches: &[u64], seqs: &[u64], peaks: &[Vec<Option<Bytes>>], largest: &[u64]) -> Scene {
        heatmap(&HeatMap {
            title: "bert-base-uncased training",
            quantity: "peak memory that NVML shows",
            capacity: &Capacity {
                name: "t4".to_owned(),
                bytes: Bytes(15 * GIB),
            },
            batches,
            seqs,
            peaks,
            largest,
        })
    }

    /// A peak that grows with both.
    fn grow(batches: &[u64], seqs: &[u64]) -> Vec<Vec<Option<Bytes>>> {
        let row = |b: &u64| seqs.iter().map(|s| Some(Bytes(b * s * 10 * MIB))).collect();
        batches.iter().map(row).collect()
    }

    #[test]
    fn the_frontier_is_named_and_the_capacity_stands_at_the_bar() {
        let (batches, seqs) = ([2, 4, 6, 8], [128, 256, 384, 512]);
        let scene = draw(&batches, &seqs, &grow(&batches, &seqs), &[9, 6, 4, 3]);
        assert_tidy(&scene);
        assert_xml(&svg(&scene));
        for part in ["6", "4", "3", "15.00 GiB", "sequence (tokens)"] {
            assert!(scene.texts().any(|text| text.text == part), "{part}");
        }
    }

    #[test]
    fn what_fits_and_what_does_not_have_ramps_of_their_own() {
        let scale = Scale {
            capacity: 10.0,
            highest: 30.0,
        };
        assert_eq!(scale.colour(0.0), BELOW[0]);
        assert_eq!(scale.colour(10.0), BELOW[1]);
        assert_eq!(scale.colour(10.1), mix(ABOVE, 0.005));
        assert_eq!(scale.colour(30.0), ABOVE[1]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn any_grid_is_drawn_tidily(
            batches in prop::collection::btree_set(1u64..100_000, 0..12),
            seqs in prop::collection::btree_set(1u64..10_000, 0..12),
            largest in prop::collection::vec(any::<u32>(), 12),
            missing in any::<u64>(),
        ) {
            let batches: Vec<u64> = batches.into_iter().collect();
            let seqs: Vec<u64> = seqs.into_iter().collect();
            let mut peaks = grow(&batches, &seqs);
            for (i, peak) in peaks.iter_mut().flatten().enumerate() {
                if missing >> (i % 64) & 1 == 1 {
                    *peak = None;
                }
            }
            let largest: Vec<u64> = seqs.iter().zip(largest).map(|(_, batch)| u64::from(batch)).collect();
            let scene = draw(&batches, &seqs, &peaks, &largest);
            assert_tidy(&scene);
            let text = svg(&scene);
            assert_xml(&text);
        }
    }
}
