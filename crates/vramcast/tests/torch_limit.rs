//! Runs of PyTorch under a cap of its allocator, around what they need: which of them end well, and
//! where the others end.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the core does no IO; its tests read records"
)]

use serde::de::DeserializeOwned;
use std::path::Path;
use vramcast::bytes::{Bytes, MIB};
use vramcast::config::ModelConfig;
use vramcast::gpu;
use vramcast::predict::{Prediction, Question, Verdict, predict};
use vramcast::record::{Record, RunOutcome, Sharing};

fn records() -> Vec<Record> {
    records_of(&["torch-h200-limit.jsonl", "torch-h200-models.jsonl"])
}

fn records_of<T: DeserializeOwned>(files: &[&str]) -> Vec<T> {
    let of = |file: &&str| {
        let file = format!("../../reports/records/{file}");
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
    };
    let text: String = files.iter().map(of).collect();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn predicted(record: &Record) -> Prediction {
    let config = ModelConfig::known(&record.model).unwrap();
    predict(&Question {
        gpu: record.gpu.as_deref().and_then(gpu::find),
        allocator_limit: record.cap_bytes,
        ..Question::new(&record.model, &config, &record.workload)
    })
    .unwrap()
}

#[test]
fn each_run_ends_as_expected_and_no_plain_fits_fails() {
    for record in records() {
        let prediction = predicted(&record);
        let ran = record.outcome == RunOutcome::Ok;
        let what = format!("{} under {:?}", record.model, record.cap_bytes);
        assert_eq!(prediction.runs(), ran, "{what}");
        assert_ne!((prediction.verdict, ran), (Verdict::Fits, false), "{what}");
        assert_ne!((prediction.verdict, ran), (Verdict::Oom, true), "{what}");
    }
}

#[test]
fn a_run_that_fails_ends_with_the_figures_that_pytorch_printed() {
    let mut failed = 0;
    for record in records() {
        let Some(printed) = record.error.as_ref() else {
            continue;
        };
        let shortage = predicted(&record).shortage.unwrap();
        let unallocated = Bytes(shortage.reserved.0 - shortage.allocated.0);
        for text in [
            format!("Tried to allocate {}. ", size(shortage.tried)),
            format!(
                "Of the allocated memory {} is allocated by PyTorch, and {} is reserved by PyTorch \
                 but unallocated.",
                size(shortage.allocated),
                size(unallocated)
            ),
        ] {
            assert!(printed.contains(&text), "{text}: {printed}");
        }
        failed += 1;
    }
    assert_eq!(failed, 8);
}

/// Processes that share a card take what so many of them are predicted to; the context of each is up
/// to 4 MiB less where there are others.
#[test]
fn processes_that_share_a_card_take_what_each_is_predicted_to_take() {
    let groups: Vec<Sharing> = records_of(&["advice-h200-sharing.jsonl"]);
    let ran = groups
        .iter()
        .filter(|group| group.outcome == RunOutcome::Ok);
    let mut checked = 0;
    for group in ran {
        let config = ModelConfig::known(&group.model).unwrap();
        let each = predict(&Question {
            gpu: group.gpu.as_deref().and_then(gpu::find),
            allocator_limit: Some(group.cap_bytes),
            ..Question::new(&group.model, &config, &group.workload)
        })
        .unwrap();
        let used = group.nvml_used.unwrap().0 - group.nvml_before.unwrap().0;
        let more = each.peak_nvml.0 * group.processes - used;
        assert!(more <= group.processes * 4 * MIB, "{}: {more}", group.id);
        checked += 1;
    }
    assert_eq!(checked, 2);
}

/// A size as PyTorch prints it (`format_size`).
fn size(bytes: Bytes) -> String {
    match bytes.0 {
        0..=1_073_741_824 => format!("{:.2} MiB", bytes.0 as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", bytes.0 as f64 / 1_073_741_824.0),
    }
}
