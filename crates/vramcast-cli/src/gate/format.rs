//! The answer of a gate as text, JSON, Markdown, annotations for GitHub and JUnit XML. All of them
//! say the same.

mod github;
mod json;
mod junit;
mod markdown;
mod text;

pub(crate) use github::{annotations, problem};
pub(crate) use json::json;
pub(crate) use junit::junit;
pub(crate) use markdown::markdown;
pub(crate) use text::text;

use super::{Checked, Report};
use crate::difference;
use std::cmp::Reverse;
use vramcast::bytes::Bytes;
use vramcast::config::quoted;
use vramcast::gate::{Finding, Level, What};

/// The verdict in one line.
fn headline(report: &Report) -> String {
    let of = |level: Level| report.workloads.iter().filter(move |w| w.level() == level);
    let all = report.workloads.len();
    let failed = of(Level::Fail).count();
    let warned = of(Level::Warn).count();
    let mut line = match (failed, all) {
        (0, 1) => "the workload passes".to_owned(),
        (0, all) => format!("all {all} workloads pass"),
        (_, 1) => "the workload fails".to_owned(),
        (failed, all) if failed == all => format!("all {all} workloads fail"),
        (failed, all) => format!("{} of {all} workloads pass", all - failed),
    };
    let level = if failed > 0 { Level::Fail } else { Level::Warn };
    let reasons: Vec<String> = of(level).filter_map(|w| reason(w, level)).collect();
    if failed == 0 && warned > 0 {
        line += &match (warned, all) {
            (_, 1) => ", with a warning".to_owned(),
            (1, _) => ", one with a warning".to_owned(),
            (n, _) => format!(", {n} with warnings"),
        };
    }
    if let Some(first) = reasons.first() {
        line += &format!("; {first}");
    }
    if reasons.len() > 1 {
        line += &format!(", and {} more", reasons.len() - 1);
    }
    line
}

/// Why a workload does not pass, in a few words.
fn reason(workload: &Checked, level: Level) -> Option<String> {
    let name = quoted(&workload.name);
    let finding = workload.findings.iter().filter(|f| f.level == level);
    // What the runtime counts says more than what NVML shows.
    let finding = finding.max_by_key(|f| rank(f, workload))?;
    Some(match &finding.what {
        What::Grew { change, .. } => format!("{name} grew {} over the baseline", change.by()),
        What::Shrank { .. } => format!("{name} shrank"),
        What::OverBudget { budget, bytes, .. } => format!(
            "{name} is {} over its budget",
            Bytes(bytes.0.saturating_sub(budget.0))
        ),
        What::MayExceedBudget { .. } => format!("{name} may exceed its budget"),
        What::Card { .. } if level == Level::Fail => format!("{name} does not fit its card"),
        What::Card { .. } => format!("{name} is tight on its card"),
        What::OutOfMemory { .. } => format!("{name} ran out of memory"),
        What::NoBaseline { .. } => format!("{name} has no baseline"),
        What::NotKnown { .. } => format!("{name} has a budget for what is not known"),
    })
}

/// Which of several findings is named first: the highest.
fn rank(finding: &Finding, workload: &Checked) -> u8 {
    let counted = workload.figures.counted().map(|(figure, _)| figure);
    match &finding.what {
        What::OutOfMemory { .. } => 5,
        What::Card { .. } => 4,
        What::Grew { figure, .. } | What::Shrank { figure, .. } if Some(*figure) == counted => 3,
        What::OverBudget { .. } => 2,
        What::Grew { .. } | What::Shrank { .. } => 1,
        What::MayExceedBudget { .. } | What::NoBaseline { .. } | What::NotKnown { .. } => 0,
    }
}

/// What is said of a workload: the growth that says most, since a table has the rest, and every other
/// finding; or that there is none.
fn lines(workload: &Checked) -> Vec<String> {
    let mut findings: Vec<&Finding> = workload.findings.iter().collect();
    findings.sort_by_key(|finding| Reverse((finding.level, rank(finding, workload))));
    let is_of_baseline = |what: &What| matches!(what, What::Grew { .. } | What::Shrank { .. });
    let mut compared = false;
    let mut lines = Vec::new();
    for finding in findings {
        if is_of_baseline(&finding.what) && std::mem::replace(&mut compared, true) {
            continue;
        }
        lines.push(finding.to_string());
    }
    if lines.is_empty() {
        lines.push(match workload.figures.counted() {
            Some((figure, bytes)) => format!("{figure} {bytes}, as in the baseline"),
            None => "as in the baseline".to_owned(),
        });
    }
    lines
}

/// Where a regression comes from, if that is known: the component and its layers, and the phases.
fn explanation(workload: &Checked) -> Vec<String> {
    let Some(difference) = workload.difference.as_ref().filter(|_| workload.grew()) else {
        return Vec::new();
    };
    let component = difference::explanation(difference).map(|text| match workload.explained {
        true => format!("by prediction, {text}"),
        false => text,
    });
    let phases = difference::phases(difference);
    component.into_iter().chain(phases).collect()
}
