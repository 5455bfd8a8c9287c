//! Draws predictions and records: each chart is a function from plain values to a [`Scene`], and
//! [`svg()`] and [`png()`] turn a scene into a document.
//!
//! Constraint: no IO and no font of the machine. Same input, same bytes out; the CLI writes files.
//!
//! ```
//! use vramcast::bytes::{Bytes, MIB};
//! use vramcast_chart::{components, svg, Component, Components};
//!
//! let scene = components(&Components {
//!     title: "bert-base-uncased training, batch 8",
//!     quantity: "requested memory",
//!     rows: &[Component {
//!         label: "peak".to_owned(),
//!         predicted: Bytes(4823 * MIB),
//!         measured: Some(Bytes(4823 * MIB)),
//!     }],
//! });
//! assert!(svg(&scene).contains("+0 B"));
//! ```

mod canvas;
mod components;
mod difference;
mod heatmap;
mod lengths;
mod peaks;
mod savings;
mod scene;
mod style;
mod suite;
mod timeline;
mod waterfall;

pub use canvas::{PngError, png, svg};
pub use components::{Component, Components, components};
pub use difference::{Growth, Growths, Rank, difference};
pub use heatmap::{HeatMap, heatmap};
pub use lengths::{Lengths, lengths};
pub use peaks::{Peaks, Series, peaks};
pub use savings::{Lever, Saving, Savings, savings};
pub use scene::{Align, Mark, Scene, Shape, Text, is_hidden, text_width};
pub use style::{Capacity, Colour, DARK};
pub use suite::{Suite, SuitePoint, suite};
pub use timeline::{COLUMNS, Column, LiveBytes, columns, timeline};
pub use waterfall::{Change, Waterfall, waterfall};

#[cfg(test)]
mod tidy;
