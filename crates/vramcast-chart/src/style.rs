//! What all charts share: colours, sizes of text, the head with title and caption, and axes whose
//! ticks are round numbers of the unit that the axis names.
//!
//! The colours are those of Okabe and Ito (<https://jfly.uni-koeln.de/color/>), which readers with
//! any kind of colour vision can tell apart. Nothing is told by colour alone: stacks have a legend
//! in their order, lines and markers have forms and labels.

use crate::scene::{Align, Mark, Scene, text_width};
use std::fmt;
use vramcast::bytes::{Bytes, GIB, KIB, MIB, grouped};
use vramcast::timeline::Category;
use vramcast::workload::Mode;

/// Red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour(pub u8, pub u8, pub u8);

/// `#0072B2`, as an SVG has it.
impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02X}{:02X}{:02X}", self.0, self.1, self.2)
    }
}

pub(crate) const INK: Colour = Colour(0x22, 0x22, 0x22);
pub(crate) const GREY: Colour = Colour(0x60, 0x60, 0x60);
pub(crate) const AXIS: Colour = Colour(0x8C, 0x8C, 0x8C);
pub(crate) const GRID: Colour = Colour(0xE4, 0xE4, 0xE4);
pub(crate) const BAND: Colour = Colour(0xF5, 0xF5, 0xF5);
pub(crate) const WHITE: Colour = Colour(0xFF, 0xFF, 0xFF);

pub(crate) const BLUE: Colour = Colour(0x00, 0x72, 0xB2);
pub(crate) const SKY: Colour = Colour(0x56, 0xB4, 0xE9);
pub(crate) const GREEN: Colour = Colour(0x00, 0x9E, 0x73);
pub(crate) const ORANGE: Colour = Colour(0xE6, 0x9F, 0x00);
pub(crate) const VERMILION: Colour = Colour(0xD5, 0x5E, 0x00);
pub(crate) const PURPLE: Colour = Colour(0xCC, 0x79, 0xA7);

/// Every colour of a chart of jobs, and the one that stands for it on a dark page: the same hues, light enough
/// to be told from the ground, and the greys in the opposite order.
pub const DARK: [(Colour, Colour); 12] = [
    (INK, Colour(0xE6, 0xE8, 0xEB)),
    (GREY, Colour(0xA6, 0xAD, 0xB5)),
    (AXIS, Colour(0x78, 0x80, 0x89)),
    (GRID, Colour(0x2E, 0x34, 0x3B)),
    (BAND, Colour(0x1C, 0x20, 0x26)),
    (WHITE, Colour(0x14, 0x17, 0x1B)),
    (BLUE, Colour(0x3F, 0x92, 0xD2)),
    (SKY, Colour(0x8F, 0xCD, 0xF3)),
    (GREEN, Colour(0x2B, 0xB5, 0x8B)),
    (ORANGE, Colour(0xE9, 0xAE, 0x3A)),
    (VERMILION, Colour(0xEA, 0x7A, 0x42)),
    (PURPLE, Colour(0xDA, 0x93, 0xBB)),
];

/// Width of every page in pixels: what a README or a report shows without scaling.
pub(crate) const WIDTH: f64 = 960.0;
/// Free space at the edges of a page.
pub(crate) const MARGIN: f64 = 20.0;
/// The em of labels and legends.
pub(crate) const LABEL: f64 = 12.0;
/// The em of ticks and notes.
pub(crate) const SMALL: f64 = 11.0;
/// Half the height of a capital or digit, in ems: text is centred on a line by it.
pub(crate) const HALF_CAPITAL: f64 = 0.36;
/// Distance of two labels' baselines.
pub(crate) const LEADING: f64 = 17.0;

const TITLE: f64 = 16.0;

/// The categories of a stack from its foot to its top, with their colours: what stays longest is
/// at the foot.
pub(crate) const STACK: [(Category, Colour); Category::COUNT] = [
    (Category::Parameters, BLUE),
    (Category::Optimizer, SKY),
    (Category::Gradients, GREEN),
    (Category::Activations, ORANGE),
    (Category::Temporaries, VERMILION),
    (Category::Inputs, PURPLE),
    (Category::Workspaces, GREY),
];

/// The lines of a chart, in order; forms repeat later than colours.
pub(crate) fn line_style(index: usize) -> (Colour, Mark) {
    const COLOURS: [Colour; 6] = [SKY, BLUE, ORANGE, GREEN, PURPLE, VERMILION];
    const MARKS: [Mark; 4] = [Mark::Disc, Mark::Square, Mark::Triangle, Mark::Diamond];
    (
        COLOURS[index % COLOURS.len()],
        MARKS[(index + index / 12) % MARKS.len()],
    )
}

/// Training and inference.
pub(crate) fn mode_style(mode: Mode) -> (Colour, Mark, &'static str) {
    match mode {
        Mode::Train => (BLUE, Mark::Disc, "training"),
        Mode::Infer => (ORANGE, Mark::Diamond, "inference"),
    }
}

/// A capacity to hold sizes against: a card's, or one that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// The card's name.
    pub name: String,
    /// Its bytes.
    pub bytes: Bytes,
}

impl Capacity {
    pub(crate) fn label(&self) -> String {
        format!("{} {}", self.name, self.bytes)
    }
}

/// The text cut at a width in pixels, with an ellipsis.
pub(crate) fn shorten(text: &str, size: f64, bold: bool, width: f64) -> String {
    if text_width(text, size, bold) <= width {
        return text.to_owned();
    }
    let mut kept: Vec<char> = text.chars().collect();
    while kept.pop().is_some() {
        let short: String = kept.iter().chain(&['…']).collect();
        if text_width(&short, size, bold) <= width {
            return short;
        }
    }
    String::new()
}

/// The text in at most `lines` lines of a width in pixels, broken at spaces.
pub(crate) fn wrap(text: &str, size: f64, bold: bool, width: f64, lines: usize) -> Vec<String> {
    let mut wrapped = vec![String::new()];
    for word in text.split_whitespace() {
        let last = wrapped.len() - 1;
        let longer = match wrapped[last].as_str() {
            "" => word.to_owned(),
            line => format!("{line} {word}"),
        };
        let fits = text_width(&longer, size, bold) <= width;
        if fits || wrapped[last].is_empty() || wrapped.len() == lines {
            wrapped[last] = longer;
        } else {
            wrapped.push(word.to_owned());
        }
    }
    for line in &mut wrapped {
        *line = shorten(line, size, bold, width);
    }
    wrapped
}

/// Draws the title and the lines below it; returns where they end.
pub(crate) fn head(scene: &mut Scene, title: &str, captions: &[String]) -> f64 {
    let width = scene.width - 2.0 * MARGIN;
    let mut y = MARGIN + 0.9 * TITLE;
    for line in wrap(title, TITLE, true, width, 2) {
        scene.text(MARGIN, y, TITLE, &line).bold = true;
        y += 1.3 * TITLE;
    }
    for caption in captions {
        for line in wrap(caption, LABEL, false, width, 3) {
            scene.text(MARGIN, y, LABEL, &line).colour = GREY;
            y += LEADING;
        }
    }
    y - LABEL
}

/// Where an axis has its ticks, and what it says there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ticks {
    /// `GiB`, `%`; empty when each tick has its own.
    pub(crate) unit: &'static str,
    /// Value and label, upwards.
    pub(crate) at: Vec<(f64, String)>,
}

impl Ticks {
    /// The widest label, in pixels.
    pub(crate) fn width(&self) -> f64 {
        let widths = self
            .at
            .iter()
            .map(|(_, label)| text_width(label, SMALL, false));
        widths.fold(0.0, f64::max)
    }
}

/// About `count` round values of a linear axis of bytes from 0 to `max`, in one unit.
pub(crate) fn byte_ticks(max: f64, count: f64) -> Ticks {
    let (unit, size) = match max {
        m if m >= GIB as f64 => ("GiB", GIB),
        m if m >= MIB as f64 => ("MiB", MIB),
        m if m >= KIB as f64 => ("KiB", KIB),
        _ => ("bytes", 1),
    };
    let size = size as f64;
    let step = round_step(max / size / count);
    let step = if unit == "bytes" { step.max(1.0) } else { step };
    let at = multiples(step, 0.0, max / size);
    Ticks {
        unit,
        at: at.map(|v| (v * size, number(v, step))).collect(),
    }
}

/// About `count` round values of an axis that counts things from 0 to `max`.
pub(crate) fn count_ticks(max: f64, count: f64) -> Ticks {
    let step = round_step(max / count).max(1.0);
    Ticks {
        unit: "",
        at: multiples(step, 0.0, max)
            .map(|v| (v, number(v, step)))
            .collect(),
    }
}

/// About `count` round values of a linear axis of percent.
pub(crate) fn percent_ticks(min: f64, max: f64, count: f64) -> Ticks {
    let step = round_step((max - min) / count);
    let signed = |v: f64| {
        let text = number(v, step);
        let sign = if v > 0.0 { "+" } else { "" };
        format!("{sign}{text} %")
    };
    Ticks {
        unit: "%",
        at: multiples(step, min, max).map(|v| (v, signed(v))).collect(),
    }
}

/// The smallest of 1, 2 and 5 times a power of ten that is not below `step`.
fn round_step(step: f64) -> f64 {
    if !(step.is_finite() && step > 0.0) {
        return 1.0;
    }
    let power = 10f64.powi(step.log10().floor() as i32);
    let round = [1.0, 2.0, 5.0].into_iter().map(|d| d * power);
    round
        .into_iter()
        .find(|&r| r >= step * 0.999)
        .unwrap_or(10.0 * power)
}

fn multiples(step: f64, min: f64, max: f64) -> impl Iterator<Item = f64> {
    let from = (min / step - 1e-9).ceil() as i64;
    let to = (max / step + 1e-9).floor() as i64;
    (from..=to).map(move |i| i as f64 * step)
}

/// A multiple of `step` with the decimals that the step has.
fn number(value: f64, step: f64) -> String {
    let decimals = (-(step.log10() + 1e-9).floor()).max(0.0) as usize;
    if decimals == 0 || value == 0.0 {
        grouped(value.round() as i128)
    } else {
        format!("{value:.decimals$}")
    }
}

/// A logarithmic axis between two positive values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LogRange {
    low: f64,
    high: f64,
}

impl LogRange {
    /// A range with some room on both sides of the values, and at least two octaves.
    pub(crate) fn around(values: impl Iterator<Item = f64>, room: f64) -> Self {
        let (low, high) = values
            .map(|v| v.max(1.0).log2())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
                (l.min(v), h.max(v))
            });
        let (low, high) = if low <= high { (low, high) } else { (0.0, 0.0) };
        let room = (room * (high - low)).max(1.0 - (high - low) / 2.0).max(0.1);
        Self {
            low: low - room,
            high: high + room,
        }
    }

    /// Where a value lies, from 0 to 1; values below 1 count as 1.
    pub(crate) fn position(&self, value: f64) -> f64 {
        (value.max(1.0).log2() - self.low) / (self.high - self.low)
    }

    /// Powers of two, at most about `count`, each with its unit.
    pub(crate) fn byte_ticks(&self, count: f64) -> Ticks {
        let stride = ((self.high - self.low) / count).ceil().max(1.0) as i32;
        let from = (self.low.max(0.0) / f64::from(stride)).ceil() as i32;
        let to = (self.high.min(63.0) / f64::from(stride)).floor() as i32;
        let at = (from..=to).map(|i| {
            let power = i * stride;
            (2f64.powi(power), power_of_two(power as u32))
        });
        Ticks {
            unit: "",
            at: at.collect(),
        }
    }
}

/// `512 MiB`: a power of two without decimals.
fn power_of_two(power: u32) -> String {
    let (unit, power) = match power {
        30.. => ("GiB", power - 30),
        20.. => ("MiB", power - 20),
        10.. => ("KiB", power - 10),
        _ => ("B", power),
    };
    format!("{} {unit}", grouped(1 << power))
}

/// Where the data of a chart lies on the page, in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Plot {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

impl Plot {
    /// The x coordinate of a fraction of the width.
    pub(crate) fn x(&self, fraction: f64) -> f64 {
        self.left + fraction * (self.right - self.left)
    }

    /// The y coordinate of a fraction of the height, upwards.
    pub(crate) fn y(&self, fraction: f64) -> f64 {
        self.bottom - fraction * (self.bottom - self.top)
    }

    /// Grid lines and labels of the vertical axis; `position` gives a value's fraction. A label
    /// that would touch the one before is left out.
    pub(crate) fn vertical_axis(
        &self,
        scene: &mut Scene,
        ticks: &Ticks,
        position: impl Fn(f64) -> f64,
    ) {
        let mut above = f64::INFINITY;
        for (value, label) in &ticks.at {
            let y = self.y(position(*value));
            if !(self.top - 0.5..=self.bottom + 0.5).contains(&y) || above - y < 1.2 * SMALL {
                continue;
            }
            above = y;
            scene.line(&[(self.left, y), (self.right, y)], 1.0, GRID);
            let text = scene.text(self.left - 7.0, y + HALF_CAPITAL * SMALL, SMALL, label);
            text.align = Align::Right;
            text.colour = GREY;
        }
    }

    /// Grid lines and labels of the horizontal axis; as [`Self::vertical_axis`].
    pub(crate) fn horizontal_axis(
        &self,
        scene: &mut Scene,
        ticks: &Ticks,
        position: impl Fn(f64) -> f64,
    ) {
        let mut before = f64::NEG_INFINITY;
        for (value, label) in &ticks.at {
            let x = self.x(position(*value));
            let half = text_width(label, SMALL, false) / 2.0;
            let clear = x - half > before + 8.0 && x + half < scene.width - 2.0;
            if !(self.left - 0.5..=self.right + 0.5).contains(&x) || !clear {
                continue;
            }
            before = x + half;
            scene.line(&[(x, self.top), (x, self.bottom)], 1.0, GRID);
            let text = scene.text(x, self.bottom + 1.5 * SMALL, SMALL, label);
            text.align = Align::Centre;
            text.colour = GREY;
        }
    }

    /// The lines at the left and at the bottom.
    pub(crate) fn frame(&self, scene: &mut Scene) {
        let corner = (self.left, self.bottom);
        scene.line(&[corner, (self.right, self.bottom)], 1.0, AXIS);
        scene.line(&[(self.left, self.top), corner], 1.0, AXIS);
    }

    /// What the vertical axis shows, so far above it.
    pub(crate) fn vertical_title(&self, scene: &mut Scene, above: f64, title: &str) {
        let width = scene.width - 2.0 * MARGIN;
        let title = shorten(title, SMALL, false, width);
        scene.text(MARGIN, self.top - above, SMALL, &title);
    }

    /// What the horizontal axis shows, below it.
    pub(crate) fn horizontal_title(&self, scene: &mut Scene, title: &str) {
        let title = shorten(title, SMALL, false, self.right - self.left);
        let middle = (self.left + self.right) / 2.0;
        let text = scene.text(middle, self.bottom + 3.2 * SMALL, SMALL, &title);
        text.align = Align::Centre;
    }
}

/// Places of labels that want to be at `wanted`, at least `gap` apart and between `low` and `high`
/// as far as there is room; in the order of `wanted`.
pub(crate) fn spread(wanted: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    let mut places = vec![0.0; wanted.len()];
    let mut least = low;
    for &i in &order {
        places[i] = wanted[i].max(least);
        least = places[i] + gap;
    }
    let mut most = high;
    for &i in order.iter().rev() {
        places[i] = places[i].min(most);
        most = places[i] - gap;
    }
    places
}

/// How far `predicted` is from `measured`: `+0 B`, `+512 B`, `+0.3 %`.
pub(crate) fn difference(predicted: Bytes, measured: Bytes) -> String {
    let bytes = predicted.minus(measured);
    let sign = if bytes < 0 { "-" } else { "+" };
    match relative_percent(predicted, measured) {
        Some(percent) if percent.abs() >= 0.05 => percent_text(percent),
        _ => {
            let size = u64::try_from(bytes.unsigned_abs()).unwrap_or(u64::MAX);
            format!("{sign}{}", Bytes(size))
        }
    }
}

/// The relative error in percent; `None` if nothing was measured but something predicted.
pub(crate) fn relative_percent(predicted: Bytes, measured: Bytes) -> Option<f64> {
    match (predicted.minus(measured), measured.0) {
        (0, _) => Some(0.0),
        (_, 0) => None,
        (difference, measured) => Some(difference as f64 / measured as f64 * 100.0),
    }
}

/// `+12 %`, `+1.3 %`, `-0.004 %`: a sign and two digits that mean something.
pub(crate) fn percent_text(percent: f64) -> String {
    if percent == 0.0 {
        return "0 %".to_owned();
    }
    let decimals = (1.0 - percent.abs().log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{percent:+.decimals$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!("{text} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_ticks(max: f64, unit: &str, expected: &[&str]) {
        let ticks = byte_ticks(max, 6.0);
        let labels: Vec<&str> = ticks.at.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!((ticks.unit, labels.as_slice()), (unit, expected), "{max}");
    }

    #[test]
    fn ticks_are_round_numbers_of_the_unit() {
        let (gib, mib) = (GIB as f64, MIB as f64);
        check_ticks(4.71 * gib, "GiB", &["0", "1", "2", "3", "4"]);
        check_ticks(1.1 * gib, "GiB", &["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        check_ticks(418.0 * mib, "MiB", &["0", "100", "200", "300", "400"]);
        check_ticks(3.0, "bytes", &["0", "1", "2", "3"]);
        check_ticks(0.0, "bytes", &["0"]);
    }

    #[test]
    fn logarithmic_ticks_are_powers_of_two_without_decimals() {
        let range = LogRange::around([200.0 * MIB as f64, 9.0 * GIB as f64].into_iter(), 0.05);
        let ticks = range.byte_ticks(7.0);
        let labels: Vec<&str> = ticks.at.iter().map(|(_, label)| label.as_str()).collect();
        let expected = ["256 MiB", "512 MiB", "1 GiB", "2 GiB", "4 GiB", "8 GiB"];
        assert_eq!(labels, expected);
    }

    #[test]
    fn one_value_still_has_an_axis() {
        let range = LogRange::around([GIB as f64].into_iter(), 0.05);
        assert_eq!(range.position(GIB as f64), 0.5);
        assert!(range.byte_ticks(7.0).at.len() >= 2);
    }

    #[test]
    fn differences_say_percent_where_there_is_one_and_bytes_where_not() {
        let check = |p, m, expected: &str| assert_eq!(difference(Bytes(p), Bytes(m)), expected);
        check(GIB, GIB, "+0 B");
        check(GIB + 512, GIB, "+512 B");
        check(GIB - 512, GIB, "-512 B");
        check(1003, 1000, "+0.3 %");
        check(1500, 1000, "+50 %");
        check(0, 1000, "-100 %");
        check(1000, 0, "+1000 B");
        check(0, 0, "+0 B");
    }

    #[test]
    fn spread_labels_keep_their_order_and_distance() {
        assert_eq!(spread(&[5.0, 6.0], 10.0, 0.0, 100.0), [5.0, 15.0]);
        assert_eq!(spread(&[99.0, 98.0], 10.0, 0.0, 100.0), [100.0, 90.0]);
        assert_eq!(spread(&[40.0, 10.0], 10.0, 0.0, 100.0), [40.0, 10.0]);
    }

    #[test]
    fn long_texts_are_wrapped_and_then_cut() {
        let text = "word ".repeat(100);
        let lines = wrap(&text, LABEL, false, 200.0, 2);
        assert_eq!(lines.len(), 2);
        assert!(lines[1].ends_with('…'));
        for line in lines {
            assert!(text_width(&line, LABEL, false) <= 200.0);
        }
    }
}
