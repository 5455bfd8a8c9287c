//! The two ways to draw a scene: an SVG text and the bytes of a PNG. No IO: the caller writes them.
//!
//! In a PNG, text is drawn with the embedded DejaVu Sans. An SVG asks for `sans-serif`; the usual
//! ones are narrower than DejaVu, so what fits in DejaVu fits in them.

use crate::scene::{Align, BASELINE, Mark, Scene, Shape, Text, font, scale, text_width};
use crate::style::Colour;
use ab_glyph::{Font, ScaleFont, point};
use plotters::prelude::{BitMapBackend, SVGBackend};
use plotters_backend::text_anchor::{HPos, Pos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
    FontFamily, FontStyle,
};

/// Drawn pixels per pixel of the page, in both formats: plotters draws on whole pixels, and a
/// screen of today has about two per pixel of the page.
const DENSITY: f64 = 2.0;

/// A PNG is drawn this many times larger and averaged, since plotters draws polygons without
/// anti-aliasing.
const OVERSAMPLING: u32 = 2;

/// The most pixels that a PNG may have, which keeps the drawing below 1 GiB of memory.
const MOST_PIXELS: f64 = 64e6;

/// plotters' font size is the height of a line; its SVG divides by this to get the em.
const LINE_HEIGHT: f64 = 1.24;

/// Why a chart has no PNG.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum PngError {
    /// It would have too many pixels.
    #[error(
        "a chart of {width:.0} by {height:.0} pixels is too large for a PNG; draw fewer rows, or an SVG"
    )]
    TooLarge {
        /// Width of the page, in pixels.
        width: f64,
        /// Height of the page, in pixels.
        height: f64,
    },
}

/// The scene as an SVG document. The same scene gives the same bytes.
pub fn svg(scene: &Scene) -> String {
    let mut text = String::new();
    let size = pixels(scene, DENSITY);
    let backend = SVGBackend::with_string(&mut text, size);
    draw(scene, DENSITY, backend);
    // plotters draws on whole pixels: a page of twice the size, shown at half of it.
    let (w, h) = size;
    let drawn = format!("<svg width=\"{w}\" height=\"{h}\"");
    let shown = format!(
        "<svg role=\"img\" width=\"{}\" height=\"{}\"",
        f64::from(w) / DENSITY,
        f64::from(h) / DENSITY
    );
    text = text.replacen(&drawn, &shown, 1);
    if let Some(end) = text.find('>') {
        let title = format!("\n<title>{}</title>", escape(&scene.title));
        text.insert_str(end + 1, &title);
    }
    text
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// The scene as the bytes of a PNG, with two pixels per pixel of the page.
///
/// # Errors
/// If it is too large.
pub fn png(scene: &Scene) -> Result<Vec<u8>, PngError> {
    let density = DENSITY * f64::from(OVERSAMPLING);
    if scene.width * scene.height * density * density > MOST_PIXELS * 4.0 {
        return Err(PngError::TooLarge {
            width: scene.width,
            height: scene.height,
        });
    }
    let (width, height) = pixels(scene, DENSITY);
    let large = (width * OVERSAMPLING, height * OVERSAMPLING);
    let mut buffer = vec![0xFF; large.0 as usize * large.1 as usize * 3];
    draw(
        scene,
        density,
        BitMapBackend::with_buffer(&mut buffer, large),
    );
    Ok(encode(&average(&buffer, width as usize), width, height))
}

/// Every [`OVERSAMPLING`] by [`OVERSAMPLING`] pixels as one; `width` is the result's.
fn average(large: &[u8], width: usize) -> Vec<u8> {
    let factor = OVERSAMPLING as usize;
    let row = width * factor * 3;
    let mut small = Vec::with_capacity(large.len() / factor / factor);
    let mut sums = vec![0u16; width * 3];
    for rows in large.chunks_exact(row * factor) {
        sums.fill(0);
        for row in rows.chunks_exact(row) {
            for (pixels, sum) in row
                .chunks_exact(3 * factor)
                .zip(sums.as_chunks_mut::<3>().0)
            {
                for pixel in pixels.as_chunks::<3>().0 {
                    for (sum, value) in sum.iter_mut().zip(pixel) {
                        *sum += u16::from(*value);
                    }
                }
            }
        }
        let count = (factor * factor) as u16;
        small.extend(sums.iter().map(|sum| ((sum + count / 2) / count) as u8));
    }
    small
}

fn encode(rgb: &[u8], width: u32, height: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::High);
    // Two pixels per CSS pixel, of which an inch has 96.
    let per_metre = (96.0 * DENSITY / 0.0254).round() as u32;
    encoder.set_pixel_dims(Some(png::PixelDimensions {
        xppu: per_metre,
        yppu: per_metre,
        unit: png::Unit::Meter,
    }));
    encoder
        .write_header()
        .and_then(|mut writer| writer.write_image_data(rgb))
        .expect("writing to memory does not fail, and the sizes agree");
    bytes
}

fn pixels(scene: &Scene, density: f64) -> (u32, u32) {
    let whole = |length: f64| (length * density).ceil().max(1.0) as u32;
    (whole(scene.width), whole(scene.height))
}

/// A colour and a stroke width in drawn pixels.
struct Stroke(Colour, u32);

impl BackendStyle for Stroke {
    fn color(&self) -> BackendColor {
        let Colour(r, g, b) = self.0;
        BackendColor {
            alpha: 1.0,
            rgb: (r, g, b),
        }
    }

    fn stroke_width(&self) -> u32 {
        self.1
    }
}

/// A text's style, with plotters' own font machinery left out: in its version for embedded fonts
/// letters stand on whole pixels and without their side bearings.
struct TextStyle<'a> {
    text: &'a Text,
    density: f64,
}

impl BackendTextStyle for TextStyle<'_> {
    type FontError = std::convert::Infallible;

    fn color(&self) -> BackendColor {
        Stroke(self.text.colour, 1).color()
    }

    fn size(&self) -> f64 {
        self.text.size * self.density * LINE_HEIGHT
    }

    fn style(&self) -> FontStyle {
        if self.text.bold {
            FontStyle::Bold
        } else {
            FontStyle::Normal
        }
    }

    fn anchor(&self) -> Pos {
        let horizontal = match self.text.align {
            Align::Left => HPos::Left,
            Align::Centre => HPos::Center,
            Align::Right => HPos::Right,
        };
        Pos::new(horizontal, VPos::Top)
    }

    fn family(&self) -> FontFamily<'_> {
        FontFamily::SansSerif
    }

    fn layout_box(&self, text: &str) -> Result<(BackendCoord, BackendCoord), Self::FontError> {
        let em = self.text.size * self.density;
        let width = text_width(text, em, self.text.bold);
        Ok(((0, 0), (width.round() as i32, em.round() as i32)))
    }

    fn draw<E, D: FnMut(i32, i32, BackendColor) -> Result<(), E>>(
        &self,
        text: &str,
        pos: BackendCoord,
        mut draw: D,
    ) -> Result<Result<(), E>, Self::FontError> {
        let em = self.text.size * self.density;
        let scale = scale(em, self.text.bold);
        let font = font(self.text.bold);
        let scaled = font.as_scaled(scale);
        let (mut x, y) = (pos.0 as f32, pos.1 as f32 + (BASELINE * em).round() as f32);
        for c in text.chars() {
            let id = font.glyph_id(c);
            let glyph = id.with_scale_and_position(scale, point(x, y));
            x += scaled.h_advance(id);
            let Some(outline) = font.outline_glyph(glyph) else {
                continue;
            };
            let corner = outline.px_bounds().min;
            let mut result = Ok(());
            outline.draw(|dx, dy, coverage| {
                let at = (corner.x as i32 + dx as i32, corner.y as i32 + dy as i32);
                if result.is_ok() && coverage > 0.0 {
                    result = draw(
                        at.0,
                        at.1,
                        self.color().mix(f64::from(coverage.clamp(0.0, 1.0))),
                    );
                }
            });
            if result.is_err() {
                return Ok(result);
            }
        }
        Ok(Ok(()))
    }
}

/// Draws everything. Both backends draw into memory, where nothing fails.
fn draw<B: DrawingBackend>(scene: &Scene, density: f64, mut backend: B) {
    paint(scene, density, &mut backend).expect("drawing into memory does not fail");
}

fn paint<B: DrawingBackend>(
    scene: &Scene,
    density: f64,
    backend: &mut B,
) -> Result<(), DrawingErrorKind<B::ErrorType>> {
    let length = |v: f64| (v * density).round() as i32;
    let at = |(x, y): (f64, f64)| (length(x), length(y));
    let thickness = |width: f64| (width * density).round().max(1.0) as u32;
    let white = Stroke(Colour(255, 255, 255), 1);
    let (w, h) = backend.get_size();
    backend.ensure_prepared()?;
    backend.draw_rect((0, 0), (w as i32, h as i32), &white, true)?;
    for shape in &scene.shapes {
        match shape {
            Shape::Rect { bounds, colour } => {
                let [left, top, right, bottom] = *bounds;
                fill(backend, at((left, top)), at((right, bottom)), *colour)?;
            }
            Shape::Steps {
                steps,
                right,
                base,
                colour,
            } => {
                let outline = staircase(steps.iter().map(|&p| at(p)), length(*right));
                let base = length(*base);
                if let (Some(first), Some(last)) = (outline.first(), outline.last()) {
                    let corners = [(last.0, base), (first.0, base)];
                    let corners = outline.iter().copied().chain(corners);
                    backend.fill_polygon(corners, &Stroke(*colour, 1))?;
                }
            }
            Shape::Line {
                points,
                width,
                dash,
                colour,
            } => {
                let width = thickness(*width);
                for piece in dashes(points, *dash) {
                    let piece: Vec<_> = piece.into_iter().map(at).collect();
                    stroke(backend, &piece, width, *colour)?;
                }
            }
            Shape::Marker {
                at: centre,
                radius,
                mark,
                colour,
            } => {
                for (radius, colour) in [(radius + 1.0, white.0), (*radius, *colour)] {
                    let centre = at(*centre);
                    let style = Stroke(colour, 1);
                    match mark {
                        Mark::Disc => {
                            let radius = length(radius).max(1) as u32;
                            backend.draw_circle(centre, radius, &style, true)?;
                        }
                        _ => {
                            let corner = |(x, y)| {
                                (centre.0 + length(x * radius), centre.1 + length(y * radius))
                            };
                            let corners = corners(*mark).iter().copied().map(corner);
                            backend.fill_polygon(corners, &style)?;
                        }
                    }
                }
            }
            Shape::Text(text) => {
                let style = TextStyle { text, density };
                let top = text.y - BASELINE * text.size;
                backend.draw_text(&text.text, &style, at((text.x, top)))?;
            }
        }
    }
    backend.present()
}

/// The corners of a marker of radius 1; a disc has none.
fn corners(mark: Mark) -> &'static [(f64, f64)] {
    match mark {
        Mark::Disc => &[],
        Mark::Square => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        Mark::Triangle => &[(0.0, -1.15), (1.1, 0.85), (-1.1, 0.85)],
        Mark::Diamond => &[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)],
    }
}

fn fill<B: DrawingBackend>(
    backend: &mut B,
    from: BackendCoord,
    to: BackendCoord,
    colour: Colour,
) -> Result<(), DrawingErrorKind<B::ErrorType>> {
    if from.0 < to.0 && from.1 < to.1 {
        backend.draw_rect(from, to, &Stroke(colour, 1), true)?;
    }
    Ok(())
}

/// The corners of a staircase, from left to right; equal heights are one step.
fn staircase(steps: impl Iterator<Item = BackendCoord>, right: i32) -> Vec<BackendCoord> {
    let mut outline: Vec<BackendCoord> = Vec::new();
    for (x, y) in steps {
        match outline.last() {
            Some(&(_, before)) if before == y => {}
            Some(&(_, before)) => outline.extend([(x, before), (x, y)]),
            None => outline.push((x, y)),
        }
    }
    if let Some(&(_, y)) = outline.last() {
        outline.push((right, y));
    }
    outline
}

/// A line through points. Level and upright ones are rectangles, which are sharp in both backends.
fn stroke<B: DrawingBackend>(
    backend: &mut B,
    points: &[BackendCoord],
    width: u32,
    colour: Colour,
) -> Result<(), DrawingErrorKind<B::ErrorType>> {
    let (before, after) = ((width / 2) as i32, width.div_ceil(2) as i32);
    match *points {
        [a, b] if a.1 == b.1 => {
            let (left, right) = (a.0.min(b.0), a.0.max(b.0));
            fill(backend, (left, a.1 - before), (right, a.1 + after), colour)
        }
        [a, b] if a.0 == b.0 => {
            let (top, bottom) = (a.1.min(b.1), a.1.max(b.1));
            fill(backend, (a.0 - before, top), (a.0 + after, bottom), colour)
        }
        _ => {
            let mut distinct = points.to_vec();
            distinct.dedup();
            if distinct.len() > 1 {
                backend.draw_path(distinct, &Stroke(colour, width))?;
            }
            Ok(())
        }
    }
}

/// A line as its dashes, or whole.
fn dashes(points: &[(f64, f64)], dash: Option<(f64, f64)>) -> Vec<Vec<(f64, f64)>> {
    let (&[a, b], Some((dash, gap))) = (points, dash) else {
        return vec![points.to_vec()];
    };
    let length = (b.0 - a.0).hypot(b.1 - a.1);
    let along = |d: f64| {
        let t = if length > 0.0 { d / length } else { 0.0 };
        (a.0 + (b.0 - a.0) * t, a.1 + (b.1 - a.1) * t)
    };
    let count = (length / (dash + gap)).ceil() as usize;
    (0..count)
        .map(|i| i as f64 * (dash + gap))
        .map(|from| vec![along(from), along((from + dash).min(length))])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::{BLUE, WHITE};
    use crate::tidy::assert_xml;
    use proptest::prelude::*;

    fn page(width: f64, height: f64) -> Scene {
        let mut scene = Scene::new("<a> & 'b'\n\u{0}", width);
        scene.height = height;
        scene
    }

    fn decode(bytes: &[u8]) -> (u32, u32, Vec<u8>) {
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes))
            .read_info()
            .unwrap();
        let mut rgb = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut rgb).unwrap();
        (info.width, info.height, rgb)
    }

    #[test]
    fn a_png_has_two_pixels_per_pixel_of_the_page() {
        let mut scene = page(10.0, 6.0);
        scene.rect([5.0, 0.0, 10.0, 6.0], BLUE);
        let (width, height, rgb) = decode(&png(&scene).unwrap());
        assert_eq!((width, height), (20, 12));
        let pixel = |x: usize, y: usize| &rgb[(y * 20 + x) * 3..][..3];
        assert_eq!(pixel(9, 5), [WHITE.0, WHITE.1, WHITE.2]);
        assert_eq!(pixel(10, 5), [BLUE.0, BLUE.1, BLUE.2]);
    }

    #[test]
    fn text_is_drawn_without_fonts_of_the_machine_and_inside_its_bounds() {
        let mut scene = page(200.0, 40.0);
        let text = scene.text(20.0, 25.0, 16.0, "Ågjy 4.71 GiB");
        text.bold = true;
        let bounds = text.bounds();
        let (width, _, rgb) = decode(&png(&scene).unwrap());
        let inked: Vec<(f64, f64)> = rgb
            .as_chunks::<3>()
            .0
            .iter()
            .enumerate()
            .filter(|(_, pixel)| pixel[0] < 128)
            .map(|(i, _)| (i as u32 % width, i as u32 / width))
            .map(|(x, y)| (f64::from(x) / DENSITY, f64::from(y) / DENSITY))
            .collect();
        assert!(inked.len() > 300, "{} pixels", inked.len());
        for (x, y) in inked {
            // The ring on an Å is higher than any letter without one.
            let inside =
                (bounds[0]..=bounds[2]).contains(&x) && (bounds[1] - 4.0..=bounds[3]).contains(&y);
            assert!(inside, "{x} {y} is outside {bounds:?}");
        }
    }

    #[test]
    fn an_svg_is_shown_at_the_size_of_the_page_and_escaped() {
        let text = svg(&page(960.0, 300.0));
        let head = "<svg role=\"img\" width=\"960\" height=\"300\" viewBox=\"0 0 1920 600\"";
        assert!(text.starts_with(head), "{text}");
        assert!(text.contains("<title>&lt;a&gt; &amp; 'b' \u{FFFD}</title>"));
        assert_xml(&text);
    }

    #[test]
    fn a_png_that_would_not_fit_in_memory_is_refused() {
        let error = png(&page(960.0, 1e6)).unwrap_err();
        assert!(error.to_string().contains("960 by 1000000 pixels"));
    }

    #[test]
    fn dashes_end_where_the_line_does() {
        let pieces = dashes(&[(0.0, 0.0), (10.0, 0.0)], Some((4.0, 2.0)));
        let expected = [[(0.0, 0.0), (4.0, 0.0)], [(6.0, 0.0), (10.0, 0.0)]];
        assert_eq!(pieces, expected);
    }

    #[test]
    fn a_staircase_has_two_corners_a_step_and_none_where_it_is_level() {
        let outline = staircase([(0, 5), (1, 5), (2, 3)].into_iter(), 4);
        assert_eq!(outline, [(0, 5), (2, 5), (2, 3), (4, 3)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn every_shape_is_drawn_wherever_it_lies(
            points in prop::collection::vec((-50.0..150.0f64, -50.0..150.0f64), 0..30),
            width in 0.0..5.0f64,
            text in any::<String>(),
        ) {
            let mut scene = page(100.0, 60.0);
            scene.line(&points, width, BLUE);
            scene.shapes.push(Shape::Steps { steps: points.clone(), right: 150.0, base: 50.0, colour: BLUE });
            for (i, &at) in points.iter().enumerate() {
                let mark = [Mark::Disc, Mark::Square, Mark::Triangle, Mark::Diamond][i % 4];
                scene.marker(at, width, mark, BLUE);
                scene.dashed((0.0, 0.0), at, width, BLUE);
                scene.text(at.0, at.1, 10.0, &text);
            }
            decode(&png(&scene).unwrap());
            assert_xml(&svg(&scene));
        }
    }
}
