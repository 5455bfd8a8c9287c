//! The shadow against PyTorch on an H200: every allocation and free of whole runs, in order.
//!
//! `reports/records/torch-h200-fresh*.jsonl.gz` hold the traces of runs alone in a process,
//! `torch-h200-attributed.jsonl.gz` those of models of two layers.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stderr,
    reason = "the core does no IO; its tests read records and say where they differ"
)]

use flate2::read::GzDecoder;
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use vramcast::alloc::caching::{AddressOrder, CachingAllocator, Conf, Limits};
use vramcast::config::ModelConfig;
use vramcast::sequence::{Seen, first_difference_but};
use vramcast::shadow::torch::{Card, Run, run};
use vramcast::timeline::{Event, Phase, Timeline};
use vramcast::workload::{Mode, Precision, Runtime, Workload};

/// The records of a file, one object a line.
fn records(file: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reports/records");
    let lines = BufReader::new(GzDecoder::new(File::open(folder.join(file)).unwrap())).lines();
    lines
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect()
}

/// Allocations and frees by number.
fn seen(events: &Value) -> Vec<Seen> {
    let events = events.as_array().unwrap().iter().map(|event| {
        let number = |i: usize| event[i].as_u64().unwrap();
        (event[0].as_str().unwrap(), number(1), number(2))
    });
    let mut events = events
        .filter(|event| matches!(event.0, "alloc" | "free_completed"))
        .peekable();
    // A scalar that importing transformers' audio module leaves, since the import ran under
    // `torch.device("cuda")`: no part of the model.
    events.next_if(|first| first.2 <= 4);
    let (mut live, mut next) = (HashMap::new(), 0);
    let told = events.filter_map(|(action, address, size)| match action {
        "alloc" => {
            live.insert(address, next);
            next += 1;
            Some(Seen::Alloc(size))
        }
        _ => live.remove(&address).map(Seen::Free),
    });
    told.collect()
}

/// The first difference between a run and its shadow.
fn difference(config: &ModelConfig, workload: &Workload, record: &Value) -> Option<String> {
    // What the records ran.
    let steps = match workload.mode {
        Mode::Train => 3,
        Mode::Infer => 2,
    };
    let Run { timeline, n_params } = run(config, workload, Card::H200, steps).unwrap();
    assert_eq!(record["n_params"], n_params);
    let mut seen = seen(&record["events"]);
    // The story ends before the model dies: what was seen later may only be frees.
    let memory = |event: &&Event| matches!(event, Event::Alloc(_) | Event::Free(_));
    let told = timeline.events.iter().filter(memory).count();
    if seen
        .get(told..)
        .is_some_and(|rest| rest.iter().all(|e| matches!(e, Seen::Free(_))))
    {
        seen.truncate(told);
    }
    // Autocast gives its copies back in the order of a hash map, at the end of each pass and of each
    // second run of a layer; nothing else is without order.
    let unordered: &[Phase] = match workload.precision {
        Precision::AmpBf16 | Precision::AmpFp16 => &[Phase::Forward, Phase::Backward],
        Precision::Fp32 | Precision::Bf16 | Precision::Fp16 => &[],
    };
    first_difference_but(&timeline, &seen, unordered)
}

/// Says what differs, and counts what is equal.
fn count_equal(runs: impl Iterator<Item = (String, ModelConfig, Workload, Value)>) -> (u32, u32) {
    let (mut equal, mut different) = (0, 0);
    for (name, config, workload, record) in runs {
        match difference(&config, &workload, &record) {
            None => equal += 1,
            Some(difference) => {
                different += 1;
                eprintln!("{name} {}: {difference}", workload.describe());
            }
        }
    }
    (equal, different)
}

/// The fresh runs of BERT without adapters, which are not followed.
fn fresh_berts() -> impl Iterator<Item = (String, ModelConfig, Workload, Value)> {
    let files = ["torch-h200-fresh.jsonl.gz", "torch-h200-fresh-2.jsonl.gz"];
    let runs = files.into_iter().flat_map(records).filter(|record| {
        let model = record["model"].as_str().unwrap();
        model.starts_with("bert-") && record["lora_rank"] == 0
    });
    runs.map(|record| {
        let config = ModelConfig::known(record["model"].as_str().unwrap()).unwrap();
        let name = record["id"].as_str().unwrap().to_owned();
        (
            name,
            config,
            Workload::deserialize(&record).unwrap(),
            record,
        )
    })
}

#[test]
fn every_allocation_and_free_of_a_fresh_bert_is_predicted_in_order() {
    let runs = fresh_berts();
    assert_eq!(count_equal(runs), (34, 0));
}

#[test]
fn every_allocation_and_free_of_an_attributed_bert_is_predicted_in_order() {
    let runs = records("torch-h200-attributed.jsonl.gz").into_iter();
    let runs = runs.filter(|record| record["model"] == "bert-base" && record["lora"].is_null());
    let runs = runs.enumerate().map(|(i, record)| {
        let ModelConfig::Bert(mut config) = ModelConfig::known("bert-base-uncased").unwrap();
        config.num_hidden_layers = record["layers"].as_u64().unwrap();
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
            "accumulation": record["accum"].as_u64().unwrap_or(1), "runtime": Runtime::Torch,
        });
        let workload = serde_json::from_value(workload).unwrap();
        (
            format!("run {i}"),
            ModelConfig::Bert(config),
            workload,
            record,
        )
    });
    assert_eq!(count_equal(runs), (19, 0));
}

/// Allocated peak and final reserved bytes that the allocator makes of a shadow's timeline, when
/// the cache is emptied and the peaks begin once the model is built, as in the records.
fn allocator_peaks(timeline: &Timeline) -> (u64, u64) {
    let mut allocator =
        CachingAllocator::new(Conf::default(), Limits::NONE, AddressOrder::Reserving);
    // The scalar of the audio module's import.
    allocator.alloc(timeline.buffers.len() as u32, 4).unwrap();
    let mut loading = true;
    for event in &timeline.events {
        match *event {
            Event::Alloc(b) => {
                allocator
                    .alloc(b, timeline.buffers[b as usize].bytes)
                    .unwrap();
            }
            Event::Free(b) => allocator.free(b),
            Event::Begin(phase) if loading && phase != Phase::Load => {
                loading = false;
                allocator.empty_cache();
                allocator.reset_peaks();
            }
            Event::Begin(_) | Event::Synchronize => {}
        }
    }
    (allocator.stats().allocated_peak, allocator.stats().reserved)
}

/// From the configuration alone: neither the sequence nor an address is taken from the record.
#[test]
fn the_peaks_that_pytorch_reported_follow_from_the_configuration() {
    let (mut allocated_exact, mut reserved_exact, mut worst) = (0, 0, 0.0f64);
    for (name, config, workload, record) in fresh_berts() {
        let steps = if workload.mode == Mode::Train { 3 } else { 2 };
        let timeline = run(&config, &workload, Card::H200, steps).unwrap().timeline;
        let (allocated, reserved) = allocator_peaks(&timeline);
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
    assert_eq!((allocated_exact, reserved_exact), (28, 33));
    assert!(worst < 0.003, "{worst}");
}
