//! What people read: tables, lines and progress. Data goes to stdout, everything else to stderr.

use anyhow::Context;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::Write;
use std::ops::RangeBounds;
use std::time::Duration;
use vramcast::accuracy::Spread;
use vramcast::bytes::{Bytes, grouped};
use vramcast::compare::{Entry, Row};
use vramcast::gpu;
use vramcast::predict::{Prediction, Verdict};

/// Prints to stdout; a broken pipe is an error that the caller can tell from others.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let written = write!(out, "{text}{end}").and_then(|()| out.flush());
    written.context("the answer cannot be written to stdout")
}

/// Prints a value as indented JSON to stdout.
pub(crate) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    print(&serde_json::to_string_pretty(value)?)
}

/// One line on stderr: the error and what caused it.
pub(crate) fn complain(error: &anyhow::Error) {
    remark(&format!("error: {error:#}"));
}

/// A remark on stderr. Where nobody can be told, there is nothing else to do.
pub(crate) fn remark(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// A spinner for something that takes longer than a second. It draws nothing where stderr is no
/// terminal.
pub(crate) fn spinner(text: String) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(text);
    bar.set_style(style("{spinner} {msg} {elapsed}"));
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// A bar over `count` things.
pub(crate) fn bar(count: usize) -> ProgressBar {
    let bar = ProgressBar::new(count as u64);
    bar.set_style(style("{bar:30} {pos}/{len} {msg} {elapsed}"));
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// A bar over the bytes of an input, whose size need not be known.
pub(crate) fn bytes_bar(size: Option<u64>) -> ProgressBar {
    let (bar, template) = match size {
        Some(size) => (
            ProgressBar::new(size),
            "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta} left",
        ),
        None => (
            ProgressBar::new_spinner(),
            "{spinner} {bytes} {bytes_per_sec} {elapsed}",
        ),
    };
    bar.set_style(style(template));
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// A table without lines: the columns in `numbers` to the right, words to the left.
pub(crate) fn table(
    header: &[&str],
    numbers: impl RangeBounds<usize>,
    rows: Vec<Vec<String>>,
) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header.to_vec());
    for row in rows {
        table.add_row(row);
    }
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if numbers.contains(&i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
        .to_string()
        .lines()
        .map(str::trim_end)
        .collect::<Vec<_>>()
        .join("\n")
}

/// The answer in one line: what it takes, and what there is.
pub(crate) fn headline(p: &Prediction) -> String {
    let mut takes = format!("{} by NVML", p.peak_nvml);
    if p.peak_nvml_low != p.peak_nvml_high {
        takes += &format!(" ({} to {})", p.peak_nvml_low, p.peak_nvml_high);
    }
    let word = match p.verdict {
        Verdict::Unknown => return format!("needs {takes}"),
        Verdict::Fits => "fits",
        Verdict::Tight => "tight",
        Verdict::Oom => "does not fit",
    };
    // An allocator that gives its cache back runs in less than it takes where there is room.
    let less = p.need.filter(|need| *need < p.peak_reserved);
    let needs = match less.and_then(|need| need.plus(p.context).ok()) {
        Some(need) => format!("needs {need}, takes up to {takes}"),
        None => format!("needs {takes}"),
    };
    // A capacity that was given stands instead of the card's.
    let there_is = p.capacity.map(|capacity| {
        let card = p.gpu.as_deref().and_then(gpu::find);
        match card.filter(|g| g.capacity().0 == capacity.0) {
            Some(card) => format!("{} has {capacity}", card.name),
            None => format!("{capacity} was given"),
        }
    });
    let may = p
        .allocator_limit
        .map(|limit| format!("the allocator may reserve {limit}"));
    let there_is: Vec<String> = there_is.into_iter().chain(may).collect();
    format!("{word}: {needs}; {}", there_is.join(", "))
}

/// The ledger as a table; the columns of a measurement appear only where there is one.
pub(crate) fn ledger(entries: &[Entry]) -> String {
    let measured = entries.iter().any(|e| e.measured.is_some());
    let rows = entries.iter().map(|e| {
        let label = match e.row {
            Row::Part => format!("  {}", e.label),
            Row::Sum => format!("= {}", e.label),
        };
        let bytes = |b: Bytes| grouped(i128::from(b.0));
        let mut cells = vec![label, bytes(e.predicted), e.predicted.to_string()];
        if measured {
            cells.truncate(2);
            cells.push(e.measured.map_or_else(String::new, bytes));
            cells.push(e.difference().map_or_else(String::new, difference));
        }
        cells
    });
    let mut rows: Vec<Vec<String>> = rows.collect();
    if let Some(residual) = entries.last().and_then(Entry::difference) {
        rows.push(vec![
            "  residual".to_owned(),
            String::new(),
            String::new(),
            difference(residual),
        ]);
    }
    let header: &[&str] = if measured {
        &["", "predicted B", "measured B", "difference B"]
    } else {
        &["", "bytes", ""]
    };
    table(header, 1.., rows)
}

/// A difference in bytes, with its sign.
pub(crate) fn difference(bytes: i128) -> String {
    if bytes > 0 {
        format!("+{}", grouped(bytes))
    } else {
        grouped(bytes)
    }
}

/// A relative error in percent; 0 is exact, and has no digits.
pub(crate) fn percent(error: f64) -> String {
    if error == 0.0 {
        "0".to_owned()
    } else {
        format!("{:.2} %", 100.0 * error)
    }
}

/// One row of a summary: exact, near, median, p95, worst, signed median.
pub(crate) fn spread(name: String, spread: Spread) -> Vec<String> {
    vec![
        name,
        format!("{}/{}", spread.exact, spread.count),
        spread.near.to_string(),
        percent(spread.median),
        percent(spread.p95),
        percent(spread.worst),
        percent(spread.signed_median),
    ]
}
