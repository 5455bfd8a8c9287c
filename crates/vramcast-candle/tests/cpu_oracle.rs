//! The shadow against candle itself: on the CPU, under a counting allocator, every allocation and
//! free in order.

use candle_core::Device;
use vramcast::config::ModelConfig;
use vramcast::sequence::{Seen, first_difference};
use vramcast::shadow::candle::Flavour;
use vramcast::workload::{Code, Mode, Optimizer, Precision, Runtime, Task, Workload};
use vramcast_candle::counting::{self, Counting, Logged, Marks};
use vramcast_candle::{Real, run_stock};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const FAMILIES: [&str; 3] = ["bert", "roberta", "distilbert"];

/// The same sizes in the words of every family.
struct Tiny {
    vocab: u64,
    hidden: u64,
    layers: u64,
    heads: u64,
    dropout: f64,
    act: &'static str,
}

const TINY: Tiny = Tiny {
    vocab: 50,
    hidden: 32,
    layers: 2,
    heads: 4,
    dropout: 0.1,
    act: "gelu",
};

impl Tiny {
    fn config(&self, family: &str) -> ModelConfig {
        let Self {
            vocab,
            hidden,
            layers,
            heads,
            dropout,
            act,
        } = self;
        let inner = 3 * hidden;
        ModelConfig::from_json(&format!(
            r#"{{"model_type": "{family}", "vocab_size": {vocab}, "max_position_embeddings": 66,
                "hidden_size": {hidden}, "num_hidden_layers": {layers},
                "num_attention_heads": {heads}, "intermediate_size": {inner},
                "hidden_act": "{act}", "hidden_dropout_prob": {dropout},
                "attention_probs_dropout_prob": {dropout}, "dim": {hidden}, "n_layers": {layers},
                "n_heads": {heads}, "hidden_dim": {inner}, "activation": "{act}",
                "dropout": {dropout}, "attention_dropout": {dropout},
                "seq_classif_dropout": {dropout}}}"#
        ))
        .unwrap()
    }
}

fn measure(config: &ModelConfig, workload: &Workload, steps: u32) -> Vec<Logged> {
    let real = Real {
        device: Device::Cpu,
        observer: Marks,
    };
    let (outcome, log) = counting::record(|| match workload.code {
        Code::Vramcast => vramcast::candle::run(&real, config, workload, steps).unwrap(),
        Code::CandleTransformers => run_stock(&real, config, workload, steps).unwrap(),
    })
    .unwrap();
    if workload.mode == Mode::Train {
        assert_eq!(outcome.n_params_with_gradient, outcome.n_params);
    }
    log
}

/// The model of one family.
fn check_family(family: &str, tiny: &Tiny, workload: &Workload) {
    let config = tiny.config(family);
    let (timeline, _) = vramcast::shadow::candle::run(&config, workload, Flavour::Cpu, 2).unwrap();
    let log = measure(&config, workload, 2);
    let seen: Vec<Seen> = log
        .iter()
        .filter_map(|event| match *event {
            Logged::Alloc(_, bytes) => Some(Seen::Alloc(bytes)),
            Logged::Free(buffer) => Some(Seen::Free(buffer)),
            Logged::Begin(_) => None,
        })
        .collect();
    let difference = first_difference(&timeline, &seen);
    assert_eq!(difference, None, "{family} {}", workload.describe());
}

/// The models of every family.
fn check(tiny: &Tiny, workload: &Workload) {
    for family in FAMILIES {
        check_family(family, tiny, workload);
    }
}

fn train(task: Task, batch: u64, seq: u64) -> Workload {
    Workload::new(Runtime::Candle, task, Mode::Train, batch, seq)
}

fn infer(task: Task, batch: u64, seq: u64) -> Workload {
    Workload::new(Runtime::Candle, task, Mode::Infer, batch, seq)
}

const TASKS: [Task; 3] = [Task::Base, Task::SequenceClassification, Task::MaskedLm];

#[test]
fn training_allocates_what_the_shadow_says_for_every_head() {
    let tiny = Tiny {
        dropout: 0.0,
        ..TINY
    };
    for task in TASKS {
        check(&tiny, &train(task, 3, 10));
    }
}

#[test]
fn dropout_allocates_what_the_shadow_says() {
    for task in TASKS {
        check(&TINY, &train(task, 2, 7));
    }
}

#[test]
fn inference_allocates_what_the_shadow_says_for_every_head() {
    let tiny = Tiny { layers: 3, ..TINY };
    for task in TASKS {
        check(&tiny, &infer(task, 3, 11));
    }
}

#[test]
fn batches_and_sequences_of_one_take_candles_shortcuts_too() {
    let tiny = Tiny {
        hidden: 24,
        heads: 3,
        ..TINY
    };
    for (batch, seq) in [(1, 1), (1, 9), (5, 1)] {
        for task in TASKS {
            check(&tiny, &train(task, batch, seq));
            check(&tiny, &infer(task, batch, seq));
        }
    }
}

#[test]
fn every_activation_has_its_own_backward_pass() {
    for act in ["gelu", "gelu_new", "relu", "tanh"] {
        let tiny = Tiny {
            vocab: 40,
            hidden: 16,
            layers: 1,
            heads: 2,
            dropout: 0.0,
            act,
        };
        check(&tiny, &train(Task::MaskedLm, 2, 5));
    }
}

/// Every task with every way of training that `pull` makes of a plain one.
fn check_levers(levers: &[fn(&mut Workload)]) {
    for task in TASKS {
        for pull in levers {
            let mut workload = train(task, 3, 10);
            pull(&mut workload);
            check(&TINY, &workload);
        }
    }
}

#[test]
fn half_precision_weights_allocate_what_the_shadow_says() {
    // candle's CPU multiplies no bfloat16.
    check_levers(&[|w| w.precision = Precision::Fp16]);
    for task in TASKS {
        let workload = Workload {
            precision: Precision::Fp16,
            ..infer(task, 3, 11)
        };
        check(&TINY, &workload);
    }
}

#[test]
fn mixed_precision_allocates_what_the_shadow_says() {
    check_levers(&[|w| w.precision = Precision::AmpFp16]);
    for task in TASKS {
        let workload = Workload {
            precision: Precision::AmpFp16,
            ..infer(task, 3, 11)
        };
        check(&TINY, &workload);
    }
}

#[test]
fn checkpointed_layers_allocate_what_the_shadow_says() {
    check_levers(&[
        |w| w.checkpointing = true,
        |w| (w.checkpointing, w.dropout) = (true, false),
        |w| (w.checkpointing, w.precision) = (true, Precision::Fp16),
        |w| (w.checkpointing, w.precision) = (true, Precision::AmpFp16),
    ]);
}

#[test]
fn accumulated_gradients_allocate_what_the_shadow_says() {
    check_levers(&[
        |w| w.accumulation = 2,
        |w| (w.accumulation, w.checkpointing) = (3, true),
        |w| (w.accumulation, w.precision) = (2, Precision::AmpFp16),
    ]);
}

#[test]
fn a_graph_that_is_dropped_before_the_step_allocates_what_the_shadow_says() {
    check_levers(&[
        |w| w.drop_graph = true,
        |w| (w.drop_graph, w.accumulation) = (true, 2),
        |w| (w.drop_graph, w.optimizer) = (true, Optimizer::Sgd),
    ]);
}

#[test]
fn sgd_keeps_no_state() {
    let workload = Workload {
        optimizer: Optimizer::Sgd,
        ..train(Task::SequenceClassification, 2, 6)
    };
    check(&TINY, &workload);
}

#[test]
fn one_head_and_one_layer_are_no_special_case() {
    let tiny = Tiny {
        vocab: 17,
        hidden: 8,
        layers: 1,
        heads: 1,
        ..TINY
    };
    check(&tiny, &train(Task::SequenceClassification, 3, 5));
}

#[test]
fn the_stock_model_allocates_what_its_own_shadow_says() {
    let tiny = Tiny { layers: 3, ..TINY };
    for (batch, seq) in [(1, 1), (3, 11), (2, 16)] {
        let workload = Workload {
            code: Code::CandleTransformers,
            ..infer(Task::Base, batch, seq)
        };
        check_family("bert", &tiny, &workload);
    }
}

#[test]
fn products_large_enough_for_several_threads_allocate_no_tensors_of_their_own() {
    let tiny = Tiny {
        vocab: 3000,
        hidden: 256,
        ..TINY
    };
    check(&tiny, &train(Task::SequenceClassification, 2, 64));
}
