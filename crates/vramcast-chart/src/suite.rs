//! Predicted against measured for a whole suite: a scatter with the diagonal, and below it every
//! run's relative error, sorted, with the worst named.
//!
//! Constraint: an error too small for the scatter is still visible in the panel, whose axis is the
//! worst error's.

use crate::scene::{Align, Scene, text_width};
use crate::style::{
    AXIS, GREY, HALF_CAPITAL, LABEL, LEADING, LogRange, MARGIN, Plot, SMALL, WIDTH, head,
    mode_style, percent_text, percent_ticks, relative_percent, shorten, wrap,
};
use std::cmp::Ordering;
use vramcast::bytes::Bytes;
use vramcast::workload::Mode;

/// One run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuitePoint {
    /// What ran.
    pub label: String,
    /// Whether it trained.
    pub group: Mode,
    /// Predicted bytes.
    pub predicted: Bytes,
    /// Measured bytes.
    pub measured: Bytes,
}

/// What the chart shows.
#[derive(Clone, Copy, Debug)]
pub struct Suite<'a> {
    /// The suite, in one line.
    pub title: &'a str,
    /// Which of the five peaks the sizes are: `peak requested memory`.
    pub quantity: &'a str,
    /// The runs, in any order.
    pub points: &'a [SuitePoint],
}

/// A run with its relative error in percent.
type Run<'a> = (&'a SuitePoint, f64);

/// Draws predicted against measured.
pub fn suite(input: &Suite<'_>) -> Scene {
    let mut runs: Vec<Run<'_>> = input
        .points
        .iter()
        .filter_map(|p| relative_percent(p.predicted, p.measured).map(|error| (p, error)))
        .collect();
    runs.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.label.cmp(&b.0.label)));
    let worst = runs.iter().copied().reduce(|worst, run| {
        match run.1.abs().total_cmp(&worst.1.abs()) {
            Ordering::Greater => run,
            // Of equal ones the outermost, which has the room for its name.
            Ordering::Equal if run.1 > 0.0 => run,
            _ => worst,
        }
    });

    let mut scene = Scene::new(input.title, WIDTH);
    let end = head(&mut scene, input.title, &[caption(&runs)]);
    let scatter = draw_scatter(&mut scene, input, end + 36.0);
    draw_summary(&mut scene, input, &runs, worst, &scatter);
    let panel_top = scatter.bottom + 92.0;
    draw_errors(&mut scene, &runs, worst, panel_top, input.quantity);
    scene
}

fn caption(runs: &[Run<'_>]) -> String {
    let exact = runs.iter().filter(|run| run.1 == 0.0).count();
    match runs.len() {
        0 => "no measured runs".to_owned(),
        n if exact == n => format!("predicted equals measured to the byte in all {n} runs"),
        n => format!("predicted equals measured to the byte in {exact} of {n} runs"),
    }
}

fn draw_scatter(scene: &mut Scene, input: &Suite<'_>, top: f64) -> Plot {
    let sizes = input.points.iter().flat_map(|p| [p.predicted, p.measured]);
    let range = LogRange::around(sizes.map(|b| b.0 as f64), 0.06);
    let ticks = range.byte_ticks(6.0);
    let left = MARGIN + ticks.width() + 8.0;
    let side = 350.0;
    let plot = Plot {
        left,
        top,
        right: left + side,
        bottom: top + side,
    };
    plot.vertical_axis(scene, &ticks, |v| range.position(v));
    plot.horizontal_axis(scene, &ticks, |v| range.position(v));
    plot.vertical_title(scene, 12.0, &format!("predicted {}", input.quantity));
    plot.horizontal_title(scene, &format!("measured {}", input.quantity));
    scene.line(
        &[(plot.left, plot.bottom), (plot.right, plot.top)],
        1.0,
        AXIS,
    );
    plot.frame(scene);
    for point in input.points {
        let (colour, mark, _) = mode_style(point.group);
        let at = (
            plot.x(range.position(point.measured.0 as f64)),
            plot.y(range.position(point.predicted.0 as f64)),
        );
        scene.marker(at, 4.5, mark, colour);
    }
    plot
}

/// The legend and the figures, to the right of the scatter.
fn draw_summary(
    scene: &mut Scene,
    input: &Suite<'_>,
    runs: &[Run<'_>],
    worst: Option<Run<'_>>,
    scatter: &Plot,
) {
    let left = scatter.right + 44.0;
    let width = WIDTH - MARGIN - left;
    let mut y = scatter.top + LABEL;
    for mode in [Mode::Train, Mode::Infer] {
        let (colour, mark, name) = mode_style(mode);
        let count = input.points.iter().filter(|p| p.group == mode).count();
        if count == 0 {
            continue;
        }
        scene.marker((left + 6.0, y - HALF_CAPITAL * LABEL), 4.5, mark, colour);
        let plural = if count == 1 { "run" } else { "runs" };
        scene.text(left + 19.0, y, LABEL, &format!("{name}, {count} {plural}"));
        y += 1.25 * LEADING;
    }
    let middle = y - HALF_CAPITAL * LABEL;
    scene.line(&[(left, middle), (left + 12.0, middle)], 1.0, AXIS);
    scene.text(left + 19.0, y, LABEL, "predicted equals measured");
    y += 2.2 * LEADING;

    let mut figures: Vec<(&str, String)> = Vec::new();
    let mut sizes: Vec<f64> = runs.iter().map(|run| run.1.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    if let Some(&median) = sizes.get(sizes.len() / 2) {
        let exact = runs.iter().filter(|run| run.1 == 0.0).count();
        let under = runs.iter().filter(|run| run.1 < 0.0).count();
        let unsigned = |p: f64| percent_text(p).trim_start_matches('+').to_owned();
        figures.push(("equal to the byte", format!("{exact} of {}", runs.len())));
        figures.push(("predicted too little", format!("{under} of {}", runs.len())));
        figures.push(("median error, either way", unsigned(median)));
    }
    let unknown = input.points.len() - runs.len();
    if unknown > 0 {
        figures.push(("measured as 0 B, no error", unknown.to_string()));
    }
    if let Some((_, error)) = worst {
        figures.push(("worst error", percent_text(error)));
    }
    for (name, value) in figures {
        let value_width = text_width(&value, LABEL, true);
        let name = shorten(name, LABEL, false, width - value_width - 10.0);
        scene.text(left, y, LABEL, &name).colour = GREY;
        let text = scene.text(WIDTH - MARGIN, y, LABEL, &value);
        text.align = Align::Right;
        text.bold = true;
        y += 1.25 * LEADING;
    }
    if let Some((point, error)) = worst
        && error != 0.0
    {
        let detail = format!(
            "{}: {} predicted, {} measured",
            point.label, point.predicted, point.measured
        );
        for line in wrap(&detail, SMALL, false, width, 4) {
            scene.text(left, y, SMALL, &line).colour = GREY;
            y += 15.0;
        }
    }
}

/// Every run's relative error, from the most negative to the most positive.
fn draw_errors(
    scene: &mut Scene,
    runs: &[Run<'_>],
    worst: Option<Run<'_>>,
    top: f64,
    quantity: &str,
) {
    let (low, high) = runs
        .iter()
        .fold((0.0f64, 0.0f64), |(l, h), run| (l.min(run.1), h.max(run.1)));
    // Room above or below for the name of the worst; an axis even if every error is 0.
    let span = if high > low { high - low } else { 2.0 };
    let (low, high) = if high > low {
        (low - 0.22 * span, high + 0.22 * span)
    } else {
        (-1.0, 1.0)
    };
    let ticks = percent_ticks(low, high, 6.0);
    let plot = Plot {
        left: MARGIN + ticks.width() + 8.0,
        top,
        right: WIDTH - MARGIN,
        bottom: top + 190.0,
    };
    scene.height = plot.bottom + 30.0;
    let position = |error: f64| (error - low) / (high - low);
    plot.vertical_axis(scene, &ticks, position);
    plot.vertical_title(
        scene,
        12.0,
        &format!("relative error of {quantity}: predicted less measured, in % of measured"),
    );
    let zero = plot.y(position(0.0));
    let slot = (plot.right - plot.left) / runs.len().max(1) as f64;
    let slot = slot.min(40.0);
    // A few runs stand in the middle rather than at the left.
    let first = (plot.left + plot.right - slot * runs.len() as f64) / 2.0;
    let width = (slot * 0.6).clamp(0.5, 6.0);
    for (i, (point, error)) in runs.iter().enumerate() {
        let (colour, _, _) = mode_style(point.group);
        let x = first + (i as f64 + 0.5) * slot;
        let y = plot.y(position(*error));
        // An error of 0 is a run too.
        let (upper, lower) = (y.min(zero - 0.75), y.max(zero + 0.75));
        let bounds = [x - width / 2.0, upper, x + width / 2.0, lower];
        scene.rect(bounds, colour);
    }
    scene.line(&[(plot.left, zero), (plot.right, zero)], 1.0, AXIS);
    // Markers that would touch say nothing more than the bars.
    let marked = if slot >= 5.0 { runs } else { &[] };
    for (i, (point, error)) in marked.iter().enumerate() {
        let (colour, mark, _) = mode_style(point.group);
        let x = first + (i as f64 + 0.5) * slot;
        let radius = (slot * 0.35).clamp(1.5, 4.0);
        scene.marker((x, plot.y(position(*error))), radius, mark, colour);
    }
    scene.line(
        &[(plot.left, plot.top), (plot.left, plot.bottom)],
        1.0,
        AXIS,
    );
    let note = scene.text(
        (plot.left + plot.right) / 2.0,
        plot.bottom + 1.5 * SMALL,
        SMALL,
        "runs, by error",
    );
    note.align = Align::Centre;
    if let Some((point, error)) = worst
        && error != 0.0
    {
        // The worst is the first or the last, and the highest: nothing is beyond it.
        let i = if error < 0.0 { 0 } else { runs.len() - 1 };
        let x = first + (i as f64 + 0.5) * slot;
        let y = plot.y(position(error));
        let value = percent_text(error);
        let room = plot.right - plot.left - 30.0 - text_width(&value, SMALL, true);
        let name = shorten(&point.label, SMALL, true, room);
        let text = format!("{name} {value}");
        let half = text_width(&text, SMALL, true) / 2.0;
        let x = x.clamp(plot.left + half + 6.0, plot.right - half);
        let baseline = if error < 0.0 {
            y + 9.0 + SMALL
        } else {
            y - 9.0
        };
        let text = scene.text(x, baseline, SMALL, &text);
        text.align = Align::Centre;
        text.bold = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg;
    use crate::tidy::{assert_tidy, assert_xml};
    use proptest::prelude::*;
    use vramcast::bytes::GIB;

    fn point(label: &str, train: bool, predicted: u64, measured: u64) -> SuitePoint {
        SuitePoint {
            label: label.to_owned(),
            group: if train { Mode::Train } else { Mode::Infer },
            predicted: Bytes(predicted),
            measured: Bytes(measured),
        }
    }

    fn draw(points: &[SuitePoint]) -> Scene {
        suite(&Suite {
            title: "candle 0.11.1 on the CPU",
            quantity: "peak requested memory",
            points,
        })
    }

    #[test]
    fn the_worst_run_is_named() {
        let points = [
            point("bert-base training", true, 4 * GIB, 4 * GIB),
            point("bert-tiny inference", false, 98 << 20, 100 << 20),
            point("bert-large training", true, 9 * GIB + GIB / 100, 9 * GIB),
        ];
        let scene = draw(&points);
        assert_tidy(&scene);
        let text = svg(&scene);
        assert_xml(&text);
        for part in [
            "candle 0.11.1 on the CPU",
            "bert-tiny inference -2 %",
            "training, 2 runs",
            "inference, 1 run",
            "to the byte in 1 of 3 runs",
            "predicted peak requested memory",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }

    #[test]
    fn a_suite_without_an_error_says_so() {
        let text = svg(&draw(&[point("a", true, GIB, GIB), point("b", true, 9, 9)]));
        assert!(text.contains("to the byte in all 2 runs"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_suite_is_drawn_tidily(
            points in prop::collection::vec(
                (".{0,60}", any::<bool>(), any::<u64>(), any::<u64>(), 0u32..64),
                0..120,
            ),
            equal in any::<bool>(),
        ) {
            let points: Vec<_> = points
                .iter()
                .map(|(label, train, p, m, small)| {
                    let m = if equal { p >> small } else { m >> small };
                    point(label, *train, p >> small, m)
                })
                .collect();
            let scene = draw(&points);
            assert_tidy(&scene);
            let text = svg(&scene);
            assert_xml(&text);
            prop_assert_eq!(&text, &svg(&draw(&points)));
        }
    }
}
