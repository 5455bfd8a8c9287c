//! For programs. Sizes in bytes.

use super::{explanation, headline};
use crate::gate::Report;
use serde_json::{Value, json};
use vramcast::record::SCHEMA;

pub(crate) fn json(report: &Report) -> Value {
    let workload = |w: &crate::gate::Checked| {
        let findings = w.findings.iter().map(|finding| {
            let mut value = json!(finding);
            value["text"] = finding.to_string().into();
            value
        });
        json!({
            "name": w.name,
            "level": w.level(),
            "line": w.line,
            "what": w.title,
            "source": w.source,
            "findings": findings.collect::<Vec<_>>(),
            "explanation": explanation(w),
            "components_are_predicted": w.explained,
            "figures": w.figures,
            "difference": w.difference,
        })
    };
    json!({
        "schema": SCHEMA,
        "level": report.level(),
        "summary": headline(report),
        "file": report.file,
        "baseline": report.baseline,
        "workloads": report.workloads.iter().map(workload).collect::<Vec<_>>(),
        "notes": report.notes,
        "update": report.update,
    })
}
