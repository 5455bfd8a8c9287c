//! What a machine measures of its card: its arithmetic on real records, and what a prediction takes
//! from it.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the core does no IO; its tests read records"
)]

use std::path::Path;
use vramcast::bytes::{Bytes, GIB, MIB};
use vramcast::calibration::{Calibration, Run, SCHEMA};
use vramcast::config::ModelConfig;
use vramcast::context::{Loaded, context};
use vramcast::gpu::{self, Gpu};
use vramcast::predict::{Prediction, Question, Verdict, predict};
use vramcast::record::{Record, RunOutcome};
use vramcast::workload::{Mode, Runtime, Task, Workload};

fn h200() -> &'static Gpu {
    gpu::find("h200").unwrap()
}

fn records(file: &str) -> Vec<Record> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reports/records");
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<Vec<Record>, _>>().unwrap()
}

/// What those records would have been as a calibration.
fn calibration(runtime: Runtime, records: Vec<Record>) -> Calibration {
    let runs = records.into_iter().filter_map(|record| {
        // Some are of models that lie in files.
        let config = ModelConfig::known(&record.model).ok()?;
        let loaded = Question {
            gpu: Some(h200()),
            ..Question::new(&record.model, &config, &record.workload)
        }
        .loaded();
        Some(Run { loaded, record })
    });
    Calibration {
        schema: SCHEMA,
        gpu: "h200".to_owned(),
        driver: "580.159.04".to_owned(),
        runtime,
        runtime_version: "2.11.0+cu130".to_owned(),
        date: "2026-11-30".to_owned(),
        runs: runs.collect(),
    }
}

fn suite() -> Calibration {
    calibration(Runtime::Torch, records("torch-h200-suite.jsonl"))
}

/// What is said of a training run on a T4.
fn on_t4(capacity: Option<Bytes>, calibration: Option<&Calibration>) -> Prediction {
    let config = ModelConfig::known("bert-base-uncased").unwrap();
    let task = Task::SequenceClassification;
    let workload = Workload::new(Runtime::Torch, task, Mode::Train, 8, 128);
    predict(&Question {
        gpu: gpu::find("t4"),
        capacity,
        calibration,
        ..Question::new("bert-base-uncased", &config, &workload)
    })
    .unwrap()
}

#[test]
fn the_contexts_that_are_known_here_follow_from_the_records_that_they_cite() {
    let measured = suite();
    for mode in [Mode::Train, Mode::Infer] {
        for cudnn in [false, true] {
            let loaded = Loaded::Torch { mode, cudnn };
            let (ours, known) = (
                measured.context(loaded).unwrap(),
                context(Some(h200()), loaded),
            );
            assert_eq!(
                (ours.low, ours.bytes, ours.high),
                (known.low, known.bytes, known.high),
                "{loaded}"
            );
        }
    }
    let candle = calibration(Runtime::Candle, records("candle-h200.jsonl"));
    let loaded = Loaded::Candle { half: false };
    let ours = candle.context(loaded).unwrap();
    assert_eq!(ours.bytes, context(Some(h200()), loaded).bytes);
    assert_eq!(candle.usable(), Some(Bytes(h200().capacity().0)));
}

#[test]
fn a_run_that_ended_badly_or_without_nvml_says_nothing() {
    let mut measured = suite();
    measured.runs.truncate(3);
    let loaded = measured.runs[0].loaded;
    for run in &mut measured.runs {
        run.loaded = loaded;
    }
    measured.runs[0].record.outcome = RunOutcome::Oom;
    measured.runs[1].record.measured.nvml_before = None;
    assert_eq!(measured.cited(loaded).runs, 1);
    measured.runs[2].record.measured.nvml_used = Some(Bytes(0));
    assert_eq!(measured.cited(loaded).runs, 0);
    assert_eq!(measured.context(loaded), None);
}

#[test]
fn a_prediction_takes_context_and_capacity_from_it_and_says_so() {
    let mut measured = suite();
    for run in &mut measured.runs {
        run.record.measured.usable = Some(Bytes(15 << 30));
    }
    let with = on_t4(None, Some(&measured));
    let loaded = Loaded::Torch {
        mode: Mode::Train,
        cudnn: false,
    };
    assert_eq!(with.context, measured.context(loaded).unwrap().bytes);
    assert_eq!(with.capacity, Some(Bytes(15 << 30)));
    assert_eq!(with.card_with_capacity().map(|gpu| gpu.name), Some("t4"));
    let cited = with.calibration.unwrap();
    let note = format!(
        "context measured on this machine on 2026-11-30: driver 580.159.04, {} runs",
        cited.runs
    );
    assert_eq!(with.notes[0], note);
    let given = on_t4(Some(Bytes(1 << 30)), Some(&measured));
    assert_eq!(given.capacity, Some(Bytes(1 << 30)));
    assert_eq!(given.verdict, Verdict::Oom);
    assert_eq!(given.card_with_capacity(), None);
}

#[test]
fn what_it_does_not_have_is_answered_as_without_it() {
    let mut measured = suite();
    let is_training = |run: &Run| {
        matches!(
            run.loaded,
            Loaded::Torch {
                mode: Mode::Train,
                ..
            }
        )
    };
    measured.runs.retain(|run| !is_training(run));
    let without = on_t4(None, None);
    let with = on_t4(None, Some(&measured));
    assert_eq!(with.context, without.context);
    assert_eq!(with.notes, without.notes);
    assert_eq!(with.calibration.unwrap().runs, 0);
}

#[test]
fn it_reads_back_as_it_was_written() {
    let mut measured = suite();
    measured.runs.truncate(2);
    let text = serde_json::to_string(&measured).unwrap();
    assert_eq!(
        serde_json::from_str::<Calibration>(&text).unwrap(),
        measured
    );
}

/// What the readings of other cards rest on: the message's figures add up to what NVML showed.
#[test]
fn pytorchs_message_tells_the_context_that_nvml_showed() {
    let mut told = 0;
    for record in records("torch-h200-limit.jsonl") {
        let Some(message) = record.error.as_deref() else {
            continue;
        };
        let after = |words: &str| size(message.split(words).nth(1).unwrap());
        let process = after("this process has ");
        let allocated = after("Of the allocated memory ");
        let unallocated = after("is allocated by PyTorch, and ");
        let measured = &record.measured;
        let beside = measured.nvml_used.unwrap().0 - measured.nvml_before.unwrap().0;
        let shown = beside as f64 - measured.peak_reserved.unwrap().0 as f64;
        let off = shown - (process - allocated - unallocated);
        assert!(off.abs() < 12.0 * MIB as f64, "{}: {off}", record.id);
        told += 1;
    }
    assert!(told >= 5, "{told}");
}

/// The bytes of `6.62 GiB`, at the start of a text.
fn size(text: &str) -> f64 {
    let mut words = text.split_whitespace();
    let number: f64 = words.next().unwrap().parse().unwrap();
    let unit = match words.next().unwrap() {
        "GiB" => GIB,
        "MiB" => MIB,
        unit => panic!("{unit}"),
    };
    number * unit as f64
}

/// `vramcast calibrate` on the card whose contexts are known from other runs, of other shapes.
#[test]
fn what_calibrate_found_on_an_h200_lies_within_what_is_known_of_it() {
    let measured = calibration(Runtime::Torch, records("calibration-h200.jsonl"));
    let kinds = measured.kinds();
    assert_eq!(kinds.len(), 6);
    for loaded in kinds {
        let (found, known) = (
            measured.context(loaded).unwrap(),
            context(Some(h200()), loaded),
        );
        assert!(
            known.low <= found.low && found.high <= known.high,
            "{loaded}"
        );
        // Kernels are loaded in steps of 2 MiB.
        assert!(found.bytes.minus(known.bytes).abs() <= 2 << 20, "{loaded}");
    }
    assert_eq!(measured.usable(), Some(Bytes(h200().capacity().0)));
}
