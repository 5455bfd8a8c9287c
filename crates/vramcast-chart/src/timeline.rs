//! Live bytes over the events of one step, stacked by category: when the peak is, and what it is
//! made of.
//!
//! Constraint: a step may have more events than the page has pixels, but no peak is lost. Each
//! column of the chart shows the moment of its events at which most was alive.

use crate::scene::{Align, Mark, Scene, Shape, text_width};
use crate::style::{
    AXIS, BAND, Capacity, GREY, HALF_CAPITAL, INK, LABEL, LEADING, MARGIN, Plot, SMALL, STACK,
    WHITE, WIDTH, byte_ticks, count_ticks, head, shorten, wrap,
};
use vramcast::bytes::{Bytes, grouped};
use vramcast::timeline::{Category, Phase, Timeline};

/// The most columns that a chart has.
pub const COLUMNS: usize = 1_200;

/// A capacity that is more than this many times the peak is not drawn but mentioned.
const OFF_THE_SCALE: f64 = 2.5;

/// What the chart shows.
#[derive(Clone, Copy, Debug)]
pub struct LiveBytes<'a> {
    /// The model and what runs, in one line.
    pub title: &'a str,
    /// One step.
    pub timeline: &'a Timeline,
    /// The card that it should fit, or another capacity.
    pub capacity: Option<&'a Capacity>,
}

/// Neighbouring events, seen at the one after which most is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The column's first event, counted from 0 at the first event after loading.
    pub first: usize,
    /// The first of the column's events after which most is alive; an index of
    /// [`Timeline::events`].
    pub event: usize,
    /// The phase of that event.
    pub phase: Phase,
    /// Requested bytes alive after it, indexed by [`Category`].
    pub live: [u64; Category::COUNT],
}

impl Column {
    /// Requested bytes alive, in all categories.
    pub fn bytes(&self) -> u64 {
        self.live.iter().sum()
    }
}

/// The events after the model was built, in at most `most` columns of about equal length.
pub fn columns(timeline: &Timeline, most: usize) -> Vec<Column> {
    let (count, _) = step_events(timeline);
    let most = most.min(count);
    let mut columns: Vec<Column> = Vec::with_capacity(most);
    let (mut live, mut number) = ([0u64; Category::COUNT], 0);
    timeline.walk(|event, what, phase, bytes| {
        timeline.tally(what, &mut live);
        if phase == Phase::Load || most == 0 {
            return;
        }
        let column = Column {
            first: number,
            event,
            phase,
            live,
        };
        // The column of event `n` of `count` is `n * most / count`, rounded down.
        match columns.last_mut() {
            Some(last) if number * most / count < last.first * most / count + 1 => {
                if bytes > last.bytes() {
                    *last = Column {
                        first: last.first,
                        ..column
                    };
                }
            }
            _ => columns.push(column),
        }
        number += 1;
    });
    columns
}

/// How many events follow the model's construction, and where among them the phases begin.
fn step_events(timeline: &Timeline) -> (usize, Vec<(usize, Phase)>) {
    let (mut count, mut bands) = (0, Vec::new());
    timeline.walk(|_, _, phase, _| {
        if phase == Phase::Load {
            return;
        }
        if bands.last().is_none_or(|&(_, last)| last != phase) {
            bands.push((count, phase));
        }
        count += 1;
    });
    (count, bands)
}

/// Draws the live bytes of one step.
pub fn timeline(input: &LiveBytes<'_>) -> Scene {
    let columns = columns(input.timeline, COLUMNS);
    let (count, bands) = step_events(input.timeline);
    let peak = columns
        .iter()
        .copied()
        .reduce(|best, c| if c.bytes() > best.bytes() { c } else { best });
    let most = peak.map_or(0, |peak| peak.bytes());
    let drawn = input
        .capacity
        .filter(|c| c.bytes.0 as f64 <= OFF_THE_SCALE * most as f64);

    let mut scene = Scene::new(input.title, WIDTH);
    let captions = captions(input, peak, count, drawn.is_none());
    let end = head(&mut scene, input.title, &captions);
    let room = 1.16 * (most as f64).max(1.0);
    let top = drawn.map_or(room, |c| room.max(1.1 * c.bytes.0 as f64));
    let ticks = byte_ticks(top, 6.0);
    let plot = Plot {
        left: MARGIN + ticks.width() + 8.0,
        top: end + 50.0,
        right: WIDTH - MARGIN - 24.0 - legend_width(peak.as_ref()),
        bottom: end + 50.0 + 380.0,
    };
    scene.height = plot.bottom + 48.0;
    let height = |bytes: f64| bytes / top;
    let x = |event: usize| plot.x(event as f64 / count.max(1) as f64);

    for (i, &(first, _)) in bands.iter().enumerate() {
        if i % 2 == 1 {
            let last = bands.get(i + 1).map_or(count, |band| band.0);
            scene.rect([x(first), plot.top, x(last), plot.bottom], BAND);
        }
    }
    plot.horizontal_axis(&mut scene, &count_ticks(count as f64, 8.0), |v| {
        v / count.max(1) as f64
    });
    plot.vertical_axis(&mut scene, &ticks, height);
    plot.vertical_title(
        &mut scene,
        30.0,
        &format!("requested memory alive ({})", ticks.unit),
    );
    for (depth, &(category, colour)) in STACK.iter().enumerate().rev() {
        if columns.iter().all(|c| c.live[category as usize] == 0) {
            continue;
        }
        let below = |c: &Column| -> u64 {
            let parts = STACK[..=depth].iter();
            parts.map(|&(category, _)| c.live[category as usize]).sum()
        };
        let steps = columns
            .iter()
            .map(|c| (x(c.first), plot.y(height(below(c) as f64))));
        scene.shapes.push(Shape::Steps {
            steps: steps.collect(),
            right: plot.right,
            base: plot.bottom,
            colour,
        });
    }
    draw_bands(&mut scene, &plot, &bands, count);
    plot.frame(&mut scene);
    plot.horizontal_title(&mut scene, "events: allocations and frees, in order");

    let capacity_y = drawn.map(|c| plot.y(height(c.bytes.0 as f64)));
    let peak_box = peak.map(|peak| {
        // The middle of the column in which the peak is.
        let next = columns.iter().map(|c| c.first).find(|&f| f > peak.first);
        let centre = (x(peak.first) + x(next.unwrap_or(count))) / 2.0;
        let at = (centre, plot.y(height(peak.bytes() as f64)));
        let bands: Vec<_> = bands
            .iter()
            .map(|&(first, phase)| (x(first), phase))
            .collect();
        draw_peak(&mut scene, &plot, at, &peak, capacity_y, &bands)
    });
    if let (Some(capacity), Some(y)) = (drawn, capacity_y) {
        draw_capacity(&mut scene, &plot, capacity, y, peak_box);
    }
    if let Some(peak) = peak {
        draw_legend(&mut scene, plot.right + 24.0, plot.top, &peak, &columns);
    }
    scene
}

fn captions(
    input: &LiveBytes<'_>,
    peak: Option<Column>,
    count: usize,
    capacity_is_off: bool,
) -> Vec<String> {
    let Some(peak) = peak else {
        return vec!["nothing happens after the model was built".to_owned()];
    };
    let loaded = input.timeline.events.len() - count;
    let mut text = format!(
        "peak {} requested, in the {}, after event {} of {}",
        Bytes(peak.bytes()),
        match peak.phase {
            Phase::Load => "loading",
            Phase::Forward => "forward pass",
            Phase::Backward => "backward pass",
            Phase::Step => "optimizer step",
        },
        grouped((peak.event + 1).saturating_sub(loaded) as i128),
        grouped(count as i128),
    );
    if let Some(capacity) = input.capacity
        && capacity_is_off
    {
        text += &format!(
            "; capacity of {} {}, off the scale",
            capacity.name, capacity.bytes
        );
    }
    vec![text]
}

/// The names of the phases above the plot, and lines between them.
fn draw_bands(scene: &mut Scene, plot: &Plot, bands: &[(usize, Phase)], count: usize) {
    let x = |event: usize| plot.x(event as f64 / count.max(1) as f64);
    let labels: Vec<(String, f64, f64)> = bands
        .iter()
        .enumerate()
        .map(|(i, &(first, phase))| {
            let last = bands.get(i + 1).map_or(count, |band| band.0);
            let label = phase.to_string();
            let width = text_width(&label, LABEL, true);
            (label, (x(first) + x(last)) / 2.0, width)
        })
        .collect();
    // A label wants to be in the middle of its band; a narrow band's is moved, and left out only
    // where many bands leave no room at all.
    let total: f64 = labels.iter().map(|l| l.2 + 10.0).sum();
    let crowded = total > plot.right - plot.left;
    let mut centres = vec![0.0; labels.len()];
    let mut least = plot.left;
    for (i, (_, wanted, width)) in labels.iter().enumerate() {
        centres[i] = wanted.max(least + width / 2.0);
        least = centres[i] + width / 2.0 + 10.0;
    }
    let mut most = plot.right;
    for (i, (_, _, width)) in labels.iter().enumerate().rev() {
        centres[i] = centres[i].min(most - width / 2.0);
        most = centres[i] - width / 2.0 - 10.0;
    }
    for (i, &(first, _)) in bands.iter().enumerate() {
        if first > 0 {
            scene.dashed((x(first), plot.top), (x(first), plot.bottom), 1.0, AXIS);
        }
        if !crowded {
            let text = scene.text(centres[i], plot.top - 6.0, LABEL, &labels[i].0);
            text.align = Align::Centre;
            text.bold = true;
            text.colour = GREY;
        }
    }
}

/// A dot at the peak and its label; returns the label's box.
fn draw_peak(
    scene: &mut Scene,
    plot: &Plot,
    at: (f64, f64),
    peak: &Column,
    capacity: Option<f64>,
    bands: &[(f64, Phase)],
) -> [f64; 4] {
    let label = format!("peak {}, {}", Bytes(peak.bytes()), peak.phase);
    let width = text_width(&label, LABEL, true);
    // Beside the dot, since a phase often begins where the peak is.
    let left = if at.0 + 8.0 + width <= plot.right {
        at.0 + 8.0
    } else {
        (at.0 - 8.0 - width).max(plot.left + 4.0)
    };
    let mut y = at.1 - 7.0;
    // Over the capacity's line rather than through it.
    if let Some(line) = capacity
        && (y - LABEL - 3.0..=y + 7.0).contains(&line)
    {
        let above = line - 8.0;
        let fits = above - LABEL >= plot.top;
        y = if fits { above } else { at.1 + 12.0 + LABEL };
    }
    let bounds = [left - 3.0, y - LABEL, left + width + 3.0, y + 4.0];
    let crossed = bands
        .iter()
        .any(|&(x, _)| (bounds[0]..=bounds[2]).contains(&x));
    if crossed || bounds[3] > at.1 {
        scene.rect(bounds, WHITE);
    }
    scene.marker(at, 4.5, Mark::Disc, INK);
    scene.text(left, y, LABEL, &label).bold = true;
    bounds
}

/// The capacity's line, with its label where the peak's is not.
fn draw_capacity(
    scene: &mut Scene,
    plot: &Plot,
    capacity: &Capacity,
    y: f64,
    peak: Option<[f64; 4]>,
) {
    // Dark on a white ground: it may cross any of the areas.
    scene.rect([plot.left, y - 1.5, plot.right, y + 1.5], WHITE);
    scene.dashed((plot.left, y), (plot.right, y), 1.5, INK);
    let label = format!("capacity of {}", capacity.label());
    let label = shorten(&label, LABEL, false, plot.right - plot.left - 24.0);
    let width = text_width(&label, LABEL, false);
    let places = [y - 6.0, y + LABEL + 5.0].into_iter().flat_map(|baseline| {
        [plot.left + 8.0, plot.right - 8.0 - width].map(|left| {
            [
                left - 3.0,
                baseline - LABEL,
                left + width + 3.0,
                baseline + 5.0,
            ]
        })
    });
    let clear = |b: &[f64; 4]| {
        let inside = b[1] >= plot.top && b[3] <= plot.bottom;
        inside && peak.is_none_or(|p| b[0] > p[2] || p[0] > b[2] || b[1] > p[3] || p[1] > b[3])
    };
    if let Some(bounds) = places.into_iter().find(clear) {
        scene.rect(bounds, WHITE);
        scene.text(bounds[0] + 3.0, bounds[3] - 5.0, LABEL, &label);
    }
}

/// The width of the legend, in pixels: names, and as much as the sizes need.
fn legend_width(peak: Option<&Column>) -> f64 {
    let width = peak.map_or(0.0, |peak| {
        let sizes = peak.live.into_iter().chain([peak.bytes()]);
        sizes
            .map(|bytes| text_width(&Bytes(bytes).to_string(), LABEL, true))
            .fold(0.0, f64::max)
    });
    (116.0 + width).max(180.0)
}

/// The categories in the order of the stack, with what each has at the peak.
fn draw_legend(scene: &mut Scene, left: f64, top: f64, peak: &Column, columns: &[Column]) {
    let right = WIDTH - MARGIN;
    let mut y = top + LABEL;
    scene.text(left, y, LABEL, "alive at the peak").bold = true;
    y += 1.4 * LEADING;
    for &(category, colour) in STACK.iter().rev() {
        if columns.iter().all(|c| c.live[category as usize] == 0) {
            continue;
        }
        let middle = y - HALF_CAPITAL * LABEL;
        scene.rect([left, middle - 6.0, left + 12.0, middle + 6.0], colour);
        scene.text(left + 19.0, y, LABEL, &category.to_string());
        let size = Bytes(peak.live[category as usize]).to_string();
        scene.text(right, y, LABEL, &size).align = Align::Right;
        y += 1.25 * LEADING;
    }
    let line = y - LABEL - 2.0;
    scene.line(&[(left, line), (right, line)], 1.0, AXIS);
    y += 4.0;
    scene.text(left + 19.0, y, LABEL, "together").bold = true;
    let total = scene.text(right, y, LABEL, &Bytes(peak.bytes()).to_string());
    total.align = Align::Right;
    total.bold = true;
    y += 2.0 * LEADING;
    for line in wrap(
        "Each column of the chart is the highest moment of its events.",
        SMALL,
        false,
        right - left,
        4,
    ) {
        scene.text(left, y, SMALL, &line).colour = GREY;
        y += 15.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg;
    use crate::tidy::{assert_tidy, assert_xml};
    use proptest::prelude::*;
    use vramcast::bytes::{GIB, MIB};
    use vramcast::timeline::{Buffer, Event, ScopeId, Work};

    /// A timeline from allocations; `frees` says of each whether one of the living goes first.
    fn story(allocations: &[(u64, usize, bool)], forward: usize, backward: usize) -> Timeline {
        let mut timeline = Timeline::default();
        let (mut alive, mut phase) = (Vec::new(), Phase::Load);
        for (i, &(bytes, category, frees)) in allocations.iter().enumerate() {
            for (at, begins) in [(forward, Phase::Forward), (backward, Phase::Backward)] {
                if i == at {
                    timeline.events.push(Event::Begin(begins));
                    phase = begins;
                }
            }
            if frees && !alive.is_empty() {
                let freed = alive.swap_remove(bytes as usize % alive.len());
                timeline.events.push(Event::Free(freed));
            }
            timeline.events.push(Event::Alloc(i as u32));
            alive.push(i as u32);
            timeline.buffers.push(Buffer {
                bytes,
                category: Category::all().nth(category % Category::COUNT).unwrap(),
                phase,
                scope: ScopeId::NONE,
                op: "test",
                work: Work::Upload,
            });
        }
        timeline
    }

    fn draw(timeline: &Timeline, capacity: Option<u64>) -> Scene {
        let capacity = capacity.map(|bytes| Capacity {
            name: "NVIDIA H200".to_owned(),
            bytes: Bytes(bytes),
        });
        super::timeline(&LiveBytes {
            title: "a model: training, batch 8, sequence 128",
            timeline,
            capacity: capacity.as_ref(),
        })
    }

    fn typical() -> Timeline {
        story(
            &[
                (GIB, 0, false),
                (2 * GIB, 2, false),
                (MIB, 5, false),
                (GIB, 3, false),
                (GIB, 4, false),
                (GIB, 1, true),
            ],
            2,
            4,
        )
    }

    #[test]
    fn the_chart_names_what_it_shows() {
        let text = svg(&draw(&typical(), Some(8 * GIB)));
        for part in [
            "a model: training, batch 8, sequence 128",
            "forward",
            "backward",
            "parameters",
            "optimizer",
            "activations",
            "peak 5.00 GiB, backward",
            "requested memory alive (GiB)",
            "capacity of NVIDIA H200 8.00 GiB",
        ] {
            assert!(text.contains(part), "{part}");
        }
        assert_xml(&text);
    }

    #[test]
    fn a_capacity_far_above_the_peak_is_a_note() {
        let text = svg(&draw(&typical(), Some(140 * GIB)));
        assert!(text.contains("capacity of NVIDIA H200 140.0 GiB, off the scale"));
    }

    #[test]
    fn the_highest_column_is_the_peak_of_the_timeline() {
        let timeline = typical();
        let peak = timeline.peak().unwrap();
        for most in [1, 2, 3, COLUMNS] {
            let columns = columns(&timeline, most);
            assert!(columns.len() <= most);
            let highest = columns.iter().find(|c| c.bytes() == peak.bytes).unwrap();
            assert_eq!((highest.event, highest.phase), (peak.event, peak.phase));
        }
    }

    #[test]
    fn a_timeline_without_a_step_is_an_empty_chart() {
        let scene = draw(&Timeline::default(), Some(GIB));
        assert_tidy(&scene);
        assert!(svg(&scene).contains("nothing happens"));
    }

    #[test]
    fn the_worst_timeline_still_makes_a_small_file() {
        let allocations: Vec<_> = (0..20_000u64)
            .map(|i| ((i * 7919) % 1000 * MIB, i as usize, i % 5 != 0))
            .collect();
        let text = svg(&draw(&story(&allocations, 0, 9_000), None));
        assert!(text.len() < 150_000, "{} bytes", text.len());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_timeline_breaks_the_chart_or_loses_its_peak(
            allocations in prop::collection::vec((0u64..1 << 45, 0usize..6, any::<bool>()), 0..3_000),
            small in 0u32..45,
            forward in 0usize..100,
            backward in 0usize..3_000,
            capacity in prop::option::of(0u64..1 << 50),
            most in 1usize..2_000,
        ) {
            let allocations: Vec<_> =
                allocations.into_iter().map(|(b, c, f)| (b >> small, c, f)).collect();
            let timeline = story(&allocations, forward, backward);
            let highest = columns(&timeline, most).iter().map(Column::bytes).max();
            prop_assert_eq!(highest, timeline.peak().map(|p| p.bytes));
            let scene = draw(&timeline, capacity);
            assert_tidy(&scene);
            let text = svg(&scene);
            assert_xml(&text);
            prop_assert_eq!(&text, &svg(&draw(&timeline, capacity)));
            prop_assert!(text.len() < 150_000);
        }
    }
}
