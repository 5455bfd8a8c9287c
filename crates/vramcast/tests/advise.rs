//! Advice: what is said of a lever is the prediction of the job with it, and a combination is worth
//! naming.

use std::collections::BTreeSet;
use vramcast::advise::{Advice, Suggestion, advise};
use vramcast::bytes::{Bytes, GIB};
use vramcast::config::ModelConfig;
use vramcast::gpu;
use vramcast::predict::{Effort, Prediction, Question, Verdict, predict};
use vramcast::workload::{
    Attention, Loop, Mode, Optimizer, Placement, Precision, Runtime, Task, Workload,
};

fn training(batch: u64, seq: u64) -> Workload {
    let task = Task::SequenceClassification;
    Workload::new(Runtime::Torch, task, Mode::Train, batch, seq)
}

fn by_trainer(batch: u64, seq: u64) -> Workload {
    Workload {
        training_loop: Loop::Trainer,
        placement: Placement::To,
        optimizer: Optimizer::AdamwFused,
        ..training(batch, seq)
    }
}

fn on_candle(batch: u64, seq: u64) -> Workload {
    let task = Task::SequenceClassification;
    Workload::new(Runtime::Candle, task, Mode::Train, batch, seq)
}

fn levers(suggestion: &Suggestion) -> BTreeSet<&str> {
    suggestion.steps.iter().map(|s| s.lever.as_str()).collect()
}

/// Advice for a job, after the checks that hold for any: every figure is that of the changed job
/// alone, no step of a batch gets smaller, and the last step ends where the prediction does.
fn check(workload: &Workload, capacity: Option<Bytes>) -> Advice {
    let config = ModelConfig::known("google/bert_uncased_L-4_H-256_A-4").unwrap();
    let question = Question {
        capacity,
        ..Question::new("a small BERT", &config, workload)
    };
    let advice = advise(&question).unwrap();
    assert_eq!(advice.now, predict(&question).unwrap());
    for suggestion in advice.levers.iter().chain(&advice.combinations) {
        let changed = &suggestion.prediction.workload;
        let again: Prediction = predict(&Question {
            workload: changed,
            effort: Effort::Verdict,
            ..question
        })
        .unwrap();
        assert_eq!(suggestion.prediction, again, "{changed:?}");
        let last = suggestion.steps.last().unwrap();
        assert_eq!(last.peak_nvml, again.peak_nvml, "{changed:?}");
        if workload.mode == Mode::Train {
            let step = |w: &Workload| w.batch * u64::from(w.accumulation);
            assert_eq!(step(changed), step(workload), "{changed:?}");
        }
        let costs: Vec<_> = suggestion.steps.iter().map(|step| step.cost).collect();
        assert!(costs.is_sorted(), "{costs:?}");
    }
    advice
}

#[test]
fn what_must_fit_gets_combinations_that_fit_and_need_all_their_levers() {
    for (workload, capacity) in [
        (training(64, 256), 2 * GIB),
        (training(64, 256), 3 * GIB / 2),
        (on_candle(16, 256), 2 * GIB),
        (by_trainer(48, 384), 2 * GIB),
        (
            Workload {
                mode: Mode::Infer,
                ..training(256, 512)
            },
            GIB,
        ),
    ] {
        let advice = check(&workload, Some(Bytes(capacity)));
        let now = advice.now.verdict;
        assert!(matches!(now, Verdict::Tight | Verdict::Oom), "{workload:?}");
        assert!(!advice.combinations.is_empty(), "{workload:?}");
        for one in &advice.combinations {
            assert_eq!(one.prediction.verdict, Verdict::Fits);
            let others = advice.combinations.iter().filter(|other| *other != one);
            for other in others {
                assert!(!levers(one).is_superset(&levers(other)), "{:?}", one.steps);
            }
        }
        // A lever that suffices alone is a combination of one.
        for alone in &advice.levers {
            let suffices = alone.prediction.verdict == Verdict::Fits;
            let splits = alone.steps[0].lever.ends_with("passes");
            let listed = advice
                .combinations
                .iter()
                .any(|c| levers(c) == levers(alone));
            assert!(splits || suffices == listed, "{:?}", alone.steps);
        }
    }
}

#[test]
fn what_fits_gets_what_is_lower_than_everything_cheaper() {
    for (workload, capacity) in [
        (training(32, 256), None),
        (training(32, 256), Some(Bytes(100 * GIB))),
        (by_trainer(32, 256), None),
        (on_candle(16, 128), None),
    ] {
        let advice = check(&workload, capacity);
        let peaks = advice.combinations.iter().map(|c| c.prediction.peak_nvml);
        let peaks: Vec<Bytes> = [advice.now.peak_nvml].into_iter().chain(peaks).collect();
        assert!(peaks.windows(2).all(|pair| pair[1] < pair[0]), "{peaks:?}");
    }
}

/// The levers that a job has, alone.
#[test]
fn only_what_applies_to_a_job_is_advised() {
    let base = training(2, 64);
    let amp = Precision::AmpBf16;
    for (workload, expected) in [
        (
            base.clone(),
            "2 passes, adafactor, amp-bf16, bf16, checkpointing, expandable segments, sequence 32, sgd",
        ),
        (
            Workload {
                precision: amp,
                attention: Attention::Eager,
                checkpointing: true,
                optimizer: Optimizer::Sgd,
                allocator_conf: "expandable_segments:False".to_owned(),
                ..training(1, 64)
            },
            "bf16, sdpa attention, sequence 32",
        ),
        (
            on_candle(2, 64),
            "2 passes, amp-bf16, bf16, checkpointing, dropped graph, no dropout, sequence 32, sgd",
        ),
        (
            Workload {
                mode: Mode::Infer,
                ..on_candle(2, 64)
            },
            "2 passes, bf16, sequence 32",
        ),
        (
            Workload {
                compile: true,
                ..training(4, 64)
            },
            "adafactor, amp-bf16, checkpointing, expandable segments, no torch.compile, sequence 32, sgd",
        ),
        // PyTorch's Adafactor is not the Trainer's.
        (
            by_trainer(2, 64),
            "2 passes, amp-bf16, bf16, checkpointing, expandable segments, sequence 32, sgd",
        ),
        (
            Workload {
                mode: Mode::Infer,
                ..base.clone()
            },
            "2 passes, bf16, expandable segments, sequence 32",
        ),
    ] {
        let advice = check(&workload, None);
        let names: BTreeSet<&str> = advice.levers.iter().flat_map(levers).collect();
        let names: Vec<&str> = names.into_iter().collect();
        assert_eq!(names.join(", "), expected, "{workload:?}");
    }
}

/// One pass may run where more do not: under a compiler that refuses them, or where gradients that
/// stay are more than what smaller passes save.
#[test]
fn what_a_lever_makes_fit_in_one_pass_is_found() {
    let config = ModelConfig::known("bert-base-uncased").unwrap();
    let compiled = Workload {
        compile: true,
        ..training(64, 512)
    };
    let little = Workload {
        precision: Precision::AmpFp16,
        checkpointing: true,
        ..training(12, 128)
    };
    for (workload, capacity) in [(compiled, 14 * GIB), (little, 2 * GIB)] {
        let question = Question {
            capacity: Some(Bytes(capacity)),
            ..Question::new("bert-base-uncased", &config, &workload)
        };
        let advice = advise(&question).unwrap();
        assert_ne!(advice.now.verdict, Verdict::Fits);
        let fits = |s: &&Suggestion| s.prediction.verdict == Verdict::Fits;
        let alone = advice.levers.iter().filter(fits);
        let split = |s: &&Suggestion| s.steps[0].lever.ends_with("passes");
        let alone: Vec<_> = alone.filter(|s| !split(s)).collect();
        assert!(!alone.is_empty());
        for one in alone {
            let same = |other: &&Suggestion| levers(other) == levers(one);
            assert!(
                advice.combinations.iter().any(|c| same(&c)),
                "{:?}",
                one.steps
            );
        }
    }
}

#[test]
fn a_card_before_ampere_is_advised_half_precision_with_a_scaler() {
    let config = ModelConfig::known("google/bert_uncased_L-2_H-128_A-2").unwrap();
    let workload = training(8, 64);
    let question = Question {
        gpu: gpu::find("t4"),
        ..Question::new("a small BERT", &config, &workload)
    };
    let advice = advise(&question).unwrap();
    let changes = advice.levers.iter().flat_map(|s| &s.steps);
    let amp: Vec<&str> = changes
        .filter(|step| step.lever.contains("16"))
        .map(|step| step.change.as_str())
        .collect();
    assert!(amp[0].contains("float16") && amp[0].contains("GradScaler"));
    assert_eq!(amp.len(), 1);
}
