//! `vramcast diff`: what changed between two files, and how their runs find each other.

use assert_cmd::Command;
use std::path::Path;
use tempfile::TempDir;

fn vramcast(line: &str) -> (i32, String, String) {
    let mut command = Command::cargo_bin("vramcast").unwrap();
    let output = command.args(line.split_whitespace()).output().unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

/// What `predict --json` says, in a file.
fn predicted(folder: &TempDir, name: &str, line: &str) -> String {
    let (status, text, _) = vramcast(&format!("predict {line} --gpu t4 --json"));
    assert_eq!(status, 0);
    let file = folder.path().join(name);
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

fn own(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gate");
    folder.join(name).display().to_string()
}

#[test]
fn two_predictions_are_compared_by_component_and_layer() {
    let folder = TempDir::new().unwrap();
    let a = predicted(&folder, "a.json", "bert-base-uncased --batch 16 --seq 384");
    let b = predicted(&folder, "b.json", "bert-base-uncased --batch 17 --seq 384");
    let charts = folder.path().join("charts");
    let (status, text, stderr) =
        vramcast(&format!("diff {a} {b} --charts {} --png", charts.display()));
    assert_eq!(status, 0, "{stderr}");
    insta::assert_snapshot!(text);
    assert!(charts.join("difference.svg").exists() && charts.join("difference.png").exists());
    let (status, text, _) = vramcast(&format!("diff {a} {b} --json"));
    assert_eq!(status, 0);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let pair = &value["pairs"][0];
    assert_eq!(pair["configuration"][0]["field"], "batch");
    // What the components differ in, the allocated peak does.
    let growth =
        |row: &serde_json::Value| row["after"].as_i64().unwrap() - row["before"].as_i64().unwrap();
    let rows = |name: &str| pair["difference"][name].as_array().unwrap().clone();
    let allocated = rows("peaks")
        .into_iter()
        .find(|row| row["name"] == "allocated")
        .unwrap();
    assert_eq!(
        rows("components").iter().map(growth).sum::<i64>(),
        growth(&allocated)
    );
}

#[test]
fn a_file_differs_from_itself_in_nothing() {
    let folder = TempDir::new().unwrap();
    let a = predicted(&folder, "a.json", "bert-base-uncased");
    let (_, text, _) = vramcast(&format!("diff {a} {a}"));
    assert!(text.starts_with("nothing changed\n"), "{text}");
    let baseline = own("vramcast-baseline.json");
    let (_, text, _) = vramcast(&format!("diff {baseline} {baseline}"));
    assert!(text.starts_with("none of 4 runs changed\n"), "{text}");
}

#[test]
fn runs_are_paired_by_name_or_by_what_runs_and_the_others_are_named() {
    let folder = TempDir::new().unwrap();
    let baseline = own("vramcast-baseline.json");
    let line = "bert-base-uncased --batch 32 --seq 384 --precision amp-fp16";
    let same = predicted(&folder, "a.json", line);
    let (status, text, _) = vramcast(&format!("diff {same} {baseline}"));
    assert_eq!(status, 0);
    assert!(text.starts_with("nothing changed\nfine-tuning\n"), "{text}");
    assert!(text.contains("vramcast-baseline.json: serving"), "{text}");
    let other = predicted(&folder, "b.json", "bert-base-uncased --batch 31");
    let (status, _, stderr) = vramcast(&format!("diff {other} {baseline}"));
    assert_eq!(status, 2);
    assert!(stderr.contains("has a partner in"), "{stderr}");
}

#[test]
fn figures_without_a_configuration_are_compared_with_a_record() {
    let folder = TempDir::new().unwrap();
    let stats = std::fs::read_to_string(own("memory-stats.json")).unwrap();
    let less = folder.path().join("less.json");
    std::fs::write(&less, stats.replace("6517305344", "6000000000")).unwrap();
    let (status, text, _) = vramcast(&format!(
        "diff {} {}",
        own("memory-stats.json"),
        less.display()
    ));
    assert_eq!(status, 0);
    assert!(
        text.starts_with("allocated shrank by 7.9 % (-493 MiB) to 5.59 GiB\n"),
        "{text}"
    );
}

#[test]
fn what_is_no_file_of_figures_is_refused_in_one_line() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("a.json");
    let baseline = own("vramcast-baseline.json");
    for (text, part) in [
        ("", "a.json:1: no prediction, record or baseline"),
        ("{\"schema\": 1", "a.json:1: not a JSON object, or cut off"),
        ("{}", "a.json:1: neither a record nor"),
        (
            "{\"kind\": \"baseline\", \"schema\": 7}",
            "a.json:1: a baseline of schema 7",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let (status, stdout, stderr) = vramcast(&format!("diff {} {baseline}", file.display()));
        assert_eq!((status, stdout.as_str()), (2, ""), "{stderr}");
        assert!(stderr.contains(part), "{part}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}
