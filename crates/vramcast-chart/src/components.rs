//! Predicted against measured sizes, one pair of bars a row, with the difference.
//!
//! Constraint: a difference that is too small to see is still printed, in bytes.

use crate::scene::{Align, Scene, text_width};
use crate::style::{
    BAND, BLUE, GREY, HALF_CAPITAL, LABEL, MARGIN, ORANGE, Plot, SMALL, WIDTH, byte_ticks,
    difference, head, shorten,
};
use vramcast::bytes::Bytes;

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// What it is.
    pub label: String,
    /// Predicted bytes.
    pub predicted: Bytes,
    /// Measured bytes, where somebody measured.
    pub measured: Option<Bytes>,
}

/// What the chart shows.
#[derive(Clone, Copy, Debug)]
pub struct Components<'a> {
    /// The model and what runs, in one line.
    pub title: &'a str,
    /// Which of the five peaks the sizes are: `requested memory`.
    pub quantity: &'a str,
    /// The rows, from top to bottom.
    pub rows: &'a [Component],
}

/// More rows than this are drawn thinner.
const ROOMY: usize = 20;

/// Draws predicted against measured sizes.
pub fn components(input: &Components<'_>) -> Scene {
    let mut scene = Scene::new(input.title, WIDTH);
    let captions = vec![caption(input.rows)];
    let end = head(&mut scene, input.title, &captions);
    let measured = input.rows.iter().any(|row| row.measured.is_some());
    let bars = if measured { 2.0 } else { 1.0 };
    let (size, bar, gap) = if input.rows.len() > ROOMY {
        (SMALL, 10.0, 8.0)
    } else {
        (LABEL, 14.0, 14.0)
    };

    let most = input.rows.iter().map(|row| {
        row.predicted
            .0
            .max(row.measured.map_or(0, |measured| measured.0))
    });
    let most = most.max().unwrap_or(0).max(1) as f64;
    let ticks = byte_ticks(most, 6.0);
    let labels: Vec<String> = input
        .rows
        .iter()
        .map(|row| shorten(&row.label, size, false, 270.0))
        .collect();
    let width = |texts: &mut dyn Iterator<Item = String>| {
        texts
            .map(|text| text_width(&text, size, false))
            .fold(0.0, f64::max)
    };
    let differences: Vec<String> = input
        .rows
        .iter()
        .map(|row| match row.measured {
            Some(measured) => difference(row.predicted, measured),
            None => "not measured".to_owned(),
        })
        .collect();
    let heading = "difference";
    let difference_width = if measured {
        let heading = text_width(heading, SMALL, true);
        heading.max(width(&mut differences.iter().cloned())) + 20.0
    } else {
        0.0
    };
    let value_width = width(&mut input.rows.iter().flat_map(|row| {
        [Some(row.predicted), row.measured]
            .into_iter()
            .flatten()
            .map(|b| b.to_string())
    }));
    let plot = Plot {
        left: MARGIN + width(&mut labels.iter().cloned()).max(ticks.width() / 2.0) + 10.0,
        top: end + 46.0,
        right: WIDTH - MARGIN - difference_width - value_width - 10.0,
        bottom: end + 46.0 + 8.0 + input.rows.len() as f64 * (bars * bar + gap),
    };
    scene.height = plot.bottom + 48.0;

    let right = WIDTH - MARGIN;
    let height = bars * bar + gap;
    for i in (1..input.rows.len()).step_by(2) {
        let top = plot.top + 4.0 + i as f64 * height;
        scene.rect([MARGIN - 6.0, top, right + 6.0, top + height], BAND);
    }
    plot.horizontal_axis(&mut scene, &ticks, |v| v / most);
    plot.frame(&mut scene);
    plot.horizontal_title(&mut scene, &format!("{} ({})", input.quantity, ticks.unit));
    draw_legend(&mut scene, &plot, measured);
    if measured {
        let text = scene.text(right, plot.top - 12.0, SMALL, heading);
        text.align = Align::Right;
        text.bold = true;
    }
    for (i, row) in input.rows.iter().enumerate() {
        let top = plot.top + 4.0 + i as f64 * height + gap / 2.0;
        let middle = top + bars * bar / 2.0 + HALF_CAPITAL * size;
        scene.text(plot.left - 8.0, middle, size, &labels[i]).align = Align::Right;
        let sizes = [(Some(row.predicted), BLUE), (row.measured, ORANGE)];
        for (j, (bytes, colour)) in sizes.into_iter().take(bars as usize).enumerate() {
            let Some(bytes) = bytes else { continue };
            // A bar without its partner stands in the middle of the row.
            let alone = if row.measured.is_none() {
                bars - 1.0
            } else {
                0.0
            };
            let top = top + (j as f64 + alone / 2.0) * bar;
            let end = plot.x(bytes.0 as f64 / most);
            scene.rect([plot.left, top, end, top + bar - 1.0], colour);
            let baseline = top + (bar - 1.0) / 2.0 + HALF_CAPITAL * (bar - 3.0).min(SMALL);
            let size = SMALL.min(bar - 0.5);
            scene.text(end + 6.0, baseline, size, &bytes.to_string());
        }
        if measured {
            let text = scene.text(right, middle, size, &differences[i]);
            text.align = Align::Right;
            if row.measured.is_none() {
                text.colour = GREY;
            }
        }
    }
    scene
}

fn caption(rows: &[Component]) -> String {
    let pairs = rows
        .iter()
        .filter_map(|row| row.measured.map(|measured| (row.predicted, measured)));
    let measured = pairs.clone().count();
    let exact = pairs.filter(|(p, m)| p == m).count();
    match measured {
        0 => "predicted; nothing was measured".to_owned(),
        1 if exact == 1 => "predicted and measured are equal to the byte".to_owned(),
        n if exact == n => format!("predicted and measured, equal to the byte in all {n} rows"),
        n => format!("predicted and measured, equal to the byte in {exact} of {n} rows"),
    }
}

fn draw_legend(scene: &mut Scene, plot: &Plot, measured: bool) {
    let entries = [("predicted", BLUE), ("measured", ORANGE)];
    let mut x = plot.left;
    let y = plot.top - 12.0;
    for (name, colour) in entries.into_iter().take(1 + usize::from(measured)) {
        let middle = y - HALF_CAPITAL * LABEL;
        scene.rect([x, middle - 6.0, x + 12.0, middle + 6.0], colour);
        scene.text(x + 18.0, y, LABEL, name);
        x += 18.0 + text_width(name, LABEL, false) + 24.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg;
    use crate::tidy::{assert_tidy, assert_xml};
    use proptest::prelude::*;
    use vramcast::bytes::MIB;

    fn row(label: &str, predicted: u64, measured: Option<u64>) -> Component {
        Component {
            label: label.to_owned(),
            predicted: Bytes(predicted),
            measured: measured.map(Bytes),
        }
    }

    fn draw(rows: &[Component]) -> Scene {
        components(&Components {
            title: "bert <base> & more",
            quantity: "requested memory",
            rows,
        })
    }

    #[test]
    fn every_row_has_its_values_and_its_difference() {
        let rows = [
            row("parameters", 418 * MIB, Some(418 * MIB)),
            row("activations", 1003 * MIB, Some(1000 * MIB)),
            row("context", 500 * MIB, None),
        ];
        let scene = draw(&rows);
        assert_tidy(&scene);
        let text = svg(&scene);
        assert_xml(&text);
        for part in [
            "bert &lt;base&gt; &amp; more",
            "parameters",
            "activations",
            "+0 B",
            "+0.3 %",
            "not measured",
            "418 MiB",
            "requested memory (MiB)",
            "equal to the byte in 1 of 2 rows",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }

    #[test]
    fn without_a_measurement_there_is_no_column_for_it() {
        let text = svg(&draw(&[row("parameters", 10, None)]));
        assert!(!text.contains(">\nmeasured\n<") && !text.contains("difference"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_rows_are_drawn_tidily(
            rows in prop::collection::vec(
                (".{0,60}", any::<u64>(), prop::option::of(any::<u64>()), 0u32..64),
                0..70,
            ),
        ) {
            let rows: Vec<_> = rows
                .iter()
                .map(|(label, p, m, small)| row(label, p >> small, m.map(|m| m >> small)))
                .collect();
            let scene = draw(&rows);
            assert_tidy(&scene);
            let text = svg(&scene);
            assert_xml(&text);
            prop_assert_eq!(&text, &svg(&draw(&rows)));
        }
    }
}
