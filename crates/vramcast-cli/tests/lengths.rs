//! `vramcast lengths`, from files to answers.

mod program;

use assert_cmd::Command;
use program::vramcast;
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;

/// A word is a token, and two are added.
const TOKENIZER: &str = r###"{
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
    "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"},
    "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
    "decoder": null,
    "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2}, "unk_token": "[UNK]"}
}"###;

/// A folder with a tokenizer and a file.
fn folder(name: &str, content: &[u8]) -> TempDir {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("tokenizer.json"), TOKENIZER).unwrap();
    std::fs::write(folder.path().join(name), content).unwrap();
    folder
}

/// The command in a folder, with options after the file.
fn lengths(folder: &Path, file: &str, options: &str) -> Command {
    let mut command = vramcast();
    command.current_dir(folder);
    command.args(["lengths", file, "--tokenizer", "tokenizer.json"]);
    command.args(options.split_whitespace());
    command
}

fn said(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// Documents of 1 to `most` words, a JSON object each.
fn documents(most: usize) -> String {
    let line = |words| {
        format!(
            "{{\"id\": {words}, \"body\": \"{}\"}}\n",
            "word ".repeat(words)
        )
    };
    (1..=most).map(line).collect()
}

#[test]
fn the_answer_is_first_then_what_is_cut_and_what_batches_need() {
    let folder = folder("data.jsonl", documents(600).as_bytes());
    let options = "--field body --model google/bert_uncased_L-4_H-256_A-4 --batch 16 \
                   --capacity 1.5GiB --charts out";
    let (status, stdout, stderr) = said(&mut lengths(folder.path(), "data.jsonl", options));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(folder.path().join("out/lengths.svg").is_file());
    insta::assert_snapshot!(stdout);
}

#[test]
fn windows_are_counted_instead_of_what_is_cut() {
    let folder = folder("data.jsonl", documents(600).as_bytes());
    let options = "--field body --window 128 --stride 26";
    let (status, stdout, stderr) = said(&mut lengths(folder.path(), "data.jsonl", options));
    assert_eq!(status, Some(0), "{stderr}");
    insta::assert_snapshot!(stdout);
}

#[test]
fn the_peak_is_that_of_a_prediction() {
    let folder = folder("data.txt", "word word word\nword\n".repeat(20).as_bytes());
    let job = "--batch 4 --mode infer --capacity 100MiB";
    let options = format!("--model google/bert_uncased_L-2_H-128_A-2 {job} --json");
    let (status, stdout, _) = said(&mut lengths(folder.path(), "data.txt", &options));
    assert_eq!(status, Some(1));
    let answer: Value = serde_json::from_str(&stdout).unwrap();
    let histogram = answer["documents"]["histogram"].to_string();
    assert_eq!(histogram, "[[3,20],[5,20]]");
    let rows = answer["batches"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    for (row, seq) in rows.iter().zip([64, 5, 5]) {
        let mut predict = vramcast();
        predict.args([
            "predict",
            "google/bert_uncased_L-2_H-128_A-2",
            "--json",
            "--seq",
        ]);
        predict.arg(seq.to_string()).args(job.split(' '));
        // Batches of like lengths have nothing to pad.
        if row["padded"] != "bucketed" {
            predict.arg("--padding");
        }
        let predicted: Value = serde_json::from_str(&said(&mut predict).1).unwrap();
        assert_eq!(row["at_worst"], predicted, "{seq}");
    }
}

#[test]
fn whatever_the_format_the_answer_is_the_same() {
    let rows: Vec<String> = (1..20).map(|words| "word ".repeat(words)).collect();
    let json = |row: &String| format!("{{\"text\": \"{row}\"}}\r\n");
    let csv = |row: &String| format!("1,\"{row}\"\r\n");
    let csv = format!(
        "\u{feff}id,text\r\n{}",
        rows.iter().map(csv).collect::<String>()
    );
    let json: String = rows.iter().map(json).collect();
    let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut zipped, json.as_bytes()).unwrap();
    for (name, content) in [
        ("a.txt", rows.join("\n").into_bytes()),
        ("a.jsonl", json.into_bytes()),
        ("a.CSV", csv.into_bytes()),
        ("a.jsonl.gz", zipped.finish().unwrap()),
    ] {
        let folder = folder(name, &content);
        let (_, stdout, stderr) = said(&mut lengths(folder.path(), name, ""));
        let first =
            "19 documents: half have at most 12 tokens, 99 % at most 21; the longest has 21";
        assert_eq!(stdout.lines().next(), Some(first), "{name}: {stderr}");
    }
    let folder = folder("a.txt", b"");
    let mut command = lengths(folder.path(), "-", "--format csv --field b");
    let (_, stdout, _) = said(command.write_stdin("a,b\n1,word word\n"));
    assert!(
        stdout.starts_with("1 document: half have at most 4 tokens"),
        "{stdout}"
    );
}

#[test]
fn what_cannot_be_read_is_refused_in_one_line_with_its_place() {
    for (name, content, options, part) in [
        ("a.txt", "", "", "a.txt: no documents in it"),
        ("a.txt", "\n \n", "", "a.txt: no documents in it"),
        ("b.txt", "word", "", "a.txt: cannot be read: No such file"),
        ("a.jsonl", "{}\n", "", "a.jsonl:1: no field `text`"),
        (
            "a.jsonl",
            "\n{\"text\"",
            "",
            "a.jsonl:2: not JSON, or cut off",
        ),
        (
            "a.jsonl",
            "{\"text\": 1}",
            "",
            "--skip-broken leaves such lines out",
        ),
        (
            "a.jsonl",
            "1\n2\n",
            "--skip-broken",
            "no documents but broken ones; line 1: invalid type",
        ),
        (
            "a.csv",
            "a,b\n",
            "",
            "a.csv: no column `text`; there are: a, b; choose one with --field",
        ),
        ("a.csv", "text,b\n1\n", "", "a.csv:2: 1 fields instead of 2"),
        (
            "a.csv",
            "text\n\"1\n2\n",
            "",
            "a.csv:2: a quote that is never closed",
        ),
        ("a.txt", "word", "--window 9 --stride 7", "does not advance"),
        (
            "a.txt",
            "word",
            "--window 600 --model bert-base-uncased",
            "beyond the model's 512 positions; use --window 512",
        ),
        // What comes with the data is told in one line.
        (
            "a.jsonl",
            "{\"a\\nb\\u001b\": 1}",
            "",
            "there are: a\\nb\\u{1b}",
        ),
        ("a.txt", "word", "--model nope", "is not a known model"),
    ] {
        let folder = folder(name, content.as_bytes());
        let file = name.replace('b', "a");
        let (status, stdout, stderr) = said(&mut lengths(folder.path(), &file, options));
        assert_eq!(status, Some(2), "{content}: {stdout}");
        assert!(stderr.contains(part), "{content}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{content}: {stderr}");
    }
    let folder = folder("a.txt", b"word");
    for (tokenizer, part) in [
        ("a.txt", "a.txt: not a tokenizer.json"),
        ("none.json", "none.json: cannot be read"),
        (".", ".: not a file"),
    ] {
        let mut command = vramcast();
        command
            .current_dir(folder.path())
            .args(["lengths", "a.txt", "--tokenizer", tokenizer]);
        let (status, _, stderr) = said(&mut command);
        assert_eq!(status, Some(2), "{tokenizer}");
        assert!(stderr.contains(part), "{tokenizer}: {stderr}");
    }
}

#[test]
fn broken_lines_are_left_out_and_told_where_that_was_asked() {
    let folder = folder("a.txt", b"word\n\xFF\nword word\n\xFE\n");
    let (status, stdout, _) = said(&mut lengths(folder.path(), "a.txt", "--skip-broken"));
    assert_eq!(status, Some(0));
    assert!(stdout.starts_with("2 documents"), "{stdout}");
    for part in [
        "left out: 2 broken lines",
        "line 2: not UTF-8",
        "line 4: not UTF-8",
    ] {
        assert!(stdout.contains(part), "{stdout}");
    }
}

#[test]
fn a_model_with_fewer_positions_is_told_and_cuts_there() {
    let folder = folder("a.txt", "word ".repeat(2000).as_bytes());
    let options = "--max-length 1024 --model bert-base-uncased --batch 1";
    let (status, stdout, _) = said(&mut lengths(folder.path(), "a.txt", options));
    assert_eq!(status, Some(0));
    for part in [
        "beyond the model's 512 positions",
        "what is longer than 512 is cut",
    ] {
        // Lines may go on in the next one.
        assert!(stdout.replace("\n  ", " ").contains(part), "{stdout}");
    }
}
