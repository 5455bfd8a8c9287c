//! How long texts are in tokens: a histogram with its quantiles, and what every `max_length` cuts.
//!
//! Constraint: no two labels lie on one another, however close the quantiles are.

use crate::scene::{Align, Scene, text_width};
use crate::style::{
    AXIS, BLUE, LABEL, LogRange, MARGIN, Plot, SKY, SMALL, Ticks, VERMILION, WIDTH, count_ticks,
    head, spread,
};
use vramcast::bytes::grouped;

/// What the chart shows.
#[derive(Clone, Copy, Debug)]
pub struct Lengths<'a> {
    /// The texts and the tokenizer, in one line.
    pub title: &'a str,
    /// What is counted: `documents`.
    pub texts: &'a str,
    /// Lengths in tokens and how many texts have each, the shortest first.
    pub counts: &'a [(u64, u64)],
    /// Quantiles to mark, by name and length, the lowest first.
    pub quantiles: &'a [(&'a str, u64)],
    /// Lengths to cut at, in tokens, the lowest first.
    pub max_lengths: &'a [u64],
}

/// Bars per doubling of the length.
const BARS: f64 = 4.0;

/// Height of the plot, in pixels.
const HEIGHT: f64 = 320.0;

/// Draws the histogram.
pub fn lengths(input: &Lengths<'_>) -> Scene {
    let bars = bars(input.counts);
    let ends = bars.iter().flat_map(|bar| [bar.from, bar.to]);
    let limits = input.max_lengths.iter().map(|&limit| limit as f64);
    let longest = bars.last().map_or(1.0, |bar| bar.to);
    // A limit far beyond says nothing.
    let limits = limits.filter(|&limit| limit <= 2.0 * longest);
    let range = LogRange::around(ends.chain(limits), 0.02);
    let most = bars.iter().map(|bar| bar.texts).fold(1.0, f64::max);
    let vertical = count_ticks(most, 6.0);

    let mut scene = Scene::new(input.title, WIDTH);
    let caption = format!("logarithmic lengths: {BARS} bars for every doubling");
    let end = head(&mut scene, input.title, &[caption]);
    let plot = Plot {
        left: MARGIN + vertical.width() + 8.0,
        top: end + 64.0,
        right: WIDTH - MARGIN - 16.0,
        bottom: end + 64.0 + HEIGHT,
    };
    scene.height = plot.bottom + 66.0;
    plot.vertical_axis(&mut scene, &vertical, |v| v / most);
    plot.horizontal_axis(&mut scene, &length_ticks(longest), |v| range.position(v));
    for bar in &bars {
        let (left, right) = (range.position(bar.from), range.position(bar.to));
        let top = plot.y(bar.texts / most).min(plot.bottom - 1.0);
        let bounds = [plot.x(left) + 0.5, top, plot.x(right) - 0.5, plot.bottom];
        scene.rect(bounds, SKY);
    }
    plot.frame(&mut scene);
    plot.vertical_title(&mut scene, 48.0, &format!("{} in a bar", input.texts));
    let middle = (plot.left + plot.right) / 2.0;
    let title = scene.text(middle, plot.bottom + 4.8 * SMALL, SMALL, "tokens");
    title.align = Align::Centre;
    draw_limits(&mut scene, &plot, input, &range);
    draw_quantiles(&mut scene, &plot, input, &range);
    scene
}

/// Texts of a range of lengths.
struct Bar {
    /// The shortest.
    from: f64,
    /// The first that is too long.
    to: f64,
    texts: f64,
}

/// Bars of like width on a logarithmic axis, none narrower than one token.
fn bars(counts: &[(u64, u64)]) -> Vec<Bar> {
    let mut bars: Vec<Bar> = Vec::new();
    for &(length, texts) in counts {
        let length = (length as f64).max(1.0);
        match bars.last_mut() {
            Some(bar) if length < bar.to => bar.texts += texts as f64,
            _ => {
                let step = (length.log2() * BARS + 1e-9).floor();
                let edge = |step: f64| (step / BARS).exp2().ceil();
                // Short of a doubling the edges of several bars are the same token.
                let to = (1..)
                    .map(|more| edge(step + f64::from(more)))
                    .find(|&to| to > length)
                    .unwrap_or(f64::INFINITY);
                bars.push(Bar {
                    from: edge(step).min(length),
                    to,
                    texts: texts as f64,
                });
            }
        }
    }
    bars
}

/// Powers of two.
fn length_ticks(longest: f64) -> Ticks {
    let at = (0..64).map(|power| 2f64.powi(power));
    let at = at.take_while(|&length| length <= 2.0 * longest);
    Ticks {
        unit: "",
        at: at.map(|v| (v, grouped(v as i128))).collect(),
    }
}

/// A line at every `max_length`, and below it the share of the texts that it cuts.
fn draw_limits(scene: &mut Scene, plot: &Plot, input: &Lengths<'_>, range: &LogRange) {
    let sum = |counts: &[(u64, u64)]| counts.iter().map(|&(_, n)| n as f64).sum::<f64>();
    let all = sum(input.counts);
    let baseline = plot.bottom + 2.9 * SMALL;
    let title = "longer:";
    let begin = MARGIN + text_width(title, SMALL, false);
    let mut before = begin;
    for &limit in input.max_lengths {
        let longer = input.counts.partition_point(|&(length, _)| length <= limit);
        let mut text = share(sum(&input.counts[longer..]), all);
        if !limit.is_power_of_two() {
            // There is no tick that says where it is.
            text = format!("{}: {text}", grouped(i128::from(limit)));
        }
        let half = text_width(&text, SMALL, false) / 2.0;
        let x = plot.x(range.position(limit as f64));
        if x - half < before + 6.0 || x > plot.right + 0.5 || x + half > WIDTH - 2.0 {
            continue;
        }
        before = x + half;
        scene.dashed((x, plot.top), (x, plot.bottom), 1.0, VERMILION);
        let text = scene.text(x, baseline, SMALL, &text);
        text.align = Align::Centre;
        text.colour = VERMILION;
    }
    if before > begin {
        scene.text(MARGIN, baseline, SMALL, title).colour = VERMILION;
    }
}

/// A share in percent, with two digits where it is small.
fn share(part: f64, all: f64) -> String {
    let percent = if all > 0.0 { 100.0 * part / all } else { 0.0 };
    match percent {
        0.0 => "none".to_owned(),
        ..0.095 => "< 0.1 %".to_owned(),
        ..9.95 => format!("{percent:.1} %"),
        _ => format!("{percent:.0} %"),
    }
}

/// A line at every quantile, named above; those of one length have one name.
fn draw_quantiles(scene: &mut Scene, plot: &Plot, input: &Lengths<'_>, range: &LogRange) {
    let mut marks: Vec<(String, u64)> = Vec::new();
    for &(name, length) in input.quantiles {
        match marks.last_mut() {
            Some((names, at)) if *at == length => *names += &format!(", {name}"),
            _ => marks.push((name.to_owned(), length)),
        }
    }
    for (names, length) in &mut marks {
        *names += &format!(": {}", grouped(i128::from(*length)));
    }
    let width = |(text, _): &(String, u64)| text_width(text, LABEL, true);
    let widest = marks.iter().map(width).fold(0.0, f64::max);
    let at = |length: u64| plot.x(range.position(length as f64));
    let wanted: Vec<f64> = marks.iter().map(|&(_, length)| at(length)).collect();
    let (low, high) = (MARGIN + widest / 2.0, WIDTH - MARGIN - widest / 2.0);
    let places = spread(&wanted, widest + 12.0, low, high);
    let baseline = plot.top - 26.0;
    for ((name, _), (x, place)) in marks.iter().zip(wanted.into_iter().zip(places)) {
        let (under, above) = (baseline + 4.0, plot.top - 6.0);
        scene.line(&[(place, under), (x, above)], 1.0, AXIS);
        scene.line(&[(x, above), (x, plot.bottom)], 1.5, BLUE);
        let text = scene.text(place, baseline, LABEL, name);
        text.align = Align::Centre;
        text.bold = true;
        text.colour = BLUE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg;
    use crate::tidy::{assert_tidy, assert_xml};
    use proptest::prelude::*;

    fn draw(counts: &[(u64, u64)], quantiles: &[(&str, u64)], max_lengths: &[u64]) -> Scene {
        lengths(&Lengths {
            title: "reviews.csv, tokenizer.json",
            texts: "documents",
            counts,
            quantiles,
            max_lengths,
        })
    }

    #[test]
    fn quantiles_are_named_and_every_limit_says_what_it_cuts() {
        let counts = [(60, 10), (64, 30), (100, 59), (700, 1)];
        let quantiles = [("p50", 100), ("p95", 100), ("max", 700)];
        let scene = draw(&counts, &quantiles, &[64, 128, 1024]);
        assert_tidy(&scene);
        let text = svg(&scene);
        assert_xml(&text);
        for part in [
            "p50, p95: 100",
            "max: 700",
            "60 %",
            "1.0 %",
            "none",
            "documents in a bar",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }

    #[test]
    fn bars_are_of_like_width_and_hold_every_text_once() {
        let check = |counts: &[(u64, u64)], expected: &[(f64, f64, f64)]| {
            let bars = bars(counts);
            let bars: Vec<_> = bars.iter().map(|b| (b.from, b.to, b.texts)).collect();
            assert_eq!(bars, expected, "{counts:?}");
        };
        check(
            &[(0, 1), (1, 2), (2, 3)],
            &[(1.0, 2.0, 3.0), (2.0, 3.0, 3.0)],
        );
        check(
            &[(64, 1), (76, 1), (77, 1), (128, 1)],
            &[(64.0, 77.0, 2.0), (77.0, 91.0, 1.0), (128.0, 153.0, 1.0)],
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_lengths_are_drawn_tidily(
            counts in prop::collection::btree_map(any::<u64>(), any::<u64>(), 0..60),
            quantiles in prop::collection::vec(any::<u64>(), 0..4),
            max_lengths in prop::collection::btree_set(any::<u64>(), 0..9),
            small in 0u32..64,
        ) {
            let mut counts: Vec<_> = counts.into_iter().map(|(l, n)| (l >> small, n >> small)).collect();
            counts.dedup_by_key(|count| count.0);
            let mut quantiles: Vec<_> = quantiles.into_iter().map(|l| l >> small).collect();
            quantiles.sort_unstable();
            // A quantile is a length that occurs.
            let names = ["p50", "p95", "p99", "max"];
            let occurs = |length| counts.iter().map(|c| c.0).find(|&l| l >= length);
            let quantiles: Vec<_> = quantiles.iter().filter_map(|&l| occurs(l)).collect();
            let quantiles: Vec<_> = names.into_iter().zip(quantiles).collect();
            let max_lengths: Vec<_> = max_lengths.into_iter().map(|l| l >> small).collect();
            let scene = draw(&counts, &quantiles, &max_lengths);
            assert_tidy(&scene);
            assert_xml(&svg(&scene));
        }
    }
}
