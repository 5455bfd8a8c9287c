//! The search for the largest batch and the longest sequence.

use vramcast::bytes::Bytes;
use vramcast::config::ModelConfig;
use vramcast::fit::{Axis, CardAnswer, Fit, cards, fit, frontier, grid, instances};
use vramcast::gpu::{self, GPUS};
use vramcast::predict::{Question, Verdict, predict};
use vramcast::workload::{Mode, Precision, Runtime, Task, Workload};

const MODEL: &str = "google/bert_uncased_L-4_H-256_A-4";

fn workload(runtime: Runtime, mode: Mode) -> Workload {
    Workload::new(runtime, Task::SequenceClassification, mode, 4, 96)
}

fn search(workload: &Workload, axis: Axis, capacity: u64) -> Fit {
    let config = ModelConfig::known(MODEL).unwrap();
    let question = Question {
        capacity: Some(Bytes(capacity)),
        ..Question::new(MODEL, &config, workload)
    };
    fit(&question, axis).unwrap()
}

#[test]
fn the_largest_batch_runs_and_the_next_does_not() {
    let mut checked = 0;
    for runtime in [Runtime::Candle, Runtime::Torch] {
        for mode in [Mode::Train, Mode::Infer] {
            for gib in [2, 3] {
                let workload = workload(runtime, mode);
                let found = search(&workload, Axis::Batch, gib << 30);
                let config = ModelConfig::known(MODEL).unwrap();
                let at = |batch| {
                    let workload = Workload {
                        batch,
                        ..workload.clone()
                    };
                    predict(&Question {
                        capacity: Some(Bytes(gib << 30)),
                        ..Question::new(MODEL, &config, &workload)
                    })
                    .unwrap()
                };
                let title = format!("{runtime} {mode} {gib} GiB: {found:?}");
                assert!(at(found.largest).runs(), "{title}");
                assert!(!at(found.largest + 1).runs(), "{title}");
                assert_eq!(at(found.certain).verdict, Verdict::Fits, "{title}");
                assert_eq!(at(found.possible + 1).verdict, Verdict::Oom, "{title}");
                assert!((found.certain..=found.possible).contains(&found.largest));
                checked += 1;
            }
        }
    }
    assert_eq!(checked, 8);
}

#[test]
fn what_never_fits_is_zero_and_what_the_model_bounds_is_said_to_be() {
    let workload = workload(Runtime::Torch, Mode::Train);
    let none = search(&workload, Axis::Batch, 1 << 20);
    assert_eq!((none.largest, none.certain), (0, 0));
    assert!(!none.bounded_by_model);
    let all = search(&workload, Axis::Seq, 64 << 30);
    assert_eq!((all.largest, all.bounded_by_model), (512, true));
}

#[test]
fn compiled_code_is_searched_from_the_smallest_batch_that_is_predicted() {
    let workload = Workload {
        compile: true,
        ..workload(Runtime::Torch, Mode::Train)
    };
    let some = search(&workload, Axis::Batch, 2 << 30);
    assert!(some.largest > 2 && some.tried[0].value == 2, "{some:?}");
    let none = search(&workload, Axis::Batch, 1 << 20);
    assert_eq!((none.largest, none.certain, none.possible), (0, 0, 0));
}

#[test]
fn more_memory_is_never_worse() {
    let workload = Workload {
        precision: Precision::AmpBf16,
        ..workload(Runtime::Torch, Mode::Train)
    };
    let batches: Vec<u64> = [2, 3, 4, 6, 8]
        .iter()
        .map(|gib| search(&workload, Axis::Batch, gib << 30).largest)
        .collect();
    assert!(batches.is_sorted(), "{batches:?}");
}

#[test]
fn a_search_needs_something_to_fit_into() {
    let config = ModelConfig::known(MODEL).unwrap();
    let workload = workload(Runtime::Torch, Mode::Train);
    let error = fit(&Question::new(MODEL, &config, &workload), Axis::Batch).unwrap_err();
    assert!(error.to_string().contains("--gpu"), "{error}");
}

#[test]
fn every_card_is_told_as_it_would_be_alone() {
    let config = ModelConfig::known(MODEL).unwrap();
    let workload = Workload {
        batch: 64,
        seq: 512,
        ..workload(Runtime::Torch, Mode::Train)
    };
    let question = Question::new(MODEL, &config, &workload);
    let all = cards(&question, Axis::Batch).unwrap();
    assert_eq!(all.len(), GPUS.len());
    assert!(all.is_sorted_by_key(|card| card.capacity));
    // A search that begins near the answer must end where one from the smallest value does.
    for card in all.iter().filter(|card| card.gpu != "k80") {
        let name = card.gpu;
        let alone = Question {
            gpu: gpu::find(name),
            ..question
        };
        let Ok(predicted) = predict(&alone) else {
            assert!(matches!(card.answer, CardAnswer::NotPredicted { .. }));
            continue;
        };
        let largest = fit(&alone, Axis::Batch).unwrap().largest;
        let largest_workload = Workload {
            batch: largest,
            ..workload.clone()
        };
        let expected = CardAnswer::Predicted {
            verdict: predicted.verdict,
            peak_nvml: predicted.peak_nvml,
            headroom: card.capacity.minus(predicted.peak_nvml),
            largest,
            verdict_at_largest: predict(&Question {
                workload: &largest_workload,
                ..alone
            })
            .unwrap()
            .verdict,
        };
        assert_eq!(card.answer, expected, "{name}");
    }
    let old = all.iter().find(|card| card.gpu == "k80").unwrap();
    let refused = |reason: &str| reason.contains("no kernels");
    assert!(matches!(&old.answer, CardAnswer::NotPredicted { reason } if refused(reason)));
}

#[test]
fn the_frontier_and_the_grid_say_what_a_search_at_each_sequence_says() {
    let config = ModelConfig::known(MODEL).unwrap();
    let workload = workload(Runtime::Torch, Mode::Train);
    let question = Question {
        gpu: gpu::find("t4"),
        ..Question::new(MODEL, &config, &workload)
    };
    let grid = grid(&question, 6, 4).unwrap();
    assert_eq!(grid.seqs, [128, 256, 384, 512]);
    let points = frontier(&question, &grid.seqs).unwrap();
    for (column, point) in points.iter().enumerate() {
        let at = Workload {
            seq: point.seq,
            ..workload.clone()
        };
        let alone = Question {
            workload: &at,
            ..question
        };
        assert_eq!(point.fit, fit(&alone, Axis::Batch).unwrap());
        assert_eq!(grid.largest[column], point.fit.largest, "{}", point.seq);
        let capacity = Bytes(question.gpu.unwrap().capacity().0);
        for (&batch, row) in grid.batches.iter().zip(&grid.peak_nvml) {
            // With room a job keeps its cache: it may take more and still run.
            let runs_with_room = row[column].unwrap() <= capacity;
            assert!(!runs_with_room || batch <= point.fit.largest, "{batch}");
        }
    }
    let sorted = points.is_sorted_by(|a, b| a.fit.largest >= b.fit.largest);
    assert!(sorted, "{points:?}");
}

#[test]
fn processes_take_a_context_each_and_models_in_one_process_share_it() {
    let config = ModelConfig::known(MODEL).unwrap();
    let workload = workload(Runtime::Torch, Mode::Infer);
    let question = Question {
        gpu: gpu::find("h200"),
        capacity: Some(Bytes(8 << 30)),
        ..Question::new(MODEL, &config, &workload)
    };
    let found = instances(&question).unwrap();
    let (alone, models) = (&found.alone, found.models.unwrap());
    assert_eq!(found.processes.largest, (8 << 30) / alone.peak_nvml.0);
    assert!(found.processes.certain <= found.processes.largest);
    let weights = models.fit.largest * 4 * alone.n_params;
    let (peak, context) = (models.peak_nvml.unwrap().0, alone.context.0);
    assert!((weights + context..=8 << 30).contains(&peak), "{peak}");
    assert!(models.fit.largest > 10 * found.processes.largest);

    let training = Workload {
        mode: Mode::Train,
        ..workload.clone()
    };
    let limited = Question {
        gpu: None,
        capacity: None,
        allocator_limit: Some(Bytes(4 << 30)),
        ..question
    };
    let error = instances(&limited).unwrap_err().to_string();
    assert!(error.contains("what do the processes share?"), "{error}");
    let trained = instances(&Question {
        workload: &training,
        ..question
    });
    assert!(trained.unwrap().models.is_none());
}
