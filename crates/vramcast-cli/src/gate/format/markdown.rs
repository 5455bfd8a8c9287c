//! For a pull request or the summary of a job.

use super::{explanation, headline, lines};
use crate::difference;
use crate::gate::{Checked, Report};
use vramcast::config::quoted;

pub(crate) fn markdown(report: &Report) -> String {
    let mut text = format!("### GPU memory: {}\n\n", escaped(&headline(report)));
    text += "| | workload | |\n|---|---|---|\n";
    for workload in &report.workloads {
        let said: Vec<String> = lines(workload).iter().map(|line| escaped(line)).collect();
        text += &format!(
            "| {} | {} | {} |\n",
            workload.level(),
            escaped(&quoted(&workload.name)),
            said.join("<br>")
        );
    }
    for workload in report.workloads.iter().filter(|w| w.grew()) {
        text += &regression(report, workload);
    }
    for note in report.notes.iter().chain(&report.update) {
        text += &format!("\n{}\n", escaped(note));
    }
    text
}

fn regression(report: &Report, workload: &Checked) -> String {
    let mut text = format!(
        "\n#### {}\n\n{}, in line {} of {}\n",
        escaped(&quoted(&workload.name)),
        escaped(&workload.source),
        workload.line,
        escaped(&report.file.display().to_string()),
    );
    for line in workload.title.iter().chain(&explanation(workload)) {
        text += &format!("\n{}\n", escaped(line));
    }
    let Some(difference) = &workload.difference else {
        return text;
    };
    text += &table("baseline", "now", &difference::rows(difference));
    if let Some(unchanged) = difference::unchanged(difference) {
        text += &format!("\n{}\n", escaped(&unchanged));
    }
    text
}

/// A table of what changed.
fn table(before: &str, after: &str, rows: &[Vec<String>]) -> String {
    let mut text = format!(
        "\n{}|---|--:|--:|--:|--:|\n",
        cells(&difference::header(before, after))
    );
    for row in rows {
        // Leading blanks do not indent in Markdown.
        let depth = row[0].len() - row[0].trim_start().len();
        let blanks = "&nbsp;".repeat(depth.saturating_sub(2));
        let label = format!("{blanks}{}", escaped(row[0].trim_start()));
        let rest = row[1..].iter().map(|cell| escaped(cell));
        let row: Vec<String> = std::iter::once(label).chain(rest).collect();
        text += &cells(&row);
    }
    text
}

fn cells<T: AsRef<str>>(cells: &[T]) -> String {
    let cells: Vec<&str> = cells.iter().map(AsRef::as_ref).collect();
    format!("| {} |\n", cells.join(" | "))
}

/// The text without what Markdown would read as its own.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}
