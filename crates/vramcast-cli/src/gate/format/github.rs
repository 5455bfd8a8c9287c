//! Annotations for GitHub Actions: workflow commands that a runner reads from a job's output.

use super::{explanation, lines};
use crate::gate::problem::Problem;
use crate::gate::{Checked, Report};
use std::path::Path;
use vramcast::gate::Level;

/// An annotation for each workload that does not just pass.
pub(crate) fn annotations(report: &Report) -> String {
    let workload = |workload: &Checked| {
        let command = match workload.level() {
            Level::Pass => return None,
            Level::Warn => "warning",
            Level::Fail => "error",
        };
        let text: Vec<String> = lines(workload)
            .into_iter()
            .chain(explanation(workload))
            .collect();
        let title = format!("GPU memory: {}", workload.name);
        let place = (report.file.as_path(), workload.line);
        Some(annotation(command, place, &title, &text.join("\n")))
    };
    report.workloads.iter().filter_map(workload).collect()
}

/// An annotation of what keeps the gate from answering.
pub(crate) fn problem(problem: &Problem) -> String {
    let place = (problem.file.as_path(), problem.line);
    annotation("error", place, "GPU memory: no answer", &problem.text)
}

fn annotation(command: &str, (file, line): (&Path, usize), title: &str, text: &str) -> String {
    format!(
        "::{command} file={},line={line},title={}::{}\n",
        property(&file.display().to_string()),
        property(title),
        data(text)
    )
}

/// As the runner's own toolkit escapes a message.
fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// And a property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_a_command_or_a_property_is_escaped() {
        let place = (Path::new("a,b.toml"), 3);
        assert_eq!(
            annotation("error", place, "x: y", "50 %, by: a\nb"),
            "::error file=a%2Cb.toml,line=3,title=x%3A y::50 %25, by: a%0Ab\n"
        );
    }
}
