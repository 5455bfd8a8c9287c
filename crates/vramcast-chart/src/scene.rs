//! A chart as a list of shapes.
//!
//! A chart is a function from plain values to a [`Scene`], so that a test can ask it whether a
//! label is clipped or lies on another. Coordinates are pixels of a page that is 960 wide, from the
//! top left corner, y downwards.
//!
//! Text is measured with the embedded DejaVu Sans, so no font of the machine is needed.

use crate::style::{Colour, INK};
use ab_glyph::{Font, FontRef, ScaleFont};
use std::sync::LazyLock;

/// Where plotters puts the baseline below the top of a text, in ems.
pub(crate) const BASELINE: f64 = 0.76;

/// How far letters reach below the baseline, in ems; DejaVu's descent.
const DESCENT: f64 = 0.24;

static REGULAR: LazyLock<FontRef<'static>> =
    LazyLock::new(|| embedded(include_bytes!("../fonts/DejaVuSans.ttf")));
static BOLD: LazyLock<FontRef<'static>> =
    LazyLock::new(|| embedded(include_bytes!("../fonts/DejaVuSans-Bold.ttf")));

fn embedded(bytes: &'static [u8]) -> FontRef<'static> {
    FontRef::try_from_slice(bytes).expect("the embedded font is a font")
}

/// Which point of a text its x coordinate names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// The left end.
    Left,
    /// The middle.
    Centre,
    /// The right end.
    Right,
}

/// The form of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A disc.
    Disc,
    /// A square.
    Square,
    /// A triangle that points up.
    Triangle,
    /// A square on its corner.
    Diamond,
}

/// One line of text.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    /// Where it is, in pixels; see `align`.
    pub x: f64,
    /// Where its baseline is, in pixels.
    pub y: f64,
    /// The text.
    pub text: String,
    /// Its em, in pixels.
    pub size: f64,
    /// Whether it is bold.
    pub bold: bool,
    /// Which of its points `x` is.
    pub align: Align,
    /// Its colour.
    pub colour: Colour,
}

impl Text {
    /// Its box in pixels: left, top, right, bottom.
    pub fn bounds(&self) -> [f64; 4] {
        let width = text_width(&self.text, self.size, self.bold);
        let left = match self.align {
            Align::Left => self.x,
            Align::Centre => self.x - width / 2.0,
            Align::Right => self.x - width,
        };
        [
            left,
            self.y - BASELINE * self.size,
            left + width,
            self.y + DESCENT * self.size,
        ]
    }
}

/// What a scene is made of. Coordinates in pixels.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A filled rectangle.
    Rect {
        /// Left, top, right, bottom.
        bounds: [f64; 4],
        /// Its colour.
        colour: Colour,
    },
    /// The area between a staircase and a horizontal line below it.
    Steps {
        /// Where each step begins, and its height; it holds until the next begins.
        steps: Vec<(f64, f64)>,
        /// Where the last step ends.
        right: f64,
        /// The line below.
        base: f64,
        /// Its colour.
        colour: Colour,
    },
    /// A line through points.
    Line {
        /// The points.
        points: Vec<(f64, f64)>,
        /// How thick it is.
        width: f64,
        /// Lengths of dash and gap; `None` is a solid line.
        dash: Option<(f64, f64)>,
        /// Its colour.
        colour: Colour,
    },
    /// A marker with a white rim, so that markers on one another stay apart.
    Marker {
        /// Its centre.
        at: (f64, f64),
        /// Half its width.
        radius: f64,
        /// Its form.
        mark: Mark,
        /// Its colour.
        colour: Colour,
    },
    /// A line of text.
    Text(Text),
}

/// A chart, ready to be drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// What it shows, in one line, for readers who cannot see it.
    pub title: String,
    /// Width in pixels.
    pub width: f64,
    /// Height in pixels.
    pub height: f64,
    /// What to draw, in order.
    pub shapes: Vec<Shape>,
}

impl Scene {
    /// An empty page.
    pub(crate) fn new(title: &str, width: f64) -> Self {
        Self {
            title: printable(title),
            width,
            height: 0.0,
            shapes: Vec::new(),
        }
    }

    pub(crate) fn rect(&mut self, bounds: [f64; 4], colour: Colour) {
        self.shapes.push(Shape::Rect { bounds, colour });
    }

    pub(crate) fn line(&mut self, points: &[(f64, f64)], width: f64, colour: Colour) {
        self.shapes.push(Shape::Line {
            points: points.to_vec(),
            width,
            dash: None,
            colour,
        });
    }

    pub(crate) fn dashed(&mut self, from: (f64, f64), to: (f64, f64), width: f64, colour: Colour) {
        self.shapes.push(Shape::Line {
            points: vec![from, to],
            width,
            dash: Some((5.0, 3.5)),
            colour,
        });
    }

    pub(crate) fn marker(&mut self, at: (f64, f64), radius: f64, mark: Mark, colour: Colour) {
        self.shapes.push(Shape::Marker {
            at,
            radius,
            mark,
            colour,
        });
    }

    /// Regular text in ink; returns it, to be changed.
    pub(crate) fn text(&mut self, x: f64, y: f64, size: f64, text: &str) -> &mut Text {
        self.shapes.push(Shape::Text(Text {
            x,
            y,
            text: printable(text),
            size,
            bold: false,
            align: Align::Left,
            colour: INK,
        }));
        match self.shapes.last_mut() {
            Some(Shape::Text(text)) => text,
            _ => unreachable!("it was just pushed"),
        }
    }

    /// Every text of the scene.
    pub fn texts(&self) -> impl Iterator<Item = &Text> {
        self.shapes.iter().filter_map(|shape| match shape {
            Shape::Text(text) => Some(text),
            _ => None,
        })
    }
}

/// The text without what XML cannot hold and a line cannot show.
fn printable(text: &str) -> String {
    text.chars().map(printable_char).collect()
}

fn printable_char(c: char) -> char {
    match c {
        '\t' | '\n' | '\r' => ' ',
        c if is_hidden(c) => '\u{FFFD}',
        c => c,
    }
}

/// Whether a character shows nothing of itself, or changes the order of those around it: what no name
/// needs, and a name that deceives may have (Unicode Technical Report 36, bidirectional text spoofing).
pub fn is_hidden(c: char) -> bool {
    let formats = matches!(
        c,
        '\u{AD}'
            | '\u{61C}'
            | '\u{180E}'
            | '\u{200B}'..='\u{200F}'
            | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{FEFF}'
            | '\u{FFF9}'..='\u{FFFB}'
            | '\u{FFFE}'..='\u{FFFF}'
            | '\u{E0000}'..='\u{E007F}'
    );
    c.is_control() || formats
}

/// The width of a text in pixels, in the embedded font.
pub fn text_width(text: &str, size: f64, bold: bool) -> f64 {
    let font = font(bold).as_scaled(scale(size, bold));
    let advance = |c| f64::from(font.h_advance(font.glyph_id(c)));
    text.chars().map(printable_char).map(advance).sum()
}

pub(crate) fn font(bold: bool) -> &'static FontRef<'static> {
    if bold { &BOLD } else { &REGULAR }
}

/// ab_glyph's scale, which is ascent less descent, for an em.
pub(crate) fn scale(em: f64, bold: bool) -> f32 {
    let font = font(bold);
    em as f32 * font.height_unscaled() / font.units_per_em().unwrap_or(2048.0)
}
