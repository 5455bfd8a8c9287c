//! For the terminal.

use super::{explanation, headline, lines};
use crate::gate::{Checked, Report};
use crate::{difference, output};
use vramcast::config::quoted;

/// The verdict first, then a line a workload, then what each regression is made of.
pub(crate) fn text(report: &Report) -> String {
    let mut text = format!("{}\n\n", headline(report));
    let name = |workload: &Checked| quoted(&workload.name);
    let width = report
        .workloads
        .iter()
        .map(|w| name(w).chars().count())
        .max();
    let width = width.unwrap_or_default();
    for workload in &report.workloads {
        let (level, name) = (workload.level().to_string(), name(workload));
        for (i, line) in lines(workload).into_iter().enumerate() {
            text += &match i {
                0 => format!("{level}  {name:width$}  {line}\n"),
                _ => format!("      {:width$}  {line}\n", ""),
            };
        }
    }
    for workload in report.workloads.iter().filter(|w| w.grew()) {
        text += &regression(report, workload);
    }
    if !report.notes.is_empty() || report.update.is_some() {
        text.push('\n');
    }
    for note in &report.notes {
        text += &format!("note: {note}\n");
    }
    if let Some(update) = &report.update {
        text += &format!("{update}\n");
    }
    text
}

fn regression(report: &Report, workload: &Checked) -> String {
    let mut text = format!(
        "\n{} ({}:{}), {}\n",
        quoted(&workload.name),
        report.file.display(),
        workload.line,
        workload.source,
    );
    for line in workload.title.iter().chain(&explanation(workload)) {
        text += &format!("{line}\n");
    }
    let Some(difference) = &workload.difference else {
        return text;
    };
    let header = difference::header("baseline", "now");
    text += &format!(
        "\n{}\n",
        output::table(&header, 1.., difference::rows(difference))
    );
    if let Some(unchanged) = difference::unchanged(difference) {
        text += &format!("{unchanged}\n");
    }
    text
}
