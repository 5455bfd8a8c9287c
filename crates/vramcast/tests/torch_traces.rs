//! The shadow against PyTorch on an H200: every allocation and free of whole runs, in order.
//!
//! `reports/records/torch-h200-fresh*.jsonl.gz` hold the traces of runs alone in a process,
//! `torch-h200-attributed.jsonl.gz` those of models of two layers, and
//! `torch-h200-loading-and-trainer.jsonl.gz` what `from_pretrained` and HF Trainer add.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stderr,
    reason = "the core does no IO; its tests read records and say where they differ"
)]

mod traced;

use serde::Deserialize;
use serde_json::Value;
use traced::{config_of, records, seen};
use vramcast::alloc::caching::{AddressOrder, Conf, Limits, replay};
use vramcast::config::ModelConfig;
use vramcast::sequence::{Seen, first_difference_but};
use vramcast::shadow::torch::{self, Process, Profile, Run, run};
use vramcast::timeline::{Category, Event, Timeline};
use vramcast::workload::{Loop, Mode, Optimizer, Placement, Precision, Runtime, Task, Workload};

/// The first difference between a run and its shadow.
fn difference(
    config: &ModelConfig,
    workload: &Workload,
    profile: Profile,
    record: &Value,
) -> Option<String> {
    // What the records ran.
    let steps = match workload.mode {
        Mode::Train => 3,
        Mode::Infer => 2,
    };
    let Run { timeline, n_params } = run(config, workload, profile, Process::Fresh, steps).unwrap();
    if let Some(seen) = record.get("n_params") {
        assert_eq!(*seen, n_params);
    }
    torch::difference(&timeline, workload, &seen(&record["events"]))
}

/// Says what differs, and counts what is equal.
fn count_equal(
    profile: Profile,
    runs: impl Iterator<Item = (String, ModelConfig, Workload, Value)>,
) -> (u32, u32) {
    let (mut equal, mut different) = (0, 0);
    for (name, config, workload, record) in runs {
        match difference(&config, &workload, profile, &record) {
            None => equal += 1,
            Some(difference) => {
                different += 1;
                eprintln!("{name} {}: {difference}", workload.describe());
            }
        }
    }
    (equal, different)
}

/// The fresh runs of models that are known.
fn fresh() -> impl Iterator<Item = (String, ModelConfig, Workload, Value)> {
    runs_of(&["torch-h200-fresh.jsonl.gz", "torch-h200-fresh-2.jsonl.gz"])
}

fn runs_of(files: &[&str]) -> impl Iterator<Item = (String, ModelConfig, Workload, Value)> {
    let runs = files.iter().copied().flat_map(records);
    runs.filter_map(|record| {
        let config = config_of(record["model"].as_str().unwrap())?;
        let name = record["id"].as_str().unwrap().to_owned();
        Some((
            name,
            config,
            Workload::deserialize(&record).unwrap(),
            record,
        ))
    })
}

/// A known model with so many layers.
fn with_layers(name: &str, layers: u64) -> Option<ModelConfig> {
    let mut config = ModelConfig::known(name).ok()?;
    match &mut config {
        ModelConfig::Bert(config) => config.num_hidden_layers = layers,
        ModelConfig::Roberta(config) => config.encoder.num_hidden_layers = layers,
        ModelConfig::DistilBert(config) => config.n_layers = layers,
    }
    Some(config)
}

/// What the records of loading and of the Trainer ran.
fn bert_base_of_two() -> ModelConfig {
    with_layers("bert-base-uncased", 2).unwrap()
}

#[test]
fn every_allocation_and_free_of_a_fresh_run_is_predicted_in_order() {
    assert_eq!(count_equal(Profile::TRACED, fresh()), (51, 0));
}

/// The suites `probes/torch-h200.toml` and `-rare`; what was loaded by threads is in no order.
#[test]
fn every_allocation_and_free_of_the_suite_is_predicted_in_order() {
    let runs = runs_of(&["torch-h200-suite-traces.jsonl.gz"]);
    let in_order = runs.filter(|run| run.2.placement != Placement::DeviceMap);
    assert_eq!(count_equal(Profile::TRACED, in_order), (54, 0));
}

/// Two to eight models in one process, which compute in turn.
#[test]
fn every_allocation_and_free_of_several_models_is_predicted_in_order() {
    let runs = runs_of(&["torch-h200-models-traces.jsonl.gz"]);
    assert_eq!(count_equal(Profile::TRACED, runs), (17, 0));
}

/// FlashAttention and the memory-efficient kernel in half precision, which cards before Hopper and
/// builds before 2.11 choose.
#[test]
fn every_allocation_and_free_with_cudnn_last_is_predicted_in_order() {
    let profile = Profile {
        cudnn_last: true,
        ..Profile::TRACED
    };
    let runs = runs_of(&["torch-h200-cudnn-last.jsonl.gz"]);
    assert_eq!(count_equal(profile, runs), (12, 0));
}

/// The configuration of an attributed run: a known model of fewer layers.
fn attributed_config(record: &Value) -> Option<ModelConfig> {
    let name = match record["model"].as_str().unwrap() {
        "bert-base" => "bert-base-uncased",
        "distilbert" => "distilbert-base-uncased",
        name => name,
    };
    with_layers(name, record["layers"].as_u64().unwrap())
}

/// Labels were made for inference, too, and dropped before the first pass.
fn forget_unused_labels(record: &mut Value) {
    if record["mode"] != "infer" || record["task"] != "cls" {
        return;
    }
    let bytes = 8 * record["batch"].as_u64().unwrap();
    let events = record["events"].as_array_mut().unwrap();
    let labels = events
        .windows(2)
        .position(|pair| pair[0][0] == "alloc" && pair[0][2] == bytes && pair[1][1] == pair[0][1]);
    let labels = labels.unwrap();
    assert_eq!(events[labels + 2][0], "free_completed");
    events.drain(labels..labels + 3);
}

#[test]
fn every_allocation_and_free_of_an_attributed_run_is_predicted_in_order() {
    let runs = records("torch-h200-attributed.jsonl.gz").into_iter();
    let runs = runs.filter_map(|mut record| {
        let config = attributed_config(&record)?;
        forget_unused_labels(&mut record);
        let field = |name: &str| record[name].clone();
        let task = match record["task"].as_str().unwrap() {
            "cls" => "sequence-classification",
            "mlm" => "masked-lm",
            task => task,
        };
        let workload = serde_json::json!({
            "task": task, "mode": field("mode"), "batch": field("batch"), "seq": field("seq"),
            "precision": field("precision"), "attention": field("attn"),
            "optimizer": field("optim"), "checkpointing": field("ckpt"),
            "accumulation": record["accum"].as_u64().unwrap_or(1),
            "lora_rank": record["lora"].as_u64().unwrap_or(0), "runtime": Runtime::Torch,
        });
        let workload = serde_json::from_value(workload).unwrap();
        let name = record["model"].as_str().unwrap().to_owned();
        Some((name, config, workload, record))
    });
    assert_eq!(count_equal(Profile::TRACED, runs), (30, 0));
}

/// The records of how weights came to the device and of HF Trainer's loop, by their kind.
fn loading_and_trainer(kinds: &str) -> impl Iterator<Item = (String, Value)> {
    let records = records("torch-h200-loading-and-trainer.jsonl.gz").into_iter();
    records.filter_map(move |record| {
        let kind = record["kind"].as_str()?.strip_prefix(kinds)?.to_owned();
        Some((kind, record))
    })
}

/// What the records of loading and of the Trainer ran: a classifier on BERT-base with two layers.
fn classifier() -> Workload {
    Workload::new(
        Runtime::Torch,
        Task::SequenceClassification,
        Mode::Train,
        8,
        128,
    )
}

/// These records logged every step, which makes a scalar after the gradients are cleared.
fn forget_logging(record: &mut Value) {
    let events = record["events"].as_array_mut().unwrap();
    let frees = |events: &[Value]| {
        events
            .iter()
            .all(|e| e[0].as_str().unwrap().starts_with("free"))
    };
    let logged = |events: &[Value], i: usize| {
        let [made, asked, freed] = &events[i..i + 3] else {
            return false;
        };
        made[0] == "alloc"
            && made[2] == 4
            && asked[1] == made[1]
            && freed[1] == made[1]
            && frees(&events[i - 60..i])
    };
    let places: Vec<usize> = (60..events.len() - 3)
        .filter(|&i| logged(events, i))
        .collect();
    assert_eq!(places.len(), 3);
    for place in places.into_iter().rev() {
        events.drain(place..place + 3);
    }
}

#[test]
fn every_allocation_and_free_under_the_trainer_is_predicted_in_order() {
    let runs = loading_and_trainer("trainer_tr_").map(|(kind, mut record)| {
        forget_logging(&mut record);
        assert_eq!(record["optim"], "OptimizerNames.ADAMW_TORCH_FUSED");
        let workload = Workload {
            precision: match kind.contains("bf16") {
                true => Precision::AmpBf16,
                false => Precision::Fp32,
            },
            checkpointing: kind.ends_with("_ckpt"),
            accumulation: if kind.ends_with("_acc") { 2 } else { 1 },
            optimizer: Optimizer::AdamwFused,
            training_loop: Loop::Trainer,
            // The Trainer moves a model that was made on the host.
            placement: Placement::To,
            ..classifier()
        };
        (kind, bert_base_of_two(), workload, record)
    });
    assert_eq!(count_equal(Profile::TRACED, runs), (4, 0));
}

/// What loading a model allocates and frees.
fn loaded(precision: Precision, placement: Placement) -> Timeline {
    let workload = Workload {
        precision,
        placement,
        mode: Mode::Infer,
        ..classifier()
    };
    let mut timeline = run(
        &bert_base_of_two(),
        &workload,
        Profile::TRACED,
        Process::Fresh,
        0,
    )
    .unwrap()
    .timeline;
    let buffers = &timeline.buffers;
    timeline.events.retain(|event| match *event {
        Event::Alloc(b) | Event::Free(b) => buffers[b as usize].category != Category::Inputs,
        Event::Begin(_) | Event::Synchronize => false,
    });
    timeline
}

#[test]
fn every_allocation_of_a_model_that_is_moved_to_the_device_is_predicted_in_order() {
    let mut moved = 0;
    for (kind, record) in loading_and_trainer("fp_to") {
        let timeline = loaded(of_loading(&kind), Placement::To);
        let difference = first_difference_but(&timeline, &seen(&record["events"]), &[]);
        assert_eq!(difference, None, "{kind}");
        assert_takes_what_was_reported(&timeline, &record);
        moved += 1;
    }
    assert_eq!(moved, 2);
}

/// Threads load the parameters, in an order that differs from run to run: that of their sizes is
/// not compared. The block before them and the buffers after them have their place.
#[test]
fn the_blocks_of_a_model_that_is_loaded_on_the_device_are_predicted() {
    let mut loaded_there = 0;
    for (kind, record) in loading_and_trainer("fp_devmap") {
        let timeline = loaded(of_loading(&kind), Placement::DeviceMap);
        let predicted = timeline.events.iter().map(|event| match *event {
            Event::Alloc(b) => Seen::Alloc(timeline.buffers[b as usize].bytes),
            Event::Free(b) => Seen::Free(b),
            Event::Begin(_) | Event::Synchronize => unreachable!("only memory is left"),
        });
        let sorted = |mut events: Vec<Seen>| {
            let parameters = 2..events.len() - 2;
            events[parameters].sort_by_key(|event| match event {
                Seen::Alloc(bytes) => *bytes,
                Seen::Free(_) => 0,
            });
            events
        };
        assert_eq!(
            sorted(predicted.collect()),
            sorted(seen(&record["events"])),
            "{kind}"
        );
        assert_takes_what_was_reported(&timeline, &record);
        loaded_there += 1;
    }
    assert_eq!(loaded_there, 2);
}

/// The bytes that a loaded model takes, whatever the order of its blocks, are those reported.
fn assert_takes_what_was_reported(timeline: &Timeline, record: &Value) {
    let conf = Conf::default();
    let stats = replay(timeline, conf, Limits::NONE, AddressOrder::Reserving)
        .unwrap()
        .stats;
    assert_eq!(record["alloc"], stats.allocated);
    assert_eq!(record["peak"], stats.allocated_peak);
    assert_eq!(record["reserved"], stats.reserved);
}

fn of_loading(kind: &str) -> Precision {
    match kind {
        "bf16" => Precision::Bf16,
        _ => Precision::Fp32,
    }
}

/// From the configuration alone: neither the sequence nor an address is taken from the record.
#[test]
fn the_peaks_that_pytorch_reported_follow_from_the_configuration() {
    let (mut allocated_exact, mut reserved_exact, mut worst) = (0, 0, 0.0f64);
    for (name, config, workload, record) in fresh() {
        let steps = if workload.mode == Mode::Train { 3 } else { 2 };
        let timeline = run(&config, &workload, Profile::TRACED, Process::Fresh, steps)
            .unwrap()
            .timeline;
        let conf = Conf::default();
        let replay = replay(&timeline, conf, Limits::NONE, AddressOrder::Reserving).unwrap();
        let (allocated, reserved) = (replay.stats.allocated_peak, replay.stats.reserved);
        let measured = |field: &str| record[field].as_u64().unwrap();
        for (predicted, field, exact) in [
            (allocated, "peak_allocated", &mut allocated_exact),
            (reserved, "reserved", &mut reserved_exact),
        ] {
            *exact += u32::from(predicted == measured(field));
            let error = predicted as f64 / measured(field) as f64 - 1.0;
            worst = worst.max(error.abs());
            if error != 0.0 {
                let title = workload.describe();
                eprintln!("{name} {title}: {field} off by {:.3} %", 100.0 * error);
            }
        }
    }
    // What is off comes from the order of the addresses that the driver returns.
    assert_eq!((allocated_exact, reserved_exact), (42, 49));
    assert!(worst < 0.005, "{worst}");
}
