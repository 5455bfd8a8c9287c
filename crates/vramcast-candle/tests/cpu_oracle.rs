//! The shadow against candle itself: on the CPU, under a counting allocator, every allocation and
//! free in order.

use candle_core::Device;
use vramcast::config::ModelConfig;
use vramcast::sequence::{Seen, first_difference};
use vramcast::shadow::candle::Flavour;
use vramcast::workload::{Code, Mode, Optimizer, Runtime, Task, Workload};
use vramcast_candle::counting::{self, Counting, Logged, Marks};
use vramcast_candle::{Real, run_stock};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn tiny(vocab: u64, hidden: u64, layers: u64, heads: u64, dropout: f64, act: &str) -> ModelConfig {
    ModelConfig::from_json(&format!(
        r#"{{"model_type": "bert", "vocab_size": {vocab}, "hidden_size": {hidden},
            "num_hidden_layers": {layers}, "num_attention_heads": {heads},
            "intermediate_size": {}, "max_position_embeddings": 64, "hidden_act": "{act}",
            "hidden_dropout_prob": {dropout}, "attention_probs_dropout_prob": {dropout}}}"#,
        3 * hidden
    ))
    .unwrap()
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

fn check(config: &ModelConfig, workload: &Workload) {
    let (timeline, _) = vramcast::shadow::candle::run(config, workload, Flavour::Cpu, 2).unwrap();
    let log = measure(config, workload, 2);
    let seen: Vec<Seen> = log
        .iter()
        .filter_map(|event| match *event {
            Logged::Alloc(_, bytes) => Some(Seen::Alloc(bytes)),
            Logged::Free(buffer) => Some(Seen::Free(buffer)),
            Logged::Begin(_) => None,
        })
        .collect();
    let difference = first_difference(&timeline, &seen);
    assert_eq!(difference, None, "{}", workload.describe());
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
    for task in TASKS {
        check(&tiny(50, 32, 2, 4, 0.0, "gelu"), &train(task, 3, 10));
    }
}

#[test]
fn dropout_allocates_what_the_shadow_says() {
    for task in TASKS {
        check(&tiny(50, 32, 2, 4, 0.1, "gelu"), &train(task, 2, 7));
    }
}

#[test]
fn inference_allocates_what_the_shadow_says_for_every_head() {
    for task in TASKS {
        check(&tiny(50, 32, 3, 4, 0.1, "gelu"), &infer(task, 3, 11));
    }
}

#[test]
fn batches_and_sequences_of_one_take_candles_shortcuts_too() {
    for (batch, seq) in [(1, 1), (1, 9), (5, 1)] {
        for task in TASKS {
            check(&tiny(50, 24, 2, 3, 0.1, "gelu"), &train(task, batch, seq));
            check(&tiny(50, 24, 2, 3, 0.1, "gelu"), &infer(task, batch, seq));
        }
    }
}

#[test]
fn every_activation_has_its_own_backward_pass() {
    for act in ["gelu", "gelu_new", "relu", "tanh"] {
        check(&tiny(40, 16, 1, 2, 0.0, act), &train(Task::MaskedLm, 2, 5));
    }
}

#[test]
fn sgd_keeps_no_state() {
    let workload = Workload {
        optimizer: Optimizer::Sgd,
        ..train(Task::SequenceClassification, 2, 6)
    };
    check(&tiny(50, 32, 2, 4, 0.1, "gelu"), &workload);
}

#[test]
fn one_head_and_one_layer_are_no_special_case() {
    check(
        &tiny(17, 8, 1, 1, 0.1, "gelu"),
        &train(Task::SequenceClassification, 3, 5),
    );
}

#[test]
fn the_stock_model_allocates_what_its_own_shadow_says() {
    for (batch, seq) in [(1, 1), (3, 11), (2, 16)] {
        let workload = Workload {
            code: Code::CandleTransformers,
            ..infer(Task::Base, batch, seq)
        };
        check(&tiny(50, 32, 3, 4, 0.1, "gelu"), &workload);
    }
}

#[test]
fn products_large_enough_for_several_threads_allocate_no_tensors_of_their_own() {
    check(
        &tiny(3000, 256, 2, 4, 0.1, "gelu"),
        &train(Task::SequenceClassification, 2, 64),
    );
}
