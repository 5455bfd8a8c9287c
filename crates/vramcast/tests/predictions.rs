//! What must hold of every prediction, whatever the model and the shapes.

use proptest::prelude::*;
use strum::VariantNames;
use vramcast::config::ModelConfig;
use vramcast::predict::{Prediction, Question, Verdict, predict, predict_with_timeline, steps};
use vramcast::shadow::candle::{self, Flavour};
use vramcast::timeline::{self, Event, Phase, Timeline};
use vramcast::workload::{
    Attention, Code, Loop, Mode, Optimizer, Placement, Precision, Runtime, Task, Workload,
};

#[derive(Debug)]
struct Asked {
    config: ModelConfig,
    workload: Workload,
    flavour: Flavour,
}

fn config() -> impl Strategy<Value = ModelConfig> {
    let families = prop::sample::select(vec!["bert", "roberta", "distilbert"]);
    let sizes = (1..6u64, 1..5u64, 1..4u64, 1..5u64, prop::bool::ANY);
    (families, sizes).prop_map(|(family, (heads, width, layers, inner, drops))| {
        let (hidden, inner) = (heads * width, 7 * inner);
        let p = if drops { 0.1 } else { 0.0 };
        ModelConfig::from_json(&format!(
            r#"{{"model_type": "{family}", "vocab_size": 37, "max_position_embeddings": 18,
                "hidden_size": {hidden}, "num_hidden_layers": {layers},
                "num_attention_heads": {heads}, "intermediate_size": {inner},
                "hidden_dropout_prob": {p}, "dim": {hidden}, "n_layers": {layers},
                "n_heads": {heads}, "hidden_dim": {inner}, "dropout": {p}}}"#
        ))
        .unwrap()
    })
}

fn task() -> impl Strategy<Value = Task> {
    prop::sample::select(vec![
        Task::Base,
        Task::SequenceClassification,
        Task::MaskedLm,
    ])
}

/// On candle.
fn asked() -> impl Strategy<Value = Asked> {
    let ways = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let levers = (any::<bool>(), any::<bool>(), any::<bool>(), 1..7u32);
    let precisions: Vec<Precision> = vec![Precision::Fp32, Precision::Fp16, Precision::AmpFp16];
    let precision = prop::sample::select(precisions);
    let shapes = (1..5u64, 1..17u64, task(), precision);
    (config(), shapes, ways, levers).prop_map(
        |(config, (batch, seq, task, precision), (train, sgd, cuda, stock), levers)| {
            let mode = if train { Mode::Train } else { Mode::Infer };
            let (checkpointing, drop_graph, dropout, accumulation) = levers;
            let mut workload = Workload {
                precision,
                checkpointing,
                drop_graph,
                dropout,
                accumulation,
                ..Workload::new(Runtime::Candle, task, mode, batch, seq)
            };
            if sgd {
                workload.optimizer = Optimizer::Sgd;
            }
            if stock && matches!(config, ModelConfig::Bert(_)) {
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

/// A word of an enum of the workload.
fn any_word<T: std::str::FromStr<Err: std::fmt::Debug> + std::fmt::Debug>(
    words: &'static [&'static str],
) -> impl Strategy<Value = T> {
    prop::sample::select(words).prop_map(|word| word.parse().unwrap())
}

/// On PyTorch: every lever that can be combined with every other.
fn asked_of_torch() -> impl Strategy<Value = Asked> {
    let shapes = (1..5u64, 1..17u64, task(), any_word(Mode::VARIANTS));
    let words = (
        any_word(Precision::VARIANTS),
        any_word(Optimizer::VARIANTS),
        any_word(Placement::VARIANTS),
    );
    let flags = (any::<bool>(), any::<bool>(), 1..4u32);
    (config(), shapes, words, flags).prop_map(
        |(config, (batch, seq, task, mode), (precision, optimizer, placement), flags)| {
            let (checkpointing, padding, accumulation) = flags;
            let workload = Workload {
                precision,
                optimizer,
                placement,
                checkpointing,
                padding,
                accumulation,
                attention: Attention::Eager,
                ..Workload::new(Runtime::Torch, task, mode, batch, seq)
            };
            Asked {
                config,
                workload,
                flavour: Flavour::Cuda,
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
        prop_assert!(prediction.adds_up());
    }

    #[test]
    fn the_peaks_of_pytorch_are_in_order(asked in asked_of_torch()) {
        let (p, timeline) = answer(&asked);
        let sum: u64 = p.at_peak.parts().iter().map(|(_, bytes)| bytes.0).sum();
        prop_assert_eq!(sum, p.peak_allocated.0);
        prop_assert!(p.peak_requested <= p.peak_allocated);
        prop_assert!(p.peak_allocated_low <= p.peak_allocated);
        prop_assert!(p.peak_allocated <= p.peak_allocated_high);
        prop_assert!(p.peak_reserved_low <= p.peak_reserved);
        prop_assert!(p.peak_reserved <= p.peak_reserved_high);
        prop_assert!(p.adds_up());
        let need = p.need.unwrap();
        prop_assert!(p.peak_allocated <= need && need <= p.peak_reserved);
        prop_assert!(p.need_low.unwrap() <= need && need <= p.need_high.unwrap());
        let highest = p.phases.iter().map(|phase| phase.peak_allocated).max();
        prop_assert_eq!(highest, Some(p.peak_allocated));
        let mut live = vec![false; timeline.buffers.len()];
        for event in &timeline.events {
            match *event {
                Event::Alloc(b) => live[b as usize] = true,
                Event::Free(b) => prop_assert!(std::mem::replace(&mut live[b as usize], false)),
                Event::Begin(_) | Event::Synchronize => {}
            }
        }
        prop_assert_eq!(answer(&asked), (p, timeline));
    }

    #[test]
    fn every_free_names_a_live_buffer_and_a_step_leaves_the_model_alone(asked in asked()) {
        let (prediction, timeline) = answer(&asked);
        let mut live = vec![false; timeline.buffers.len()];
        for event in &timeline.events {
            match *event {
                Event::Alloc(b) => live[b as usize] = true,
                Event::Free(b) => prop_assert!(std::mem::replace(&mut live[b as usize], false)),
                Event::Begin(_) | Event::Synchronize => {}
            }
        }
        let mut left = 0;
        for (buffer, _) in timeline.buffers.iter().zip(live).filter(|(_, live)| *live) {
            prop_assert_eq!(buffer.phase, Phase::Load, "{:?}", buffer);
            left += buffer.bytes;
        }
        prop_assert_eq!(left, prediction.model_requested.0);
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

#[test]
fn passes_beyond_the_third_add_only_the_trainers_inputs() {
    let config = ModelConfig::known("google/bert_uncased_L-2_H-128_A-2").unwrap();
    let inputs = |training_loop, accumulation| {
        let task = Task::SequenceClassification;
        let workload = Workload {
            training_loop,
            accumulation,
            ..Workload::new(Runtime::Torch, task, Mode::Train, 8, 128)
        };
        let p = predict(&Question::new("test", &config, &workload)).unwrap();
        (p.at_peak.inputs.0, p.peak_requested.0)
    };
    assert_eq!(inputs(Loop::Plain, 3), inputs(Loop::Plain, 4096));
    // Words, mask and labels of eight bytes each, in every batch.
    let batch = 8 * (8 * 128 + 8 * 128 + 8);
    let of_three = inputs(Loop::Trainer, 3);
    for passes in [16, 17, 100] {
        let (inputs, requested) = inputs(Loop::Trainer, passes);
        assert_eq!(inputs, u64::from(passes) * batch, "{passes}");
        assert_eq!(requested - inputs, of_three.1 - of_three.0, "{passes}");
    }
}

#[test]
fn passes_on_candle_that_are_not_followed_are_those_that_are() {
    let config = ModelConfig::known("google/bert_uncased_L-2_H-128_A-2").unwrap();
    for (precision, checkpointing) in [
        (Precision::Fp32, false),
        (Precision::Fp32, true),
        (Precision::AmpFp16, true),
    ] {
        let workload = Workload {
            precision,
            checkpointing,
            accumulation: 9,
            ..Workload::new(
                Runtime::Candle,
                Task::SequenceClassification,
                Mode::Train,
                8,
                128,
            )
        };
        let predicted = predict(&Question::new("test", &config, &workload)).unwrap();
        let steps = steps(Runtime::Candle, Mode::Train);
        let (all, _) = candle::run(&config, &workload, Flavour::Cuda, steps).unwrap();
        assert_eq!(predicted.allocations, all.buffers.len() as u64);
        let peak = timeline::highest(&all.phase_peaks()).unwrap();
        assert_eq!(predicted.peak_requested.0, peak.bytes);
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
