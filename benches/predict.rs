//! How long answers take: one prediction of a large model, a sweep, and a search, on each runtime.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use vramcast::advise::advise;
use vramcast::bytes::Bytes;
use vramcast::config::ModelConfig;
use vramcast::fit::{Axis, cards, fit, grid};
use vramcast::predict::{Effort, Question, predict};
use vramcast::workload::{Mode, Runtime, Task, Workload};

fn training(runtime: Runtime, batch: u64, seq: u64) -> Workload {
    Workload::new(
        runtime,
        Task::SequenceClassification,
        Mode::Train,
        batch,
        seq,
    )
}

fn ask(config: &ModelConfig, workload: &Workload, effort: Effort) -> u64 {
    let prediction = predict(&Question {
        effort,
        ..Question::new("bench", config, workload)
    });
    prediction
        .expect("a known model and a sensible workload")
        .peak_reserved
        .0
}

fn benches(criterion: &mut Criterion) {
    let large = ModelConfig::known("bert-large-uncased").expect("known");
    let base = ModelConfig::known("bert-base-uncased").expect("known");
    for runtime in [Runtime::Candle, Runtime::Torch] {
        let mut group = criterion.benchmark_group(runtime.product());
        let workload = training(runtime, 8, 512);
        group.bench_function("one bert-large training run", |b| {
            b.iter(|| black_box(ask(&large, &workload, Effort::Expected)));
        });
        group.bench_function("the same with its range and need", |b| {
            b.iter(|| black_box(ask(&large, &workload, Effort::Need)));
        });
        group.sample_size(10);
        // A hundredth of the 10,000 points that a full sweep has.
        group.bench_function("100 points of bert-base over batch and sequence", |b| {
            b.iter(|| {
                for batch in 1..=10 {
                    for step in 1..=10 {
                        let workload = training(runtime, 6 * batch, 51 * step);
                        black_box(ask(&base, &workload, Effort::Expected));
                    }
                }
            });
        });
        group.bench_function("the largest batch of bert-large in 24 GiB", |b| {
            let question = Question {
                capacity: Some(Bytes(24 << 30)),
                ..Question::new("bench", &large, &workload)
            };
            b.iter(|| black_box(fit(&question, Axis::Batch).expect("a capacity").largest));
        });
        group.finish();
    }
    for (name, config) in [("bert-base", &base), ("bert-large", &large)] {
        let mut group = criterion.benchmark_group(name);
        group.sample_size(10);
        let workload = training(Runtime::Torch, 16, 512);
        group.bench_function("on all cards", |b| {
            let question = Question::new("bench", config, &workload);
            b.iter(|| black_box(cards(&question, Axis::Batch).expect("a workload").len()));
        });
        group.bench_function("64 x 32 points with the frontier in 24 GiB", |b| {
            let question = Question {
                capacity: Some(Bytes(24 << 30)),
                ..Question::new("bench", config, &workload)
            };
            b.iter(|| black_box(grid(&question, 64, 32).expect("a capacity").largest.len()));
        });
        group.finish();
    }
    for (name, runtime, config) in [
        ("all advice for bert-base in 16 GiB", Runtime::Torch, &base),
        (
            "all advice for bert-large in 16 GiB",
            Runtime::Torch,
            &large,
        ),
        (
            "all advice for bert-base in 16 GiB on candle",
            Runtime::Candle,
            &base,
        ),
    ] {
        let workload = training(runtime, 48, 512);
        criterion.bench_function(name, |b| {
            let question = Question {
                capacity: Some(Bytes(16 << 30)),
                ..Question::new("bench", config, &workload)
            };
            b.iter(|| black_box(advise(&question).expect("a capacity").tried));
        });
    }
}

criterion_group!(all, benches);
criterion_main!(all);
