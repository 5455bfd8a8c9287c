//! What the person at the terminal gets: answers, and one clear line for every bad question.

mod program;

use program::vramcast;
use std::path::PathBuf;
use tempfile::TempDir;

/// A command line that must be refused with exit status 2 and one line on stderr that contains
/// `part`.
fn check_refused(arguments: &[&str], part: &str) {
    let output = vramcast().args(arguments).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
    assert!(stderr.contains(part), "{arguments:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
}

/// A file with some text, in a folder that lives as long as the value.
fn file(name: &str, text: &str) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join(name);
    std::fs::write(&file, text).unwrap();
    (folder, file)
}

#[test]
fn a_question_that_makes_no_sense_is_refused_in_one_line() {
    for (line, part) in [
        ("predict bert-base-uncase", "did you mean bert-base-uncased"),
        ("predict no/such/model", "is not a known model"),
        ("predict missing.json", "no such file"),
        ("predict bert-base-uncased --batch 0", "at least 1"),
        ("predict bert-base-uncased --seq 0", "at least 1"),
        (
            "predict bert-base-uncased --seq 513",
            "position table of 512",
        ),
        (
            "predict bert-base-uncased --batch 99999999999",
            "more tokens than 32 bits",
        ),
        ("predict bert-base-uncased --gpu h20000", "nearest: h200"),
        (
            "probe bert-base-uncased --runtime candle --device cpu --precision bf16",
            "candle's CPU has no bfloat16 matrix product",
        ),
        (
            "predict bert-base-uncased --compile --gpu p100-16gb --torch 2.11.0+cu126",
            "older than Volta",
        ),
        (
            "predict bert-base-uncased --drop-graph",
            "backward() has freed it",
        ),
        (
            "predict bert-base-uncased --runtime candle --attention sdpa",
            "--attention eager",
        ),
        (
            "predict bert-base-uncased --runtime candle --code candle-transformers",
            "--mode infer --task base",
        ),
        (
            "predict bert-base-uncased --runtime candle --loop trainer",
            "use --runtime torch",
        ),
        (
            "predict bert-base-uncased --code candle-transformers",
            "use --runtime candle",
        ),
        (
            "predict bert-base-uncased --allocator-conf max_split_mb:20",
            "unknown allocator option `max_split_mb`; known are max_split_size_mb",
        ),
        (
            "predict bert-base-uncased --allocator-conf max_split_size_mb:1",
            "expected",
        ),
        (
            "predict bert-base-uncased --loop trainer --optimizer adafactor",
            "the Trainer's own Adafactor",
        ),
        (
            "predict bert-base-uncased --lora-rank 8 --checkpointing",
            "LoRA with checkpointing",
        ),
        (
            "predict bert-base-uncased --gpu v100-16gb",
            "has no kernels for Tesla V100",
        ),
        ("fit bert-base-uncased", "give --gpu, --capacity"),
        (
            "predict bert-base-uncased --mode infer --loop trainer",
            "use --mode train",
        ),
        ("predict /dev/zero", "not a configuration file"),
        (
            "probe bert-base-uncased --runtime torch --device cpu",
            "PyTorch is probed on CUDA alone",
        ),
        ("probe bert-base-uncased --device cuda", "no CUDA"),
        ("probe --suite missing.toml", "cannot be read"),
        ("accuracy missing.jsonl", "cannot be read"),
        ("report missing.jsonl --out out", "cannot be read"),
        (
            "lengths missing.txt --tokenizer missing.json --gpu t4",
            "give --model beside the card",
        ),
        (
            "audit /dev/null --out out",
            "among 0 records there is none of an H200",
        ),
    ] {
        check_refused(&line.split(' ').collect::<Vec<_>>(), part);
    }
}

#[test]
fn words_that_are_no_options_are_refused_with_those_that_are() {
    for (line, part) in [
        ("predict bert-base-uncased --task translation", "masked-lm"),
        (
            "predict bert-base-uncased --capacity 16GB",
            "write MiB (2^20) or GiB (2^30)",
        ),
        (
            "probe bert-base-uncased --device tpu",
            "known: auto, cpu, cuda, cuda:N",
        ),
        ("probe", "required"),
        ("frobnicate", "unrecognized subcommand"),
        (
            "predict bert-base-uncased --torch 1.13",
            "known: 2.11.0+cu130",
        ),
    ] {
        let output = vramcast().args(line.split(' ')).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(stderr.contains(part), "{line}: {stderr}");
    }
}

/// A small config.json with some text in place of some other.
fn config(from: &str, to: &str) -> String {
    r#"{"model_type": "bert", "vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 16}"#
        .replace(from, to)
}

#[test]
fn a_config_that_is_no_model_is_refused_with_the_file_and_the_field() {
    for (text, part) in [
        ("{\"model_type\": \"bert\",".to_owned(), "not JSON"),
        ("[1, 2]".to_owned(), "one JSON object"),
        (
            config("\"model_type\": \"bert\", ", ""),
            "no `model_type`; known: bert",
        ),
        (
            config("\"bert\"", "\"mamba\""),
            "model_type `mamba` is not known",
        ),
        (
            config("\"hidden_size\": 8, ", ""),
            "field `hidden_size` is missing",
        ),
        (
            config("\"hidden_size\": 8", "\"hidden_size\": \"8\""),
            "field `hidden_size` is \"8\"",
        ),
        (
            config("\"hidden_size\": 8", "\"hidden_size\": 9"),
            "not divisible by num_attention_heads 2",
        ),
        (
            config("\"vocab_size\": 30", "\"vocab_size\": -1"),
            "field `vocab_size` is -1",
        ),
        (
            config("\"vocab_size\": 30", "\"vocab_size\": 99999999999"),
            "more than 32 bits",
        ),
        (config("_layers\": 1", "_layers\": 1000000"), "at most 4096"),
        (
            config("\"hidden_size\": 8", "\"hidden_size\": 4294967288"),
            "too large to ask",
        ),
        (
            config("{", "{\"hidden_act\": \"swish\","),
            "field `hidden_act` is \"swish\"",
        ),
        (
            config("{", "{\"id2label\": [1, 2],"),
            "not an object of labels",
        ),
        (
            config("{", "{\"position_embedding_type\": \"relative_key\","),
            "is \"relative_key\", which is not predicted",
        ),
        (
            config("{", "{\"hidden_dropout_prob\": 1.5,"),
            "not a probability",
        ),
        (
            config("{", "{\"quantization_config\": {\"load_in_4bit\": true},"),
            "quantized weights are not predicted",
        ),
        (
            config("{", "{\"problem_type\": \"regression\","),
            "known: \"single_label_classification\"",
        ),
        (
            config("{", "{\"num_labels\": 1,"),
            "trained as a regression",
        ),
    ] {
        let (_folder, file) = file("config.json", &text);
        let name = file.to_str().unwrap();
        check_refused(&["predict", name, "--seq", "4"], part);
    }
}

#[test]
fn a_folder_with_a_config_is_a_model() {
    let (folder, _) = file("config.json", &config("", ""));
    vramcast()
        .arg("predict")
        .arg(folder.path())
        .args(["--seq", "4"])
        .assert()
        .success();
}

#[test]
fn what_does_not_fit_exits_with_1_and_what_fits_with_0() {
    for (capacity, status, word) in [("1GiB", 1, "does not fit"), ("24GiB", 0, "fits")] {
        let mut predict = vramcast();
        predict.args(["predict", "bert-base-uncased", "--capacity", capacity]);
        let output = predict.output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(status));
        assert!(stdout.starts_with(word), "{stdout}");
    }
}

#[test]
fn predict_prints_the_contract_as_json() {
    let mut predict = vramcast();
    predict.args([
        "predict",
        "bert-large-uncased",
        "--batch",
        "8",
        "--seq",
        "512",
    ]);
    let output = predict
        .args(["--gpu", "a100-80gb", "--json"])
        .output()
        .unwrap();
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    insta::assert_json_snapshot!(value);
    let parts = value["at_peak"].as_object().unwrap().values();
    let sum: u64 = parts.map(|v| v.as_u64().unwrap()).sum();
    assert_eq!(Some(sum), value["peak_allocated"].as_u64());
}

#[test]
fn a_probe_on_the_cpu_is_exact_and_leaves_a_record_and_charts() {
    let out = TempDir::new().unwrap();
    let mut probe = vramcast();
    probe.args([
        "probe",
        "google/bert_uncased_L-2_H-128_A-2",
        "--batch",
        "3",
        "--seq",
        "17",
    ]);
    probe
        .args(["--device", "cpu", "--json", "--png", "--out"])
        .arg(out.path());
    let output = probe.output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let (predicted, measured) = (&value["predicted"], &value["measured"]);
    assert_eq!(predicted["peak_requested"], measured["peak_requested"]);
    assert_eq!(predicted["model_requested"], measured["model_requested"]);
    assert_eq!(predicted["allocations"], measured["allocations"]);
    assert_eq!(predicted["n_params"], measured["n_params_with_gradient"]);
    assert!(
        measured.get("nvml_used").is_none(),
        "there is no NVML on a CPU"
    );
    for file in [
        "record.jsonl",
        "timeline.svg",
        "timeline.png",
        "components.svg",
    ] {
        assert!(out.path().join(file).is_file(), "{file}");
    }
    vramcast()
        .arg("accuracy")
        .arg(out.path().join("record.jsonl"))
        .assert()
        .success();
}

#[test]
fn a_suite_of_probes_leaves_a_record_of_each() {
    let suite = "[[workload]]\nmodel = \"google/bert_uncased_L-2_H-128_A-2\"\n\
                 task = [\"base\", \"masked-lm\"]\nmode = \"infer\"\nbatch = [1, 2]\nseq = 5\n";
    let (folder, suite) = file("suite.toml", suite);
    let out = folder.path().join("out");
    let mut probe = vramcast();
    probe
        .args(["probe", "--device", "cpu", "--suite"])
        .arg(&suite)
        .arg("--out")
        .arg(&out);
    probe.assert().success();
    let records = std::fs::read_to_string(out.join("records.jsonl")).unwrap();
    assert_eq!(records.lines().count(), 4);
}

#[test]
fn a_suite_that_cannot_be_read_is_refused_with_the_place() {
    for (text, part) in [
        ("workload = []", "the suite is empty"),
        (
            "[[workload]]\nmodel = \"bert-base-uncased\"\nbach = 1",
            "suite.toml:3: unknown field `bach`",
        ),
        ("[[workload]\n", "suite.toml:1"),
        (
            "[[workload]]\nmodel = \"bert-base-uncased\"\ntask = \"base\"\nmode = \"infer\"\n\
             batch = \"many\"\nseq = 5",
            "suite.toml:5: a value that this field knows, or a list of them",
        ),
        (
            "[[workload]]\nmodel = [\"bert-base-uncased\", \"nope\"]\ntask = \"base\"\n\
             mode = \"infer\"\nbatch = 1\nseq = 5",
            "suite.toml: `nope` is not a known model",
        ),
        (
            "[[workload]]\nmodel = \"bert-base-uncased\"\ntask = \"base\"\nmode = \"infer\"\n\
             batch = 1\nseq = 5\nallocator_limit = \"16 GB\"",
            "suite.toml:7: `16 GB`",
        ),
    ] {
        let (_folder, suite) = file("suite.toml", text);
        check_refused(&["probe", "--suite", suite.to_str().unwrap()], part);
    }
}

#[test]
fn a_record_that_was_cut_off_is_refused_with_its_line() {
    for (text, part) in [
        (
            "{\"schema\":1,\"id\":\"a\"\n",
            "records.jsonl:1: not a JSON object, or cut off",
        ),
        (
            "\n{\"schema\":7}\n",
            "records.jsonl:2: not a record of schema 1",
        ),
    ] {
        let (_folder, records) = file("records.jsonl", text);
        check_refused(&["accuracy", records.to_str().unwrap()], part);
    }
}

#[test]
fn a_record_of_another_runtime_is_counted_and_said_to_be_unpredicted() {
    let text = "{\"schema\":1,\"id\":\"a\",\"runtime\":\"jax\"}\n";
    let (_folder, records) = file("records.jsonl", text);
    let output = vramcast().arg("accuracy").arg(&records).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("0 records predicted, 1 not"), "{stdout}");
}

/// A line of `probes/empty_cache.py`.
fn epochs(emptied: &str, limited: bool, outcome: &str, reserved: [u64; 2]) -> String {
    let cap = if limited { "\"cap_bytes\":7000," } else { "" };
    let [highest, after] = reserved;
    format!(
        "{{\"schema\":1,\"kind\":\"epochs\",\"id\":\"{emptied}-{limited}\",\
         \"model\":\"bert-base-uncased\",\"task\":\"sequence-classification\",\"mode\":\"train\",\
         \"batch\":16,\"seq\":512,\"runtime\":\"torch\",\"steps\":12,\"gpu\":\"NVIDIA H200\",{cap}\
         \"lengths\":[96,512],\"emptied\":\"{emptied}\",\"outcome\":\"{outcome}\",\"epochs\":[{{\
         \"peak_allocated\":1000,\"peak_reserved\":{highest},\"reserved_after\":{after},\
         \"milliseconds\":9}}]}}\n"
    )
}

/// A line of `probes/sharing.py`.
fn sharing(processes: u64, seq: u64, outcome: &str) -> String {
    let cap = 14 * (1u64 << 30) / processes;
    format!(
        "{{\"schema\":1,\"kind\":\"sharing\",\"id\":\"{processes}-{seq}\",\
         \"model\":\"bert-large-uncased\",\"task\":\"sequence-classification\",\
         \"mode\":\"train\",\"batch\":8,\"seq\":{seq},\"runtime\":\"torch\",\
         \"processes\":{processes},\"cap_bytes\":{cap},\"gpu\":\"NVIDIA H200\",\
         \"outcome\":\"{outcome}\",\"nvml_before\":0,\"nvml_used\":15032385536}}\n"
    )
}

#[test]
fn an_audit_judges_emptied_caches_and_shared_cards_by_their_records() {
    let lines = [
        epochs("never", false, "ok", [8000, 8000]),
        epochs("epoch", false, "ok", [8000, 2000]),
        epochs("step", false, "ok", [6000, 2000]),
        epochs("never", true, "oom", [6900, 6900]),
        epochs("epoch", true, "oom", [6900, 2000]),
        epochs("step", true, "ok", [6900, 2000]),
        sharing(2, 128, "ok"),
        sharing(3, 128, "oom"),
        sharing(2, 512, "oom"),
    ];
    let (folder, records) = file("records.jsonl", &lines.concat());
    let mut audit = vramcast();
    audit.arg("audit").arg(&records).arg("--out");
    audit.arg(folder.path()).assert().success();
    let page = std::fs::read_to_string(folder.path().join("advice.md")).unwrap();
    for part in [
        "| 0.0 % |  | wrong | never-false, epoch-false |",
        "| 25.0 % |  | true | never-false, step-false |",
        "| 75.0 % |  | true | never-false, epoch-false |",
        "| out of memory with it, too |  | wrong | never-true, epoch-true |",
        "| runs with it alone |  | true | never-true, step-true |",
        "% | true | 2-128 |",
        // What is taken when memory runs out is compared with nothing.
        "| out of memory, 14.00 GiB by NVML |  | wrong | 3-128 |",
        "for fine-tuning: **depends on sequence and processes**",
    ] {
        assert!(page.contains(part), "{part}");
    }
    vramcast().arg("accuracy").arg(&records).assert().success();
}

#[test]
fn the_smallest_card_that_is_enough_is_named_first() {
    let mut all = vramcast();
    let fit = "fit google/bert_uncased_L-4_H-256_A-4 --batch 256 --seq 512 --gpus all";
    let made = all.args(fit.split(' ')).assert().success();
    let text = String::from_utf8(made.get_output().stdout.clone()).unwrap();
    let first = text.split(' ').next().unwrap();
    let row = text
        .lines()
        .find(|line| line.starts_with(&format!("  {first} ")));
    assert!(row.is_some_and(|row| row.contains("fits")), "{text}");
    let row = |line: &&str| line.starts_with("  ");
    let before = text
        .lines()
        .filter(row)
        .take_while(|line| !line.contains(first));
    assert!(before.clone().count() > 0);
    for smaller in before {
        assert!(!smaller.contains(" fits "), "{smaller}");
    }
    let mut refused = vramcast();
    let compiled = "fit roberta-base --compile --gpus all";
    let error = refused.args(compiled.split(' ')).assert().code(2);
    let error = String::from_utf8(error.get_output().stderr.clone()).unwrap();
    assert!(error.contains("other than BERT"), "{error}");
}

#[test]
fn a_shell_completes_the_words_of_every_command() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let made = vramcast().arg("completions").arg(shell).assert().success();
        let script = String::from_utf8(made.get_output().stdout.clone()).unwrap();
        for word in ["advise", "checkpointing"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn the_manual_has_a_page_for_every_command() {
    let folder = tempfile::TempDir::new().unwrap();
    let mut man = vramcast();
    man.arg("man")
        .arg("--out")
        .arg(folder.path())
        .assert()
        .success();
    for page in ["vramcast.1", "vramcast-predict.1", "vramcast-lengths.1"] {
        let text = std::fs::read_to_string(folder.path().join(page)).unwrap();
        assert!(
            text.contains("Exit status") || text.contains("Examples"),
            "{page}"
        );
    }
    assert!(!folder.path().join("vramcast-probe-child.1").exists());
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let (_folder, occupied) = file("occupied", "");
    let mut probe = vramcast();
    probe.args([
        "probe",
        "google/bert_uncased_L-2_H-128_A-2",
        "--mode",
        "infer",
        "--batch",
        "1",
    ]);
    probe
        .args(["--seq", "2", "--device", "cpu", "--out"])
        .arg(occupied.join("out"));
    let output = probe.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("cannot be written"), "{stderr}");
}

/// With so little address space that the child cannot even load the model.
#[cfg(target_os = "linux")]
#[test]
fn a_child_that_runs_out_of_memory_is_a_record_and_exit_1() {
    let out = TempDir::new().unwrap();
    let script = format!(
        "ulimit -v 1000000; exec {} probe bert-large-uncased --batch 1 --seq 2 --mode infer \
         --device cpu --out {}",
        assert_cmd::cargo::cargo_bin("vramcast").display(),
        out.path().display()
    );
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    assert!(stdout.starts_with("oom: memory allocation of"), "{stdout}");
    let record = std::fs::read_to_string(out.path().join("record.jsonl")).unwrap();
    assert!(record.contains("\"outcome\":\"oom\""), "{record}");
}

/// Kills the probe's process as soon as it exists.
#[cfg(target_os = "linux")]
#[test]
fn a_child_that_is_killed_is_a_record_that_says_so() {
    let out = TempDir::new().unwrap();
    let mut parent = std::process::Command::new(assert_cmd::cargo::cargo_bin("vramcast"))
        .args([
            "probe",
            "bert-large-uncased",
            "--batch",
            "8",
            "--seq",
            "512",
            "--device",
            "cpu",
        ])
        .arg("--out")
        .arg(out.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let listing = format!("/proc/{0}/task/{0}/children", parent.id());
    let child = loop {
        let children = std::fs::read_to_string(&listing).unwrap_or_default();
        if let Some(child) = children.split_whitespace().next() {
            break child.to_owned();
        }
        assert!(
            parent.try_wait().unwrap().is_none(),
            "the probe ended without a child"
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    std::process::Command::new("kill")
        .args(["-9", &child])
        .status()
        .unwrap();
    assert_eq!(parent.wait().unwrap().code(), Some(1));
    let record = std::fs::read_to_string(out.path().join("record.jsonl")).unwrap();
    assert!(record.contains("died of signal 9"), "{record}");
}

#[test]
fn more_than_any_card_holds_is_an_answer_too() {
    let mut predict = vramcast();
    predict.args([
        "predict",
        "bert-base-uncased",
        "--batch",
        "400000",
        "--seq",
        "512",
    ]);
    let output = predict.args(["--gpu", "t4"]).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout.starts_with("does not fit"), "{stdout}");
}

#[test]
fn a_record_of_ours_that_is_broken_is_refused_and_one_that_is_there_twice() {
    let record = r#"{"schema":1,"id":"a","model":"bert-base-uncased","task":"base","mode":"infer",
        "batch":1,"seq":2,"attention":"eager","runtime":"candle","runtime_version":"0.11.1",
        "device":"cpu","outcome":"ok"}"#
        .replace('\n', " ");
    for (text, part) in [
        (
            record.replace("\"batch\":1", "\"batch\":\"x\""),
            "records.jsonl:1: not a record",
        ),
        (format!("{record}\n{record}\n"), "record a is there twice"),
        ("\n".to_owned(), "no records in"),
    ] {
        let (_folder, records) = file("records.jsonl", &text);
        check_refused(&["accuracy", records.to_str().unwrap()], part);
    }
}

#[test]
fn a_folder_of_a_models_name_does_not_hide_the_model() {
    let folder = TempDir::new().unwrap();
    std::fs::create_dir(folder.path().join("bert-base-uncased")).unwrap();
    let mut predict = vramcast();
    predict
        .current_dir(folder.path())
        .args(["predict", "bert-base-uncased"])
        .assert()
        .success();
}

#[test]
fn whoever_reads_no_further_is_no_error() {
    let binary = assert_cmd::cargo::cargo_bin("vramcast");
    for line in [
        "models --json | head -n 1",
        "predict nope 2>/dev/full",
        "predict nope 2>&1 | true",
    ] {
        let script = format!("{} {line}", binary.display());
        let status = std::process::Command::new("sh")
            .args(["-c", &script])
            .status()
            .unwrap();
        assert_ne!(status.code(), Some(101), "{line}");
    }
}

#[test]
fn the_catalogues_are_tables_and_json() {
    for what in ["models", "gpus", "doctor"] {
        vramcast().arg(what).assert().success();
        let output = vramcast().args([what, "--json"]).output().unwrap();
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap();
    }
}

#[test]
fn published_parameter_counts_are_met() {
    // With the pooler, as transformers counts them.
    let output = vramcast().args(["models", "--json"]).output().unwrap();
    let models: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for (name, n_params) in [
        ("bert-base-uncased", 109_482_240u64),
        ("bert-large-uncased", 335_141_888),
        ("bert-base-cased", 108_310_272),
        ("bert-base-multilingual-cased", 177_853_440),
        ("google/bert_uncased_L-2_H-128_A-2", 4_385_920),
    ] {
        let found = models
            .as_array()
            .unwrap()
            .iter()
            .find(|m| m["name"] == name)
            .unwrap();
        assert_eq!(found["n_params"].as_u64(), Some(n_params), "{name}");
    }
}

#[test]
fn a_search_for_the_largest_batch_prints_it_first_and_as_json() {
    let line = "fit google/bert_uncased_L-4_H-256_A-4 --seq 96 --capacity 2GiB";
    let output = vramcast().args(line.split(' ')).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    let json = vramcast().args(line.split(' ')).arg("--json").output();
    let fit: serde_json::Value = serde_json::from_slice(&json.unwrap().stdout).unwrap();
    let largest = fit["largest"].as_u64().unwrap();
    assert_eq!(fit["at_largest"]["batch"].as_u64(), Some(largest));
    assert!(
        stdout.starts_with(&format!("batch {largest}")),
        "{stdout}, {fit}"
    );
    let mut none = vramcast();
    none.args("fit bert-base-uncased --capacity 64MiB".split(' '));
    let output = none.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.starts_with(b"none: not even batch 1 fits"));
}

/// Both runtimes from one file, and a card on which nobody ran PyTorch.
#[test]
fn what_was_not_measured_is_said() {
    for (options, part) in [
        ("--gpu a100-80gb", "only an H200 was measured"),
        (
            "--gpu h200 --torch 2.10",
            "PyTorch 2.10.0+cu128 was not run",
        ),
        ("--mode infer", "no card was named"),
    ] {
        let mut predict = vramcast();
        predict.args(["predict", "roberta-base", "--precision", "bf16"]);
        let output = predict.args(options.split(' ')).output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(
            unwrapped(&stdout).contains(&format!("note: {part}")),
            "{options}: {stdout}"
        );
    }
}

#[test]
fn where_a_run_would_end_is_told_in_the_words_of_pytorch() {
    let mut predict = vramcast();
    let options = "--batch 24 --seq 384 --gpu h200 --allocator-limit 7249854464";
    predict.args(["predict", "bert-base-uncased"]);
    let output = predict.args(options.split(' ')).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = "\"CUDA out of memory. Tried to allocate 28.0 MiB\"";
    assert!(unwrapped(&stdout).contains(said), "{stdout}");
    let widest = stdout.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{stdout}");
}

/// Lines that go on in the next one, whole.
fn unwrapped(text: &str) -> String {
    text.replace("\n  ", " ")
}

#[test]
fn advice_names_the_cheapest_way_to_fit_first_and_how_to_do_it() {
    let out = TempDir::new().unwrap();
    let job = "google/bert_uncased_L-4_H-256_A-4 --batch 64 --seq 256 --capacity 1.5GiB";
    let mut command = vramcast();
    command.arg("advise").args(job.split(' '));
    let output = command.arg("--charts").arg(out.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(out.path().join("waterfall.svg").is_file());
    let text = String::from_utf8(output.stdout).unwrap();
    insta::assert_snapshot!(text);
    // A prediction that says no gives the same advice.
    let mut command = vramcast();
    command.arg("predict").args(job.split(' '));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).unwrap();
    let said = unwrapped(&said);
    let (first, last) = (text.lines().next(), said.lines().last());
    let last = last.and_then(|line| line.split("; ").next());
    assert_eq!(first, last);
}

#[test]
fn where_nothing_helps_advice_exits_with_1() {
    let job = "bert-large-uncased --batch 1 --seq 1 --capacity 100MiB";
    let mut command = vramcast();
    command.arg("advise").args(job.split(' '));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.starts_with("none of the levers makes it fit into 100 MiB"),
        "{text}"
    );
}

/// The child of a probe of PyTorch is any program that answers as the script does.
#[cfg(unix)]
mod probe_of_pytorch {
    use super::{file, vramcast};
    use std::os::unix::fs::PermissionsExt;
    use std::process::Output;

    /// Probes with a stand-in for Python that prints some text; with it, the records that are left.
    fn probe(options: &str, prints: &str, ends: i32) -> (Output, String) {
        let script = format!("#!/bin/sh\ncat > /dev/null\necho '{prints}'\nexit {ends}\n");
        let (folder, python) = file("python", &script);
        std::fs::set_permissions(&python, PermissionsExt::from_mode(0o755)).unwrap();
        let out = folder.path().join("out");
        let mut probe = vramcast();
        probe.args(["probe", "google/bert_uncased_L-2_H-128_A-2"]);
        probe.args(options.split(' ')).arg("--python").arg(&python);
        let output = probe.arg("--out").arg(&out).output().unwrap();
        let record = std::fs::read_to_string(out.join("record.jsonl")).unwrap_or_default();
        (output, record)
    }

    #[test]
    fn what_the_script_measures_is_a_record_beside_the_prediction() {
        let said = r#"{"outcome": "ok", "runtime_version": "2.11.0+cu130",
            "transformers_version": "5.17.0", "peak_allocated": 1, "reserved": 2,
            "steps": [{"start": 1, "peak_fwd": 1, "after_fwd": 1}],
            "events": [["alloc", 7, 4, 0], ["free_requested", 7, 4, 0], ["free_completed", 7, 4, 0]]}"#;
        let (output, record) = probe("--mode infer --trace", &said.replace('\n', " "), 0);
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{stdout}");
        assert!(stdout.starts_with("off by -"), "{stdout}");
        assert!(
            stdout.contains("the trace differs: event 1 of "),
            "{stdout}"
        );
        let record: serde_json::Value = serde_json::from_str(&record).unwrap();
        assert_eq!(record["runtime"], "torch");
        assert_eq!(record["runtime_version"], "2.11.0+cu130");
        assert_eq!(record["steps"][0]["peak_fwd"], 1);
    }

    #[test]
    fn a_trace_of_more_passes_than_are_followed_is_not_compared() {
        let said = r#"{"outcome": "ok", "peak_allocated": 1, "events": [["alloc", 7, 4, 0]]}"#;
        let (output, _) = probe("--batch 2 --seq 8 --accumulation 5 --trace", said, 0);
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(
            stdout.contains("not compared: a prediction follows 4 of 5 passes"),
            "{stdout}"
        );
    }

    #[test]
    fn what_a_wrapper_prints_before_the_record_does_not_matter() {
        let said = "hello\n{\"outcome\": \"oom\", \"error\": \"full\"}\n\n";
        let (output, record) = probe("--batch 2 --seq 8", said, 0);
        assert_eq!(output.status.code(), Some(1));
        assert!(record.contains("full"), "{record}");
    }

    #[test]
    fn a_child_without_a_record_is_a_failure_that_says_so() {
        for (said, ends) in [("", 0), ("no record", 0), (r#"{"outcome": "ok"}"#, 1)] {
            let (output, record) = probe("--batch 2 --seq 8", said, ends);
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(
                stderr.contains("no record came: the probe's process"),
                "{stderr}"
            );
            assert!(record.contains("\"failed\""), "{record}");
        }
    }

    #[test]
    fn running_out_of_memory_is_exit_1_and_a_failure_is_one_line_and_exit_2() {
        for (outcome, ends, status) in [("oom", 0, 1), ("failed", 1, 2)] {
            let said = format!(r#"{{"outcome": "{outcome}", "error": "so it is"}}"#);
            let (output, record) = probe("--batch 2 --seq 8", &said, ends);
            assert_eq!(output.status.code(), Some(status), "{outcome}");
            assert!(record.contains("so it is"), "{record}");
            let stderr = String::from_utf8(output.stderr).unwrap();
            let said = stderr.contains("error: the probe failed: so it is");
            assert_eq!(said, outcome == "failed", "{stderr}");
            assert_eq!(output.stdout.is_empty(), outcome == "failed");
        }
    }

    #[test]
    fn a_python_that_is_none_is_named() {
        let mut probe = vramcast();
        probe.args(["probe", "bert-base-uncased", "--python", "/no/python"]);
        let output = probe.args(["--out", "/tmp"]).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("/no/python cannot be started"), "{stderr}");
    }
}
