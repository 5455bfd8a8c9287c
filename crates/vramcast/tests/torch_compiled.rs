//! Compiled models against the traces of real runs.

#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::panic)]

use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;
use vramcast::alloc::caching::{AddressOrder, Conf, Limits, replay};
use vramcast::config::ModelConfig;
use vramcast::shadow::torch::{Process, Profile, run};
use vramcast::timeline::Event;
use vramcast::workload::{Mode, Workload};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen {
    Alloc(usize, u64),
    Free(usize, u64),
}

fn seen(events: &Value) -> Vec<Seen> {
    let (mut live, mut next) = (HashMap::new(), 0);
    let mut out = vec![];
    for event in events.as_array().unwrap() {
        let (address, size) = (event[1].as_u64().unwrap(), event[2].as_u64().unwrap());
        match event[0].as_str().unwrap() {
            "alloc" => {
                live.insert(address, (next, size));
                out.push(Seen::Alloc(next, size));
                next += 1;
            }
            "free_completed" => {
                if let Some((n, size)) = live.remove(&address) {
                    out.push(Seen::Free(n, size));
                }
            }
            _ => {}
        }
    }
    out
}

#[test]
fn debug_compiled() {
    let Ok(text) = std::fs::read_to_string("/tmp/rec/all.jsonl") else { return };
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let name = record["name"].as_str().unwrap();
        if std::env::var("ONLY").is_ok_and(|only| !name.starts_with(&only)) {
            continue;
        }
        let config = ModelConfig::from_json(&record["config"].to_string()).unwrap();
        let workload = Workload::deserialize(&record).unwrap();
        let steps = if workload.mode == Mode::Train { 3 } else { 2 };
        let run = match run(&config, &workload, Profile::TRACED, Process::Fresh, steps) {
            Ok(run) => run,
            Err(error) => {
                eprintln!("{name}: {error}");
                continue;
            }
        };
        let timeline = run.timeline;
        let begins: Vec<usize> = timeline
            .events
            .iter()
            .enumerate()
            .filter(|(_, e)| matches!(e, Event::Begin(_)))
            .map(|(i, _)| i)
            .collect();
        // The last two forward phases.
        let from = begins[begins.len() - if steps == 3 { 6 } else { 1 }];
        let ours: Vec<Seen> = timeline
            .events
            .iter()
            .filter_map(|e| match *e {
                Event::Alloc(b) => Some(Seen::Alloc(b as usize, timeline.buffers[b as usize].bytes)),
                Event::Free(b) => Some(Seen::Free(b as usize, timeline.buffers[b as usize].bytes)),
                _ => None,
            })
            .collect();
        let before = timeline.events[..from]
            .iter()
            .filter(|e| matches!(e, Event::Alloc(_) | Event::Free(_)))
            .count();
        let theirs = seen(&record["events"]);
        let last = |events: &[Seen]| events.iter().rposition(|e| matches!(e, Seen::Alloc(..))).unwrap();
        let (a, b) = (last(&ours), last(&theirs));
        let mut result = None;
        for which in [2usize, 1] {
            let from = begins[begins.len() - if steps == 3 { 3 * which } else { 1 }];
            let before = timeline.events[..from]
                .iter()
                .filter(|e| matches!(e, Event::Alloc(_) | Event::Free(_)))
                .count();
            let len = a + 1 - before;
            if len > b { continue; }
            let start = b + 1 - len;
            let mut pair = HashMap::new();
            result = None;
            for i in 0..len {
                let (x, y) = (ours[before + i], theirs[start + i]);
                let equal = match (x, y) {
                    (Seen::Alloc(m, s), Seen::Alloc(n, t)) => {
                        pair.insert(m, n);
                        s == t
                    }
                    (Seen::Free(m, s), Seen::Free(n, t)) => s == t && pair.get(&m).is_none_or(|p| *p == n),
                    _ => false,
                };
                if !equal {
                    let window = |events: &[Seen], at: usize| events[at.saturating_sub(4)..(at + 5).min(events.len())].to_vec();
                    result = Some(format!("step -{which} differs at {i} of {len}\n   ours {:?}\n theirs {:?}", window(&ours, before + i), window(&theirs, start + i)));
                    break;
                }
            }
            if let Some(result) = &result { eprintln!("{name}: {result}"); } else { eprintln!("{name}: step -{which} equal ({len})"); }
        }
        let _ = (before, result);
        let stats = replay(&timeline, Conf::default(), Limits::NONE, AddressOrder::Reserving).unwrap().stats;
        let peak = stats.allocated_peak;
        let measured = record["peak_allocated"].as_u64().unwrap();
        let third = record["steps"].as_array().unwrap().last().unwrap();
        let third = ["peak_fwd", "peak_bwd", "peak_step"].iter().filter_map(|k| third[*k].as_u64()).max().unwrap();
        let reserved = record["peak_reserved"].as_u64().unwrap();
        eprintln!("   reserved {} measured {reserved} ({:+.2} %)", stats.reserved_peak, 100.0 * (stats.reserved_peak as f64 / reserved as f64 - 1.0));
        eprintln!("   peak {peak} measured {measured} ({:+}) last step {third} ({:+})", peak as i64 - measured as i64, peak as i64 - third as i64);
    }
}
