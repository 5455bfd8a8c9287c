//! How long a prediction takes: one of a large model, and a sweep.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use vramcast::config::ModelConfig;
use vramcast::predict::{Question, predict};
use vramcast::workload::{Mode, Runtime, Task, Workload};

fn ask(model: &str, config: &ModelConfig, batch: u64, seq: u64, range: bool) -> u64 {
    let workload = Workload::new(
        Runtime::Candle,
        Task::SequenceClassification,
        Mode::Train,
        batch,
        seq,
    );
    let prediction = predict(&Question {
        range,
        ..Question::new(model, config, &workload)
    });
    prediction
        .expect("a known model and a sensible workload")
        .peak_reserved
        .0
}

fn benches(criterion: &mut Criterion) {
    let large = ModelConfig::known("bert-large-uncased").expect("known");
    criterion.bench_function("one bert-large training step", |b| {
        b.iter(|| black_box(ask("bert-large-uncased", &large, 8, 512, false)));
    });
    criterion.bench_function("the same with its range", |b| {
        b.iter(|| black_box(ask("bert-large-uncased", &large, 8, 512, true)));
    });
    let base = ModelConfig::known("bert-base-uncased").expect("known");
    let mut group = criterion.benchmark_group("sweep");
    group.sample_size(10);
    // A hundredth of the 10,000 points that a full sweep has.
    group.bench_function("100 points of bert-base over batch and sequence", |b| {
        b.iter(|| {
            for batch in 1..=10 {
                for step in 1..=10 {
                    black_box(ask("bert-base-uncased", &base, 6 * batch, 51 * step, false));
                }
            }
        });
    });
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
