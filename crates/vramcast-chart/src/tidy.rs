//! What every chart must be, whatever it shows: nothing clipped, no text on another, well-formed.

use crate::scene::{Scene, Shape};

/// Fails if a label leaves the page, lies on another label, or a coordinate is not a number.
pub(crate) fn assert_tidy(scene: &Scene) {
    let boxes: Vec<_> = scene.texts().map(|t| (t.bounds(), &t.text)).collect();
    for ([left, top, right, bottom], text) in &boxes {
        let inside =
            *left >= 0.0 && *top >= 0.0 && *right <= scene.width && *bottom <= scene.height;
        assert!(inside, "clipped: `{text}` at {left} {top} {right} {bottom}");
    }
    let mut order: Vec<usize> = (0..boxes.len()).collect();
    order.sort_by(|&a, &b| boxes[a].0[1].total_cmp(&boxes[b].0[1]));
    for (n, &i) in order.iter().enumerate() {
        let (a, text) = boxes[i];
        for &j in &order[n + 1..] {
            let (b, other) = boxes[j];
            if b[1] >= a[3] {
                break;
            }
            // The boxes reach from the tallest letter to the deepest: they may touch.
            let overlap = a[0] < b[2] && b[0] < a[2] && b[1] + 1.0 < a[3];
            assert!(!overlap, "`{text}` at {a:?} and `{other}` at {b:?} overlap");
        }
    }
    for shape in &scene.shapes {
        let points: Vec<(f64, f64)> = match shape {
            Shape::Rect { bounds: b, .. } => vec![(b[0], b[1]), (b[2], b[3])],
            Shape::Steps { steps, .. } => steps.clone(),
            Shape::Line { points, .. } => points.clone(),
            Shape::Marker { at, .. } => vec![*at],
            Shape::Text(_) => vec![],
        };
        for (x, y) in points {
            let inside =
                (-1.0..=scene.width + 1.0).contains(&x) && (-1.0..=scene.height + 1.0).contains(&y);
            assert!(inside, "{x} {y} is outside: {shape:?}");
        }
    }
}

/// Fails if the text is not XML with a title.
pub(crate) fn assert_xml(svg: &str) {
    let document = roxmltree::Document::parse(svg).expect("well-formed");
    let root = document.root_element();
    assert_eq!(root.tag_name().name(), "svg");
    assert!(
        root.children()
            .any(|n| n.has_tag_name("title") || n.tag_name().name() == "title")
    );
}
