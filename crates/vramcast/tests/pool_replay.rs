//! Replays the event log of an H200 and compares every address and every
//! reserved figure with what the driver gave.
//!
//! Constraint: the log is exact today in all twelve experiments, so any
//! difference is a regression.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the core does no IO; its tests read records"
)]

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;
use serde_json::Value;
use vramcast::alloc::CudaPool;

const LOG: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../reports/records/h200-cuda-pool.jsonl.gz"
);

struct Event {
    kind: String,
    id: i64,
    bytes: u64,
    address: u64,
    used: u64,
    reserved: u64,
}

/// What differed in one experiment.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    allocations: usize,
    addresses_off: usize,
    events: usize,
    used_off: usize,
    reserved_off: usize,
    used_peak: u64,
    reserved_peak: u64,
    measured_peak: u64,
}

/// The experiments of the log with their events, in order.
fn experiments() -> Vec<(String, Vec<Event>)> {
    let file = File::open(LOG).expect("the event log is part of the repository");
    let mut experiments: Vec<(String, Vec<Event>)> = Vec::new();
    // The first line holds the pool's settings.
    for line in BufReader::new(GzDecoder::new(file)).lines().skip(1) {
        let row: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let number = |column: usize| row[column].as_u64().unwrap();
        let name = row[0].as_str().unwrap();
        let event = Event {
            kind: row[1].as_str().unwrap().to_owned(),
            id: row[2].as_i64().unwrap(),
            bytes: number(3),
            address: number(4),
            used: number(5),
            reserved: number(6),
        };
        match experiments.last_mut() {
            Some((last, events)) if last == name => events.push(event),
            _ => experiments.push((name.to_owned(), vec![event])),
        }
    }
    experiments
}

/// Replays an experiment. Each one begins in an empty pool, so its lowest
/// address is the base of the range.
fn replay(name: &str, events: &[Event]) -> Outcome {
    let mut pool = CudaPool::new();
    if name == "threshold-max" {
        pool = pool.without_release();
    }
    let addresses = events.iter().map(|event| event.address);
    let base = addresses.filter(|&address| address != 0).min().unwrap();
    let mut outcome = Outcome::default();
    let mut live = HashMap::new();
    for event in events {
        match event.kind.as_str() {
            // Zero bytes give the null address. The device was idle after every event.
            "alloc" => {
                let offset = pool.alloc(event.id as u32, event.bytes, 0).unwrap();
                let expected = event.address.saturating_sub(base);
                outcome.allocations += 1;
                outcome.addresses_off += usize::from(offset != expected);
                live.insert(event.id, event.address);
            }
            "free" => {
                assert_eq!(live.remove(&event.id), Some(event.address));
                pool.free(event.id as u32, 0);
            }
            "sync" => pool.synchronize(),
            other => panic!("unknown event {other}"),
        }
        outcome.events += 1;
        outcome.used_off += usize::from(pool.used() != event.used);
        outcome.reserved_off += usize::from(pool.reserved() != event.reserved);
        outcome.used_peak = outcome.used_peak.max(event.used);
        outcome.measured_peak = outcome.measured_peak.max(event.reserved);
    }
    assert_eq!(pool.used_high(), outcome.used_peak, "{name}");
    outcome.reserved_peak = pool.reserved_high();
    outcome
}

#[test]
fn the_event_log_is_reproduced_exactly() {
    // Experiment, allocations, events, reserved peak in chunks of 32 MiB.
    let expected = [
        ("single", 32, 95, 160),
        ("granularity", 144, 300, 1),
        ("holes", 74, 149, 3),
        ("best-or-first", 16, 33, 2),
        ("growth", 120, 241, 12),
        ("growth-odd", 60, 121, 23),
        ("big-after-small", 46, 93, 61),
        ("reuse-no-sync", 40, 81, 2),
        ("partial-trim", 41, 86, 15),
        ("random-no-sync", 3198, 6398, 194),
        ("random-sync-20", 1598, 3348, 106),
        ("threshold-max", 2112, 4266, 115),
    ];
    let experiments = experiments();
    assert_eq!(experiments.len(), expected.len());
    for ((name, events), (expected_name, allocations, count, chunks)) in
        experiments.iter().zip(expected)
    {
        assert_eq!(name, expected_name);
        let exact = Outcome {
            allocations,
            events: count,
            used_peak: events.iter().map(|event| event.used).max().unwrap(),
            reserved_peak: chunks << 25,
            measured_peak: chunks << 25,
            ..Outcome::default()
        };
        let outcome = replay(name, events);
        assert_eq!(outcome, exact, "{name}");
    }
}
