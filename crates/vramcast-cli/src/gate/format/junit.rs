//! JUnit XML, which most CI systems show as tests. No clock: the same answer is the same file.

use super::{explanation, headline, lines};
use crate::gate::{Checked, Report};
use anyhow::Result;
use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};
use vramcast::gate::Level;

pub(crate) fn junit(report: &Report) -> Result<String> {
    let mut suite = TestSuite::new(report.file.display().to_string());
    suite.add_test_cases(report.workloads.iter().map(|w| case(report, w)));
    suite.set_system_out(headline(report));
    let mut document = quick_junit::Report::new("vramcast");
    document.add_test_suite(suite);
    Ok(document.to_string()?)
}

fn case(report: &Report, workload: &Checked) -> TestCase {
    let said = lines(workload);
    let text: Vec<String> = said.iter().cloned().chain(explanation(workload)).collect();
    let text = text.join("\n");
    let status = match workload.level() {
        Level::Pass | Level::Warn => TestCaseStatus::success(),
        Level::Fail => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_type("memory").set_description(text.as_str());
            if let Some(first) = said.first() {
                status.set_message(first.as_str());
            }
            status
        }
    };
    let mut case = TestCase::new(workload.name.as_str(), status);
    case.set_classname("vramcast");
    let place = [
        ("file", report.file.display().to_string()),
        ("line", workload.line.to_string()),
    ];
    for (key, value) in place {
        case.extra.insert(key.into(), value.into());
    }
    if workload.level() != Level::Fail {
        case.set_system_out(format!("{}: {text}", workload.level()));
    }
    case
}
