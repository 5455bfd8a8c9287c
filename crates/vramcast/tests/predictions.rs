//! What must hold of every prediction, whatever the model and the shapes.

use proptest::prelude::*;
use vramcast::config::ModelConfig;
use vramcast::predict::{Prediction, Question, Verdict, predict, predict_with_timeline};
use vramcast::shadow::candle::Flavour;
use vramcast::timeline::{Event, Phase, Timeline};
use vramcast::workload::{Code, Mode, Optimizer, Runtime, Task, Workload};

#[derive(Debug)]
struct Asked {
    config: ModelConfig,
    workload: Workload,
    flavour: Flavour,
}

fn asked() -> impl Strategy<Value = Asked> {
    let sizes = (1..6u64, 1..5u64, 0..4u64, 1..5u64, prop::bool::ANY);
    let tasks = prop::sample::select(vec![
        Task::Base,
        Task::SequenceClassification,
        Task::MaskedLm,
    ]);
    let shapes = (1..5u64, 1..17u64, tasks);
    let ways = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (sizes, shapes, ways).prop_map(
        |((heads, width, layers, inner, drops), (batch, seq, task), (train, sgd, cuda, stock))| {
            let config = ModelConfig::from_json(&format!(
                r#"{{"model_type": "bert", "vocab_size": 37, "hidden_size": {},
                    "num_hidden_layers": {}, "num_attention_heads": {heads},
                    "intermediate_size": {}, "max_position_embeddings": 16,
                    "hidden_dropout_prob": {}}}"#,
                heads * width,
                layers.max(1),
                7 * inner,
                if drops { 0.1 } else { 0.0 }
            ))
            .unwrap();
            let mode = if train { Mode::Train } else { Mode::Infer };
            let mut workload = Workload::new(Runtime::Candle, task, mode, batch, seq);
            if sgd {
                workload.optimizer = Optimizer::Sgd;
            }
            if stock {
                workload = Workload::new(Runtime::Candle, Task::Base, Mode::Infer, batch, seq);
                workload.code = Code::CandleTransformers;
            }
            let flavour = if cuda { Flavour::Cuda } else { Flavour::Cpu };
            Asked {
                config,
                workload,
                flavour,
            }
        },
    )
}

fn answer(asked: &Asked) -> (Prediction, Timeline) {
    predict_with_timeline(&question(asked)).unwrap()
}

fn question(asked: &Asked) -> Question<'_> {
    Question {
        flavour: asked.flavour,
        ..Question::new("test", &asked.config, &asked.workload)
    }
}

proptest! {
    #[test]
    fn what_is_alive_at_the_peak_sums_to_the_peak(asked in asked()) {
        let (prediction, _) = answer(&asked);
        let sum: u64 = prediction.at_peak.parts().iter().map(|(_, bytes)| bytes.0).sum();
        prop_assert_eq!(sum, prediction.peak_allocated.0);
        let highest = prediction.phases.iter().map(|p| p.peak_requested).max();
        prop_assert_eq!(highest, Some(prediction.peak_requested));
        prop_assert!(prediction.peak_requested <= prediction.peak_reserved);
    }

    #[test]
    fn every_free_names_a_live_buffer_and_a_step_leaves_the_model_alone(asked in asked()) {
        let (_, timeline) = answer(&asked);
        let mut live = vec![false; timeline.buffers.len()];
        for event in &timeline.events {
            match *event {
                Event::Alloc(b) => live[b as usize] = true,
                Event::Free(b) => prop_assert!(std::mem::replace(&mut live[b as usize], false)),
                Event::Begin(_) | Event::Synchronize => {}
            }
        }
        for (buffer, live) in timeline.buffers.iter().zip(live) {
            prop_assert_eq!(live, buffer.phase == Phase::Load, "{:?}", buffer);
        }
    }

    #[test]
    fn the_same_question_has_the_same_answer(asked in asked()) {
        prop_assert_eq!(answer(&asked), answer(&asked));
    }

    #[test]
    fn a_larger_batch_never_requests_less(asked in asked()) {
        let (small, _) = answer(&asked);
        let workload = Workload { batch: asked.workload.batch + 1, ..asked.workload.clone() };
        let (large, _) = answer(&Asked { workload, ..asked });
        prop_assert!(small.peak_requested <= large.peak_requested);
        prop_assert_eq!(small.n_params, large.n_params);
    }
}

/// A card that nobody measured: what the verdict is at some capacities around the need.
#[test]
fn the_verdict_is_tight_only_where_something_unknown_decides() {
    let config = ModelConfig::known("bert-base-uncased").unwrap();
    let workload = Workload::new(
        Runtime::Candle,
        Task::SequenceClassification,
        Mode::Train,
        32,
        128,
    );
    let at = |capacity| {
        predict(&Question {
            capacity,
            ..Question::new("bert-base-uncased", &config, &workload)
        })
        .unwrap()
    };
    let asked = at(Some(vramcast::bytes::Bytes(1 << 40)));
    for (capacity, verdict) in [
        (None, Verdict::Unknown),
        (Some(asked.peak_nvml_high), Verdict::Fits),
        (Some(asked.peak_nvml), Verdict::Tight),
        (Some(asked.peak_nvml_low), Verdict::Tight),
        (
            Some(vramcast::bytes::Bytes(asked.peak_nvml_low.0 - 1)),
            Verdict::Oom,
        ),
    ] {
        assert_eq!(at(capacity).verdict, verdict, "{capacity:?}");
    }
}
