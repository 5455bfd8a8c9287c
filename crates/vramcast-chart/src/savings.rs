//! What levers save, predicted and measured, beside the range that is claimed.
//!
//! Constraint: a claimed range lies behind the rows that it is claimed of, and behind no others.

use crate::scene::{Align, Mark, Scene, text_width};
use crate::style::{
    BLUE, Colour, GREY, GRID, HALF_CAPITAL, LABEL, MARGIN, ORANGE, Plot, SMALL, WIDTH, head,
    percent_ticks, shorten,
};

/// One case. Shares of what there was: 0.25 is a quarter less.
#[derive(Clone, Debug, PartialEq)]
pub struct Saving {
    /// What ran.
    pub label: String,
    /// As predicted, where it is.
    pub predicted: Option<f64>,
    /// As measured, where somebody measured.
    pub measured: Option<f64>,
}

/// Cases of one way to save.
#[derive(Clone, Debug, PartialEq)]
pub struct Lever {
    /// What is done, and where.
    pub label: String,
    /// The range that is claimed, as shares.
    pub claimed: [f64; 2],
    /// Its cases, from top to bottom.
    pub savings: Vec<Saving>,
}

/// What the chart shows.
#[derive(Clone, Copy, Debug)]
pub struct Savings<'a> {
    /// In one line.
    pub title: &'a str,
    /// What is saved.
    pub quantity: &'a str,
    /// The levers, from top to bottom.
    pub levers: &'a [Lever],
}

/// Heights of a row and of a heading, in pixels.
const ROW: f64 = 20.0;
const HEADING: f64 = 30.0;

/// The most room for a label, in pixels.
const LABEL_WIDTH: f64 = 440.0;

/// Behind what is claimed.
const CLAIMED: Colour = Colour(0xCF, 0xE8, 0xDC);

/// Draws savings beside claims.
pub fn savings(input: &Savings<'_>) -> Scene {
    let mut scene = Scene::new(input.title, WIDTH);
    let end = head(&mut scene, input.title, &[caption(input.levers)]);
    let rows = || input.levers.iter().flat_map(|lever| &lever.savings);
    let values = || {
        let claimed = input.levers.iter().flat_map(|lever| lever.claimed);
        rows()
            .flat_map(|row| [row.predicted, row.measured])
            .flatten()
            .chain(claimed)
            .filter(|value| value.is_finite())
            .map(|value| 100.0 * value)
    };
    // A marker at the end needs room.
    let (low, high) = (
        values().fold(0.0, f64::min),
        1.03 * values().fold(1.0, f64::max),
    );
    let ticks = percent_ticks(low, high, 6.0);
    let position = |percent: f64| (percent - low) / (high - low);
    let shown: Vec<String> = rows()
        .map(|row| shorten(&row.label, SMALL, false, LABEL_WIDTH))
        .collect();
    let labels = shown.iter().map(|label| text_width(label, SMALL, false));
    let height: f64 = input
        .levers
        .iter()
        .map(|lever| HEADING + ROW * lever.savings.len() as f64)
        .sum();
    let top = end + 34.0;
    let plot = Plot {
        left: MARGIN + labels.fold(ticks.width(), f64::max) + 14.0,
        top,
        right: WIDTH - MARGIN - text_width("not measured", SMALL, false) - 14.0,
        bottom: top + height + 6.0,
    };
    scene.height = plot.bottom + 48.0;
    draw_legend(&mut scene, plot.top - 10.0);
    draw_claimed(&mut scene, &plot, input.levers, position);
    plot.horizontal_axis(&mut scene, &ticks, position);
    plot.frame(&mut scene);
    plot.horizontal_title(&mut scene, &format!("{} saved", input.quantity));
    let mut shown = shown.into_iter();
    let mut y = plot.top;
    for lever in input.levers {
        let heading = shorten(&lever.label, LABEL, true, WIDTH - 2.0 * MARGIN);
        scene.text(MARGIN, y + HEADING - 9.0, LABEL, &heading).bold = true;
        y += HEADING;
        for row in &lever.savings {
            let middle = y + ROW / 2.0;
            let baseline = middle + HALF_CAPITAL * SMALL;
            let label = shown.next().unwrap_or_default();
            scene.text(plot.left - 10.0, baseline, SMALL, &label).align = Align::Right;
            scene.line(&[(plot.left, middle), (plot.right, middle)], 1.0, GRID);
            let marks = [
                (row.predicted, 6.0, Mark::Diamond, BLUE),
                (row.measured, 4.0, Mark::Disc, ORANGE),
            ];
            for (value, radius, mark, colour) in marks {
                if let Some(value) = value.filter(|value| value.is_finite()) {
                    let at = (plot.x(position(100.0 * value)), middle);
                    scene.marker(at, radius, mark, colour);
                }
            }
            let value = match row.measured {
                Some(value) => format!("{:.1} %", 100.0 * value),
                None => "not measured".to_owned(),
            };
            let value = shorten(&value, SMALL, false, WIDTH - MARGIN - plot.right - 8.0);
            let text = scene.text(WIDTH - MARGIN, baseline, SMALL, &value);
            text.align = Align::Right;
            if row.measured.is_none() {
                text.colour = GREY;
            }
            y += ROW;
        }
    }
    scene
}

/// The claimed range of each lever, behind its rows.
fn draw_claimed(scene: &mut Scene, plot: &Plot, levers: &[Lever], position: impl Fn(f64) -> f64) {
    let mut y = plot.top;
    for lever in levers {
        let rows = ROW * lever.savings.len() as f64;
        let [from, to] = lever.claimed.map(|share| plot.x(position(100.0 * share)));
        scene.rect([from, y + HEADING, to, y + HEADING + rows], CLAIMED);
        y += HEADING + rows;
    }
}

fn caption(levers: &[Lever]) -> String {
    let measured = levers
        .iter()
        .flat_map(|lever| lever.savings.iter().map(|row| (row, lever.claimed)))
        .filter_map(|(row, claimed)| Some((row.measured?, claimed)));
    let inside = |(value, [low, high]): &(f64, [f64; 2])| (*low..=*high).contains(value);
    let count = measured.clone().count();
    let held = measured.filter(inside).count();
    format!("{held} of {count} measured savings lie in the range that is claimed")
}

fn draw_legend(scene: &mut Scene, y: f64) {
    let middle = y - HALF_CAPITAL * SMALL;
    let mut x = MARGIN;
    for (i, name) in ["claimed", "predicted", "measured"].into_iter().enumerate() {
        let centre = (x + 6.0, middle);
        match i {
            0 => scene.rect([x, middle - 6.0, x + 12.0, middle + 6.0], CLAIMED),
            1 => scene.marker(centre, 6.0, Mark::Diamond, BLUE),
            _ => scene.marker(centre, 4.0, Mark::Disc, ORANGE),
        }
        scene.text(x + 18.0, y, SMALL, name);
        x += 18.0 + text_width(name, SMALL, false) + 22.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg;
    use crate::tidy::{assert_tidy, assert_xml};
    use proptest::prelude::*;

    fn row(label: &str, predicted: Option<f64>, measured: Option<f64>) -> Saving {
        Saving {
            label: label.to_owned(),
            predicted,
            measured,
        }
    }

    fn draw(levers: &[Lever]) -> Scene {
        savings(&Savings {
            title: "what levers save",
            quantity: "allocated memory",
            levers,
        })
    }

    #[test]
    fn every_case_has_its_value_and_the_caption_counts_those_in_the_range() {
        let lever = Lever {
            label: "mixed precision".to_owned(),
            claimed: [0.35, 0.4],
            savings: vec![
                row("batch 4", Some(0.0), Some(-0.01)),
                row("batch 64", Some(0.36), Some(0.355)),
                row("batch 128", Some(0.4), None),
            ],
        };
        let scene = draw(&[lever]);
        assert_tidy(&scene);
        let text = svg(&scene);
        assert_xml(&text);
        for part in [
            "mixed precision",
            "batch 128",
            "-1.0 %",
            "35.5 %",
            "not measured",
            "1 of 2 measured savings",
            "allocated memory saved",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_savings_are_drawn_tidily(
            levers in prop::collection::vec(
                (
                    ".{0,60}",
                    0.0..0.5f64,
                    0.0..0.5f64,
                    prop::collection::vec(
                        (".{0,90}", prop::option::of(-9.0..1.0f64), prop::option::of(-9.0..1.0f64)),
                        0..9,
                    ),
                ),
                0..5,
            ),
        ) {
            let levers: Vec<Lever> = levers
                .into_iter()
                .map(|(label, low, more, rows)| Lever {
                    label,
                    claimed: [low, low + more],
                    savings: rows.iter().map(|(label, p, m)| row(label, *p, *m)).collect(),
                })
                .collect();
            let scene = draw(&levers);
            assert_tidy(&scene);
            assert_xml(&svg(&scene));
        }
    }
}
