//! `vramcast check`: what passes, what fails and what it says, in every format; and one clear line
//! for every bad file.

use assert_cmd::Command;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The gate of this project: an example, and what these tests run.
fn own() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gate")
}

/// What a command printed, and its exit status.
struct Said {
    status: i32,
    stdout: String,
    stderr: String,
}

/// Runs the command in a folder.
fn vramcast(folder: &Path, line: &str) -> Said {
    let mut command = Command::cargo_bin("vramcast").unwrap();
    command.current_dir(folder).args(line.split_whitespace());
    let output = command.output().unwrap();
    Said {
        status: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// A folder with files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

/// A copy of this project's gate.
fn copy() -> TempDir {
    let files = [
        "vramcast.toml",
        "vramcast-baseline.json",
        "memory-stats.json",
    ];
    let texts = files.map(|name| read(&own(), name));
    let pairs: Vec<(&str, &str)> = files
        .into_iter()
        .zip(texts.iter().map(String::as_str))
        .collect();
    folder(&pairs)
}

const SMALL: &str = "[[workload]]\nname = \"small\"\nmodel = \"google/bert_uncased_L-2_H-128_A-2\"\n\
                     batch = 2\nseq = 64\n";

/// A gate that must be refused with exit status 2, no output and one line on stderr that contains
/// each part.
fn check_refused(files: &[(&str, &str)], parts: &[&str]) {
    let folder = folder(files);
    let said = vramcast(folder.path(), "check");
    assert_eq!(said.status, 2, "{parts:?}: {}", said.stderr);
    assert_eq!(said.stdout, "", "{parts:?}");
    assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    for part in parts {
        assert!(said.stderr.contains(part), "{part}: {}", said.stderr);
    }
}

#[test]
fn the_gate_of_this_project_passes() {
    let said = vramcast(&own(), "check");
    assert_eq!(said.status, 0, "{}", said.stdout);
    insta::assert_snapshot!(said.stdout);
}

#[test]
fn a_regression_fails_in_every_format_and_names_its_layers_and_phase() {
    let out = TempDir::new().unwrap();
    let (markdown, junit) = (out.path().join("a.md"), out.path().join("a.xml"));
    let line = format!(
        "check --inject 10% --github --markdown {} --junit {}",
        markdown.display(),
        junit.display()
    );
    let said = vramcast(&own(), &line);
    assert_eq!(said.status, 1);
    for part in [
        "activations +622 MiB in encoder.layer.0..=9 (10 x +49.6 MiB)",
        "peak in forward",
        "made in forward",
    ] {
        assert!(said.stdout.contains(part), "{part}: {}", said.stdout);
    }
    insta::assert_snapshot!("text_and_annotations", said.stdout);
    insta::assert_snapshot!("markdown", read(out.path(), "a.md"));
    insta::assert_snapshot!("junit", read(out.path(), "a.xml"));
    let said = vramcast(&own(), "check --inject 10% --json");
    assert_eq!(said.status, 1);
    insta::assert_snapshot!("json", said.stdout);
}

#[test]
fn any_growth_is_told_of_and_more_than_a_percent_fails() {
    for (grows, status, level) in [
        ("1KiB", 0, "warn"),
        ("0.9%", 0, "warn"),
        ("1.1%", 1, "fail"),
    ] {
        let said = vramcast(&own(), &format!("check --inject {grows}"));
        assert_eq!(said.status, status, "{grows}: {}", said.stdout);
        let line = said.stdout.lines().nth(2).unwrap();
        assert!(line.starts_with(level), "{grows}: {line}");
    }
}

const CONFIG: &str = r#"{
    "model_type": "bert", "vocab_size": 1000, "hidden_size": 128, "num_hidden_layers": LAYERS,
    "num_attention_heads": 4, "intermediate_size": 512, "max_position_embeddings": 512,
    "type_vocab_size": 2
}"#;

#[test]
fn a_model_that_grew_is_a_regression_of_its_layers() {
    let gate = "[[workload]]\nname = \"mine\"\nmodel = \"encoder\"\nbatch = 8\nseq = 128\n";
    let config = |layers: &str| CONFIG.replace("LAYERS", layers);
    let folder = folder(&[
        ("ci/vramcast.toml", gate),
        ("ci/encoder/config.json", &config("4")),
    ]);
    let here = folder.path();
    // Paths in the file are relative to it.
    assert_eq!(vramcast(here, "check ci/vramcast.toml --update").status, 0);
    assert!(here.join("ci/vramcast-baseline.json").exists());
    assert_eq!(vramcast(here, "check ci/vramcast.toml").status, 0);
    std::fs::write(here.join("ci/encoder/config.json"), config("6")).unwrap();
    let said = vramcast(here, "check ci/vramcast.toml");
    assert_eq!(said.status, 1);
    insta::assert_snapshot!(said.stdout);
    // What shrinks passes, and is told of.
    std::fs::write(here.join("ci/encoder/config.json"), config("2")).unwrap();
    let said = vramcast(here, "check ci/vramcast.toml");
    assert_eq!(said.status, 0);
    assert!(said.stdout.contains("shrank by"), "{}", said.stdout);
    assert!(
        said.stdout.contains("--update` lowers the baseline"),
        "{}",
        said.stdout
    );
}

#[test]
fn a_baseline_is_the_same_file_however_often_it_is_written() {
    let folder = copy();
    let before = read(folder.path(), "vramcast-baseline.json");
    let said = vramcast(folder.path(), "check --update");
    assert_eq!(said.status, 0);
    assert!(said.stdout.contains("is as it was"), "{}", said.stdout);
    std::fs::remove_file(folder.path().join("vramcast-baseline.json")).unwrap();
    let said = vramcast(folder.path(), "check --update");
    assert!(
        said.stdout.contains("new: fine-tuning, adapters, serving"),
        "{}",
        said.stdout
    );
    assert_eq!(read(folder.path(), "vramcast-baseline.json"), before);
}

#[test]
fn an_update_accepts_growth_and_configurations_but_no_broken_budget() {
    let folder = copy();
    let gate = read(folder.path(), "vramcast.toml");
    let larger = gate.replace("batch = 32", "batch = 40");
    std::fs::write(folder.path().join("vramcast.toml"), larger).unwrap();
    let said = vramcast(folder.path(), "check --update");
    assert_eq!(said.status, 1);
    assert!(
        said.stdout.contains("over the budget of 7.20 GiB"),
        "{}",
        said.stdout
    );
    assert!(
        said.stdout.contains("was written; changed: fine-tuning"),
        "{}",
        said.stdout
    );
    // It is accepted now, and still over its budget.
    let said = vramcast(folder.path(), "check");
    assert_eq!(said.status, 1);
    assert!(!said.stdout.contains("grew"), "{}", said.stdout);
}

#[test]
fn an_update_writes_nothing_if_a_workload_has_no_answer() {
    let folder = copy();
    let before = read(folder.path(), "vramcast-baseline.json");
    let gate = read(folder.path(), "vramcast.toml");
    for broken in [
        gate.replace("batch = 32", "batch = 16")
            .replace("seq = 128", "seq = 9999"),
        gate.replace("batch = 32", "batch = 16")
            .replace("memory-stats.json", "missing.json"),
    ] {
        std::fs::write(folder.path().join("vramcast.toml"), broken).unwrap();
        let said = vramcast(folder.path(), "check --update");
        assert_eq!(said.status, 2, "{}", said.stdout);
        assert_eq!(read(folder.path(), "vramcast-baseline.json"), before);
    }
}

#[test]
fn a_workload_that_is_new_or_gone_is_told_of() {
    let folder = folder(&[("vramcast.toml", SMALL)]);
    let said = vramcast(folder.path(), "check");
    assert_eq!(said.status, 0);
    assert!(
        said.stdout
            .starts_with("the workload passes, with a warning"),
        "{}",
        said.stdout
    );
    assert!(
        said.stdout.contains("not in the baseline"),
        "{}",
        said.stdout
    );
    vramcast(folder.path(), "check --update");
    let other = SMALL.replace("\"small\"", "\"other\"");
    std::fs::write(folder.path().join("vramcast.toml"), other).unwrap();
    let said = vramcast(folder.path(), "check");
    assert!(
        said.stdout.contains("the baseline has `small`"),
        "{}",
        said.stdout
    );
    let said = vramcast(folder.path(), "check --update");
    assert!(
        said.stdout.contains("new: other; removed: small"),
        "{}",
        said.stdout
    );
}

#[test]
fn another_configuration_than_the_baselines_names_the_field_and_both_places() {
    let folder = copy();
    let gate = read(folder.path(), "vramcast.toml");
    let line = |text: &str, part: &str| text.lines().position(|l| l.contains(part)).unwrap() + 1;
    let baseline = read(folder.path(), "vramcast-baseline.json");
    for (from, to, part) in [
        (
            "batch = 16",
            "batch = 17",
            "`batch` of `adapters` is 17, and 16 in",
        ),
        (
            "lora_rank = 8\n",
            "",
            "`lora_rank` of `adapters` is the default, and 8 in",
        ),
        (
            "lora_rank = 8",
            "lora_rank = 4",
            "`lora_rank` of `adapters` is 4, and 8 in",
        ),
        (
            "gpu = \"t4\"",
            "gpu = \"a10\"",
            "`gpu` of `fine-tuning` is a10, and t4 in",
        ),
    ] {
        std::fs::write(folder.path().join("vramcast.toml"), gate.replace(from, to)).unwrap();
        let said = vramcast(folder.path(), "check");
        assert_eq!((said.status, said.stderr.lines().count()), (2, 1));
        assert!(said.stderr.contains(part), "{}", said.stderr);
    }
    let at = line(&gate, "lora_rank");
    let field = "\"lora_rank\": 8";
    std::fs::write(
        folder.path().join("vramcast.toml"),
        gate.replace("lora_rank = 8", "lora_rank = 4"),
    )
    .unwrap();
    let said = vramcast(folder.path(), "check --github");
    let there = format!("vramcast-baseline.json:{}", line(&baseline, field));
    assert!(
        said.stderr.contains(&format!("vramcast.toml:{at}: ")),
        "{}",
        said.stderr
    );
    assert!(said.stderr.contains(&there), "{there}: {}", said.stderr);
    // GitHub shows it where it is.
    let annotation = format!("::error file=vramcast.toml,line={at},");
    assert!(said.stdout.starts_with(&annotation), "{}", said.stdout);
}

#[test]
fn every_bad_file_is_one_clear_line_with_its_place() {
    let with = |line: &str| format!("{SMALL}{line}\n");
    let gate = |line: &str, parts: &[&str]| check_refused(&[("vramcast.toml", &with(line))], parts);
    check_refused(&[], &["vramcast.toml:1: cannot be read"]);
    check_refused(
        &[("vramcast.toml", "")],
        &["vramcast.toml:1: the suite is empty"],
    );
    check_refused(&[("vramcast.toml", "gpu = t4\n")], &["vramcast.toml:1:"]);
    check_refused(
        &[("vramcast.toml", "\ngpus = \"t4\"\n")],
        &["vramcast.toml:2: unknown key `gpus`; the nearest known one is `gpu`"],
    );
    gate("sequence = 3", &["vramcast.toml:6: unknown key `sequence`"]);
    gate(
        "budget = \"14GB\"",
        &["vramcast.toml:6:", "GB is ambiguous"],
    );
    gate(
        "budget = { nvlm = \"14GiB\" }",
        &["vramcast.toml:6:", "nvlm"],
    );
    gate("budget = 14", &["vramcast.toml:6:", "a size such as"]);
    gate(
        "tolerance = { allocator = { fail = \"1\" } }",
        &["vramcast.toml:6:", "is no share"],
    );
    gate(
        "tolerance = { gpu = { fail = \"1 %\" } }",
        &["vramcast.toml:6:", "unknown key `gpu`"],
    );
    gate(
        "tolerance = { allocator = { warn = \"2 %\" } }",
        &["vramcast.toml:6: a growth of 1 % fails before the warning at 2 %"],
    );
    gate(
        "gpu = \"t5\"",
        &["vramcast.toml:6:", "`t5` is not a known card"],
    );
    gate(
        "torch = \"1.0\"",
        &["vramcast.toml:6: torch 1.0 is not known"],
    );
    gate("precision = \"fp8\"", &["vramcast.toml:6:", "fp8"]);
    gate("batch = 3", &["vramcast.toml:6:", "duplicate key"]);
    gate(
        "measured = \"runs.jsonl\"",
        &["runs.jsonl", "cannot be read"],
    );
    gate(
        SMALL,
        &["vramcast.toml:7: another workload has the name `small`, in line 2"],
    );
    check_refused(
        &[("vramcast.toml", &SMALL.replace("seq = 64\n", ""))],
        &["vramcast.toml:2: a workload with a model needs a `seq`"],
    );
    check_refused(
        &[("vramcast.toml", &SMALL.replace("seq = 64", "seq = 5000"))],
        &["vramcast.toml:3: ", "position table"],
    );
    check_refused(
        &[("vramcast.toml", &SMALL.replace("google/bert", "google/brt"))],
        &["vramcast.toml:3: ", "did you mean"],
    );
    check_refused(
        &[("vramcast.toml", "[[workload]]\nname = \"x\"\n")],
        &["vramcast.toml:2: a workload needs a `model`, or a file of figures"],
    );
    check_refused(
        &[(
            "vramcast.toml",
            "[[workload]]\nname = \"x\"\nmeasured = \"a.json\"\nbatch = 3\n",
        )],
        &["vramcast.toml:4: `batch` says nothing without a `model`"],
    );
}

#[test]
fn a_bad_baseline_is_one_clear_line_and_is_not_replaced() {
    let good = read(&own(), "vramcast-baseline.json");
    let cut: String = good.chars().take(good.len() / 2).collect();
    let gate = read(&own(), "vramcast.toml");
    for (text, part) in [
        ("", "vramcast-baseline.json:1: no baseline, or cut off"),
        (cut.as_str(), "no baseline, or cut off"),
        (
            &good.replace("\"schema\": 1", "\"schema\": 2"),
            "vramcast-baseline.json:2: a baseline of schema 2, and this version reads 1",
        ),
        (
            &good.replace("\"kind\": \"baseline\"", "\"kind\": \"other\""),
            "vramcast-baseline.json:3: not a baseline",
        ),
        (
            &good.replace("\"need\": 6597640192", "\"ned\": 6597640192"),
            "unknown field `ned`",
        ),
        (
            &good.replace("\"encoder.layer.0..=9\"", "\"encoder.layer.9..=0\""),
            "is no part of a model",
        ),
    ] {
        let stats = read(&own(), "memory-stats.json");
        let files = [
            ("vramcast.toml", gate.as_str()),
            ("vramcast-baseline.json", text),
            ("memory-stats.json", &stats),
        ];
        check_refused(&files, &[part]);
        let folder = folder(&files);
        assert_eq!(vramcast(folder.path(), "check --update").status, 2);
        assert_eq!(read(folder.path(), "vramcast-baseline.json"), text);
    }
}

/// A record of PyTorch, in this project's form.
fn record(id: &str, batch: u64, allocated: u64) -> String {
    format!(
        "{{\"schema\": 1, \"id\": \"{id}\", \"model\": \"bert-base-uncased\", \"task\": \
         \"sequence-classification\", \"mode\": \"train\", \"batch\": {batch}, \"seq\": 128, \
         \"runtime\": \"torch\", \"runtime_version\": \"2.11.0+cu130\", \"gpu\": \"NVIDIA H200\", \
         \"outcome\": \"ok\", \"peak_allocated\": {allocated}, \"peak_reserved\": 4000000000}}\n"
    )
}

const MEASURED: &str = "[[workload]]\nname = \"measured\"\nmeasured = \"runs.jsonl\"\nmodel = \
                        \"bert-base-uncased\"\nbatch = 8\nseq = 128\n";

#[test]
fn records_of_other_programs_are_held_against_the_baseline() {
    let runs = record("a", 16, 5) + &record("b", 8, 3_000_000_000);
    let folder = folder(&[("vramcast.toml", MEASURED), ("runs.jsonl", &runs)]);
    let here = folder.path();
    assert_eq!(vramcast(here, "check --update").status, 0);
    let said = vramcast(here, "check");
    assert_eq!(said.status, 0);
    assert!(
        said.stdout
            .contains("allocated 2.79 GiB, as in the baseline"),
        "{}",
        said.stdout
    );
    // The newest record is the last.
    let runs = runs + &record("c", 8, 3_100_000_000);
    std::fs::write(here.join("runs.jsonl"), &runs).unwrap();
    let said = vramcast(here, "check");
    assert_eq!(said.status, 1);
    let part = "measured grew by 3.3 % over the baseline";
    assert!(said.stdout.contains(part), "{}", said.stdout);
    assert!(
        said.stdout
            .contains("measured on NVIDIA H200 in runs.jsonl"),
        "{}",
        said.stdout
    );
    // One that ran out of memory fails whatever the baseline says.
    let oom =
        runs.clone() + &record("d", 8, 1).replace("\"ok\"", "\"oom\", \"error\": \"no room\"");
    std::fs::write(here.join("runs.jsonl"), oom).unwrap();
    let said = vramcast(here, "check");
    assert_eq!(said.status, 1);
    assert!(
        said.stdout.contains("ran out of memory: no room"),
        "{}",
        said.stdout
    );
    // From another card there is nothing to compare.
    let other = runs.replace("NVIDIA H200", "Tesla T4");
    std::fs::write(here.join("runs.jsonl"), other).unwrap();
    let said = vramcast(here, "check");
    assert!(
        said.stdout.contains("nothing measured on Tesla T4"),
        "{}",
        said.stdout
    );
}

#[test]
fn a_record_that_is_cut_off_or_of_another_run_is_refused() {
    let run = record("a", 8, 5);
    let cut = format!("{run}{}", &run[..run.len() / 2]);
    let gate = ("vramcast.toml", MEASURED);
    check_refused(
        &[gate, ("runs.jsonl", &cut)],
        &["runs.jsonl:2: ", "cut off"],
    );
    check_refused(
        &[gate, ("runs.jsonl", &record("a", 9, 5))],
        &[
            "vramcast.toml:3: ",
            "has no record of this configuration; it has 1 of others",
        ],
    );
    check_refused(
        &[gate, ("runs.jsonl", "{}")],
        &["runs.jsonl:1: neither a record nor what torch.cuda.memory_stats() returns"],
    );
    let failed = run.replace("\"ok\"", "\"failed\", \"error\": \"no module named torch\"");
    check_refused(
        &[gate, ("runs.jsonl", &failed)],
        &["vramcast.toml:3: ", "no module named torch"],
    );
}

#[test]
fn an_allocator_that_ran_out_of_memory_and_went_on_is_told_of() {
    let folder = copy();
    let stats =
        read(folder.path(), "memory-stats.json").replace("\"num_ooms\": 0", "\"num_ooms\": 3");
    std::fs::write(folder.path().join("memory-stats.json"), stats).unwrap();
    let said = vramcast(folder.path(), "check");
    assert_eq!(said.status, 0);
    assert!(
        said.stdout.contains("ran out of memory 3 times"),
        "{}",
        said.stdout
    );
}

#[test]
fn a_card_that_is_too_small_fails_and_says_what_it_takes() {
    let gate = SMALL.replace("bert_uncased_L-2_H-128_A-2", "bert_uncased_L-12_H-768_A-12");
    let gate = gate
        .replace("batch = 2", "batch = 64")
        .replace("seq = 64", "seq = 512");
    let folder = folder(&[("vramcast.toml", &format!("{gate}gpu = \"t4\"\n"))]);
    let said = vramcast(folder.path(), "check");
    assert_eq!(said.status, 1);
    assert!(
        said.stdout
            .starts_with("the workload fails; small does not fit its card"),
        "{}",
        said.stdout
    );
    assert!(said.stdout.contains("t4 has 14.56 GiB"), "{}", said.stdout);
}

#[test]
fn a_probe_is_held_against_what_was_measured_on_the_same_device() {
    let gate = format!("{SMALL}runtime = \"candle\"\n");
    let folder = folder(&[("vramcast.toml", &gate)]);
    let here = folder.path();
    let probe = "check --probe --device cpu";
    assert_eq!(vramcast(here, "check --update").status, 0);
    // The baseline is of a card.
    let said = vramcast(here, probe);
    assert_eq!(said.status, 0);
    assert!(
        said.stdout.contains("nothing measured on cpu"),
        "{}",
        said.stdout
    );
    assert_eq!(vramcast(here, &format!("{probe} --update")).status, 0);
    let said = vramcast(here, probe);
    assert_eq!(said.status, 0);
    assert!(
        said.stdout.contains("as in the baseline"),
        "{}",
        said.stdout
    );
    let said = vramcast(here, &format!("{probe} --inject 2%"));
    assert_eq!(said.status, 1);
    assert!(
        said.stdout.contains("requested grew by 2.0 %"),
        "{}",
        said.stdout
    );
    assert!(
        said.stdout.contains("by prediction, activations"),
        "{}",
        said.stdout
    );
    // What was measured stays when predictions are accepted anew.
    let before = read(here, "vramcast-baseline.json");
    assert_eq!(vramcast(here, "check --update").status, 0);
    assert_eq!(read(here, "vramcast-baseline.json"), before);
}

#[cfg(unix)]
#[test]
fn a_device_is_not_replaced_by_a_file() {
    let said = vramcast(&own(), "check --markdown /dev/null");
    assert_eq!(said.status, 2);
    assert!(
        said.stderr.contains("/dev/null: not a file"),
        "{}",
        said.stderr
    );
}

#[test]
fn growth_cannot_be_seen_without_a_baseline() {
    let folder = folder(&[("vramcast.toml", SMALL)]);
    let said = vramcast(folder.path(), "check --inject 10%");
    assert_eq!(said.status, 2);
    assert!(
        said.stderr.contains("run `vramcast check --update` first"),
        "{}",
        said.stderr
    );
}
