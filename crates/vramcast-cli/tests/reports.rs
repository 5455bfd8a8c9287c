//! What is committed under `reports/` against what the code says today.

use assert_cmd::Command;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The record files that the accuracy page is made from, in its order.
const RECORDS: [&str; 4] = [
    "candle-h200",
    "candle-h200-again",
    "candle-h200-third",
    "candle-h200-limit",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(names: &[&str]) -> Vec<PathBuf> {
    names
        .iter()
        .map(|name| root().join(format!("reports/records/{name}.jsonl")))
        .collect()
}

fn accuracy(names: &[&str]) -> Value {
    let mut command = Command::cargo_bin("vramcast").unwrap();
    let output = command
        .arg("accuracy")
        .args(files(names))
        .arg("--json")
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_page_and_the_charts_are_what_the_records_give() {
    let out = tempfile::TempDir::new().unwrap();
    let mut command = Command::cargo_bin("vramcast").unwrap();
    command
        .arg("report")
        .args(files(&RECORDS))
        .arg("--out")
        .arg(out.path());
    command.assert().success();
    let mut compared = 0;
    for entry in std::fs::read_dir(out.path()).unwrap() {
        let file = entry.unwrap().path();
        let committed = root().join("reports").join(file.file_name().unwrap());
        let (now, then) = (std::fs::read(&file).unwrap(), std::fs::read(&committed));
        assert!(
            then.is_ok_and(|then| then == now),
            "{} is not what the records give today; run: vramcast report {} --out reports",
            committed.display(),
            RECORDS
                .map(|name| format!("reports/records/{name}.jsonl"))
                .join(" ")
        );
        compared += 1;
    }
    assert_eq!(compared, 7);
}

#[test]
fn requested_bytes_of_every_record_are_predicted_exactly() {
    let accuracy = accuracy(&RECORDS);
    assert_eq!(
        accuracy["summary"]["unpredicted"].as_array().map(Vec::len),
        Some(0)
    );
    let rows = accuracy["rows"].as_array().unwrap();
    assert!(rows.len() >= 200);
    for row in rows.iter().filter(|row| row["outcome"] == "ok") {
        let figure = &row["requested"];
        assert_eq!(
            figure["predicted"], figure["measured"],
            "{} {}",
            row["model"], row["id"]
        );
    }
}

/// They depend on the speed of the host, which differs from run to run.
#[test]
fn reserved_bytes_are_near_in_nine_of_ten_runs_of_the_suite() {
    let (mut near, mut count) = (0, 0);
    for group in accuracy(&RECORDS[..3])["summary"]["groups"]
        .as_array()
        .unwrap()
    {
        near += group["reserved"]["near"].as_u64().unwrap();
        count += group["reserved"]["count"].as_u64().unwrap();
    }
    assert_eq!(count, 3 * 74);
    assert!(near * 10 >= count * 9, "{near} of {count}");
}

#[test]
fn what_is_said_to_fit_ran() {
    let verdicts = &accuracy(&RECORDS)["summary"]["verdicts"];
    assert_eq!(
        (&verdicts["fits_oom"], &verdicts["oom_ran"]),
        (&Value::from(0), &Value::from(0))
    );
    assert!(verdicts["fits_ran"].as_u64() > Some(200) && verdicts["oom_oom"].as_u64() > Some(3));
}
