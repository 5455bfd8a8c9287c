//! The README shows what the tool prints, and the figures of the accuracy page.

mod program;

use program::vramcast;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap()
}

#[test]
fn every_output_shown_is_what_the_command_prints() {
    let readme = read("README.md");
    let mut shown = 0;
    for block in readme.split("```console\n$ vramcast ").skip(1) {
        let (block, _) = block.split_once("```").unwrap();
        let (line, expected) = block.split_once('\n').unwrap();
        // Charts and records go to a place of their own.
        let out = tempfile::TempDir::new().unwrap();
        let mut command = vramcast();
        command.current_dir(out.path()).args(line.split(' '));
        let output = command.output().unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            expected,
            "{line}"
        );
        shown += 1;
    }
    assert_eq!(shown, 6);
}

#[test]
fn the_accuracy_table_is_that_of_the_pages() {
    let readme = read("README.md");
    for (runtime, figures) in [
        ("torch", ["allocated", "reserved", "nvml"]),
        ("candle", ["requested", "reserved", "nvml"]),
    ] {
        let page = read(&format!("reports/{runtime}/accuracy.md"));
        for figure in figures {
            let begins = format!("| {runtime} {figure} |");
            let row = page.lines().find(|line| line.starts_with(&begins)).unwrap();
            assert!(readme.contains(row), "{row}");
        }
    }
    let page = read("reports/candle/accuracy.md");
    let range = page
        .lines()
        .find(|line| line.contains("in the predicted range in"))
        .unwrap();
    let counts = range.split("range in ").nth(1).unwrap();
    assert!(readme.contains(counts.trim_end_matches('.')), "{counts}");
}

#[test]
fn every_file_that_it_names_exists() {
    let readme = read("README.md");
    for link in readme
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
    {
        assert!(root().join(link).exists(), "{link}");
    }
}
