//! The shadow against candle on an H200: every `cuMemAllocAsync` and `cuMemFreeAsync` of whole
//! runs, in order.
//!
//! `reports/records/candle-h200-traces.jsonl` says which runs; `probes/cuda_alloc_logger.c` made the
//! traces.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the core does no IO; its tests read records"
)]

use flate2::read::GzDecoder;
use serde::Deserialize;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use vramcast::config::ModelConfig;
use vramcast::sequence::{Seen, first_difference};
use vramcast::shadow::candle::{Flavour, run};
use vramcast::workload::Workload;

#[derive(Deserialize)]
struct Traced {
    model: String,
    #[serde(flatten)]
    workload: Workload,
    trace: String,
}

/// What a probe tries the speed of the host with, before there is a model: tensors of one value.
const TRIED: u64 = 4;

/// A line of a trace: nanoseconds, then `+ address bytes`, `- address` or `s`.
fn read(file: &Path) -> Vec<Seen> {
    let mut text = String::new();
    GzDecoder::new(File::open(file).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    let (mut live, mut next) = (HashMap::new(), 0u32);
    let (mut seen, mut last_synchronisation) = (Vec::new(), 0);
    for line in text.lines() {
        match line.split(' ').collect::<Vec<_>>()[1..] {
            ["+", address, bytes] => {
                live.insert(address.to_owned(), next);
                next += 1;
                seen.push(Seen::Alloc(bytes.parse().unwrap()));
            }
            // The last tensor of the trial outlives it.
            ["-", address] => seen.extend(live.remove(address).map(Seen::Free)),
            ["s"]
                if seen
                    .iter()
                    .all(|e| !matches!(e, Seen::Alloc(bytes) if *bytes > TRIED)) =>
            {
                seen.clear();
                (live, next) = (HashMap::new(), 0);
            }
            ["s"] => last_synchronisation = seen.len(),
            _ => panic!("{}: {line}", file.display()),
        }
    }
    // Steps end with a synchronisation; what is freed later is the model.
    seen.truncate(last_synchronisation);
    seen
}

#[test]
fn every_allocation_and_free_of_every_trace_is_predicted_in_order() {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reports/records");
    let index = std::fs::read_to_string(records.join("candle-h200-traces.jsonl")).unwrap();
    let traced: Vec<Traced> = index
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert!(traced.len() >= 7);
    for Traced {
        model,
        workload,
        trace,
    } in traced
    {
        let config = ModelConfig::known(&model).unwrap();
        let (timeline, _) = run(&config, &workload, Flavour::Cuda, 2).unwrap();
        let seen = read(&records.join(trace));
        assert_eq!(
            first_difference(&timeline, &seen),
            None,
            "{model} {}",
            workload.describe()
        );
    }
}
