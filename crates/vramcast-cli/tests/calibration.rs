//! What was measured on this machine: what is kept, which questions use it, and what is said of it.

mod program;

use assert_cmd::Command;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A T4 as a machine might have measured it: three training runs of the suite, of which only the card
/// is not what was measured.
fn calibration() -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let records = root.join("reports/records/torch-h200-suite.jsonl");
    let records = std::fs::read_to_string(records).unwrap();
    let runs = records
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|r| r["mode"] == "train" && r["precision"] == "fp32" && r["outcome"] == "ok")
        .take(3)
        .map(|mut record| {
            record["usable"] = json!(15_500_000_000_u64);
            json!({"loaded": {"torch": {"mode": "train", "cudnn": false}}, "record": record})
        });
    json!({
        "schema": 1,
        "gpu": "t4",
        "driver": "580.1",
        "runtime": "torch",
        "runtime_version": "2.11.0+cu130",
        "date": "2026-11-30",
        "runs": runs.collect::<Vec<_>>(),
    })
}

/// A user's data folder with these files.
fn data(files: &[(&str, String)]) -> TempDir {
    let data = TempDir::new().unwrap();
    let folder = kept(&data);
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
    }
    data
}

fn kept(data: &TempDir) -> PathBuf {
    data.path().join("vramcast/calibration")
}

fn with_t4() -> TempDir {
    data(&[("t4.json", calibration().to_string())])
}

fn vramcast(data: &TempDir, line: &str) -> Command {
    let mut command = program::vramcast();
    command.env("XDG_DATA_HOME", data.path());
    command.args(line.split(' '));
    command
}

fn stdout(data: &TempDir, line: &str) -> String {
    let output = vramcast(data, line).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_ne!(output.status.code(), Some(2), "{line}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn answer(data: &TempDir, line: &str) -> Value {
    serde_json::from_str(&stdout(data, line)).unwrap()
}

#[test]
fn questions_about_the_card_use_it_and_cite_it() {
    let data = with_t4();
    let predicted = answer(&data, "predict bert-base-uncased --gpu t4 --json");
    assert_eq!(predicted["context"], 787_283_968);
    assert_eq!(predicted["capacity"], 15_500_000_000_u64);
    let cited = json!({
        "date": "2026-11-30", "driver": "580.1", "runs": 3, "usable": 15_500_000_000_u64
    });
    assert_eq!(predicted["calibration"], cited);
    let said = stdout(&data, "predict bert-base-uncased --gpu t4");
    assert!(
        said.lines().next().unwrap().ends_with("t4 has 14.44 GiB"),
        "{said}"
    );
    let note = "note: context measured on this machine on 2026-11-30: driver 580.1, 3 runs\n";
    assert!(said.contains(note), "{said}");
    for line in [
        "fit bert-base-uncased --gpu t4",
        "advise bert-base-uncased --batch 64 --seq 512 --gpu t4",
    ] {
        let said = stdout(&data, line);
        assert!(said.contains("t4 (14.44 GiB)"), "{line}: {said}");
    }
}

#[test]
fn a_capacity_that_was_given_stands() {
    let data = with_t4();
    let line = "predict bert-base-uncased --gpu t4 --capacity 8GiB --json";
    let predicted = answer(&data, line);
    assert_eq!(predicted["capacity"], 8_u64 << 30);
    assert_eq!(predicted["context"], 787_283_968);
}

#[test]
fn questions_about_anything_else_do_not() {
    let (data, nothing) = (with_t4(), data(&[]));
    for line in [
        "predict bert-base-uncased --json",
        "predict bert-base-uncased --gpu l4 --json",
        "predict bert-base-uncased --gpu t4 --torch 2.10 --json",
        "predict bert-base-uncased --gpu t4 --runtime candle --json",
        "accuracy reports/records/torch-h200-limit.jsonl --json",
    ] {
        assert_eq!(answer(&data, line), answer(&nothing, line), "{line}");
    }
}

#[test]
fn records_are_compared_the_same_on_every_machine() {
    let mut measured = calibration();
    measured["gpu"] = json!("h200");
    measured["runs"][0]["record"]["nvml_used"] = json!(99_000_000_000_u64);
    let (data, nothing) = (data(&[("h200.json", measured.to_string())]), data(&[]));
    let line = "accuracy reports/records/torch-h200-limit.jsonl --json";
    assert_eq!(answer(&data, line), answer(&nothing, line));
}

#[test]
fn of_several_drivers_the_latest_day_counts_where_the_card_is_not() {
    let mut newer = calibration();
    newer["date"] = json!("2026-12-24");
    newer["driver"] = json!("590.2");
    let data = data(&[
        ("a.json", newer.to_string()),
        ("b.json", calibration().to_string()),
    ]);
    let predicted = answer(&data, "predict bert-base-uncased --gpu t4 --json");
    assert_eq!(predicted["calibration"]["driver"], "590.2");
}

#[test]
fn a_file_that_is_none_is_named_in_one_line() {
    let mut other = calibration();
    other["schema"] = json!(2);
    let mut without = calibration();
    without.as_object_mut().unwrap().remove("driver");
    for (text, part) in [
        ("{".to_owned(), "EOF while parsing"),
        (String::new(), "EOF while parsing"),
        ("[]".to_owned(), "not a calibration of schema 1"),
        (other.to_string(), "it says 2"),
        (without.to_string(), "missing field `driver`"),
    ] {
        let data = data(&[("t4.json", text)]);
        let file = kept(&data).join("t4.json").display().to_string();
        let mut predict = vramcast(&data, "predict bert-base-uncased --gpu t4");
        let output = predict.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(&file) && stderr.contains(part), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        // A doctor says what is ill.
        let said = stdout(&data, "doctor");
        assert!(said.contains(&file) && said.contains(part), "{said}");
        // Who asks about no card is not concerned.
        stdout(&data, "predict bert-base-uncased");
    }
}

#[test]
fn what_is_no_calibration_file_is_left_alone() {
    let data = data(&[("notes.txt", "mine".to_owned())]);
    stdout(&data, "predict bert-base-uncased --gpu t4");
}

#[test]
fn a_machine_without_a_card_is_not_calibrated() {
    let data = data(&[]);
    for (line, part) in [
        ("calibrate", "calibrate measures a GPU"),
        ("calibrate --device cpu", "a CPU has no context"),
    ] {
        let output = vramcast(&data, line)
            .env("CUDA_VISIBLE_DEVICES", "")
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.contains(part), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
    assert_eq!(std::fs::read_dir(kept(&data)).unwrap().count(), 0);
}

#[test]
fn doctor_says_what_was_measured_and_that_there_is_nothing() {
    let said = stdout(&with_t4(), "doctor");
    let line = "  t4, PyTorch 2.11.0+cu130, driver 580.1: 3 runs on 2026-11-30";
    assert!(said.contains(line), "{said}");
    let said = stdout(&data(&[]), "doctor");
    assert!(said.contains("no calibrations in "), "{said}");
}

#[test]
fn doctor_says_what_is_stale() {
    let mut old = calibration();
    old["runtime"] = json!("candle");
    old["runtime_version"] = json!("0.9.1");
    let data = data(&[("t4.json", old.to_string())]);
    let said = stdout(&data, "doctor");
    let part = format!(
        "; stale: candle {} is installed now",
        vramcast::candle::VERSION
    );
    assert!(said.contains(&part), "{said}");
    let stale = &answer(&data, "doctor --json")["calibrations"][0]["stale"];
    assert_eq!(stale.as_array().unwrap().len(), 1);
}

#[test]
fn doctor_says_which_python_was_looked_at_and_does_not_fail_without_one() {
    let data = data(&[]);
    let said = stdout(&data, "doctor --python no/such/python");
    let part = "no/such/python cannot be started";
    assert!(said.contains(part), "{said}");
    let answer = answer(&data, "doctor --python no/such/python --json");
    assert_eq!(answer["packages"], Value::Null);
    assert!(answer["python_error"].as_str().unwrap().contains(part));
}

#[cfg(unix)]
#[test]
fn doctor_tells_a_torch_that_is_not_predicted() {
    let (data, folder) = (data(&[]), TempDir::new().unwrap());
    for (torch, part) in [
        (
            "\"1.13.1\"",
            ": torch 1.13.1, no transformers; this build of torch is not predicted\n",
        ),
        (
            "\"2.11.0+cu130\"",
            ": torch 2.11.0+cu130, no transformers\n",
        ),
        ("null", ": no torch, no transformers\n"),
    ] {
        let python = folder.path().join("python");
        let script = format!("#!/bin/sh\necho '{{\"torch\": {torch}, \"transformers\": null}}'\n");
        std::fs::write(&python, script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&python, mode).unwrap();
        let said = stdout(&data, &format!("doctor --python {}", python.display()));
        assert!(said.contains(part), "{said}");
    }
}
