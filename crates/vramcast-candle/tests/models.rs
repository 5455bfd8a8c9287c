//! The models compute the right thing: with the same weights, what candle-transformers' models of
//! the same architecture compute; and they train: every parameter receives a gradient.

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert as stock;
use std::collections::HashMap;
use vramcast::candle::{Candle, Vocabulary};
use vramcast::config::ModelConfig;
use vramcast::models::{self, Inputs, Model, bert};
use vramcast::timeline::Phase;
use vramcast::workload::{Mode, Task};
use vramcast_candle::{Observer, Real, stock_config};

struct Silent;

impl Observer for Silent {
    fn begin(&self, _: Phase) -> candle_core::Result<()> {
        Ok(())
    }

    fn end(&self) {}
}

const REAL: Real<Silent> = Real {
    device: Device::Cpu,
    observer: Silent,
};

fn config(act: &str) -> ModelConfig {
    config_dropping(act, 0.1)
}

fn config_dropping(act: &str, p: f64) -> ModelConfig {
    // A large initializer_range makes the outputs differ from each other.
    ModelConfig::from_json(&format!(
        r#"{{"model_type": "bert", "vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 3,
            "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 24,
            "hidden_act": "{act}", "initializer_range": 0.3, "num_labels": 5,
            "hidden_dropout_prob": {p}, "attention_probs_dropout_prob": {p}}}"#
    ))
    .unwrap()
}

const BATCH: u64 = 3;
const SEQ: u64 = 11;

/// A batch whose second row is padded from its sixth token on.
fn inputs(labels: Option<(u64, u64)>) -> Inputs<Tensor> {
    let ids = |value: fn(u64) -> u32| REAL.ids(&[BATCH, SEQ], value).unwrap();
    Inputs {
        input_ids: ids(|i| (i * 7 % 60) as u32),
        token_type_ids: Some(ids(|i| (i % 2) as u32)),
        attention_mask: ids(|i| u32::from(!(SEQ + 5..2 * SEQ).contains(&i))),
        labels: labels
            .map(|(count, classes)| REAL.ids(&[count], |i| (i % classes) as u32).unwrap()),
    }
}

/// The largest difference, in terms of the largest value: sums of single-precision products are
/// rounded in proportion to it.
fn largest_difference(ours: &Tensor, theirs: &Tensor) -> f32 {
    assert_eq!(ours.dims(), theirs.dims());
    let largest = |tensor: &Tensor| -> f32 {
        let flat = tensor.abs().unwrap().flatten_all().unwrap();
        flat.max(0).unwrap().to_scalar().unwrap()
    };
    largest(&(ours - theirs).unwrap()) / largest(theirs)
}

/// Our model in inference, and its weights by name.
fn ours(config: &ModelConfig, task: Task) -> (Model<Tensor>, HashMap<String, Tensor>) {
    let vocabulary = Vocabulary::new(&REAL, Mode::Infer);
    let model = models::build(&vocabulary, config, task).unwrap();
    (model, vocabulary.parameters().into_iter().collect())
}

#[test]
fn the_encoder_computes_what_candle_transformers_computes() {
    for act in ["gelu", "gelu_new", "relu"] {
        let config = config(act);
        let (model, weights) = ours(&config, Task::Base);
        let ModelConfig::Bert(bert_config) = &config;
        let builder = VarBuilder::from_tensors(weights, DType::F32, &Device::Cpu);
        let theirs = stock::BertModel::load(builder, &stock_config(bert_config).unwrap()).unwrap();
        let batch = inputs(None);
        let Model::Bert(model) = &model;
        let vocabulary = Vocabulary::new(&REAL, Mode::Infer);
        let ours = bert::encode(&vocabulary, model, &batch, SEQ).unwrap().0;
        let theirs = theirs
            .forward(
                &batch.input_ids,
                batch.token_type_ids.as_ref().unwrap(),
                Some(&batch.attention_mask),
            )
            .unwrap();
        let difference = largest_difference(&ours, &theirs);
        assert!(difference <= 1e-5, "{act}: {difference}");
    }
}

#[test]
fn the_masked_language_model_computes_what_candle_transformers_computes() {
    let config = config("gelu");
    let (model, mut weights) = ours(&config, Task::MaskedLm);
    // There the decoder has a weight of its own; here it is the word embedding table.
    let table = weights["bert.embeddings.word_embeddings.weight"].clone();
    weights.insert("cls.predictions.decoder.weight".to_owned(), table);
    let bias = weights.remove("cls.predictions.bias").unwrap();
    weights.insert("cls.predictions.decoder.bias".to_owned(), bias);
    let ModelConfig::Bert(bert_config) = &config;
    let builder = VarBuilder::from_tensors(weights, DType::F32, &Device::Cpu);
    let theirs =
        stock::BertForMaskedLM::load(builder, &stock_config(bert_config).unwrap()).unwrap();
    let batch = inputs(None);
    let vocabulary = Vocabulary::new(&REAL, Mode::Infer);
    let ours = models::forward(&vocabulary, &model, &batch, SEQ, Mode::Infer).unwrap();
    let theirs = theirs
        .forward(
            &batch.input_ids,
            batch.token_type_ids.as_ref().unwrap(),
            Some(&batch.attention_mask),
        )
        .unwrap();
    let difference = largest_difference(&ours, &theirs);
    assert!(difference <= 1e-5, "{difference}");
}

#[test]
fn every_parameter_of_every_head_receives_a_gradient_that_is_not_zero() {
    for (task, labels) in [
        (Task::Base, None),
        (Task::SequenceClassification, Some((BATCH, 5))),
        (Task::MaskedLm, Some((BATCH * SEQ, 60))),
    ] {
        let config = config("gelu");
        let vocabulary = Vocabulary::new(&REAL, Mode::Train);
        let model = models::build(&vocabulary, &config, task).unwrap();
        let loss = models::forward(&vocabulary, &model, &inputs(labels), SEQ, Mode::Train).unwrap();
        let grads = REAL.backward(&loss).unwrap();
        for (name, parameter) in vocabulary.parameters() {
            let grad = grads
                .get(&parameter)
                .unwrap_or_else(|| panic!("{task}: {name}: none"));
            let size: f32 = grad.abs().unwrap().sum_all().unwrap().to_scalar().unwrap();
            assert!(size > 0.0 && size.is_finite(), "{task}: {name}: {size}");
        }
    }
}

#[test]
fn a_training_step_lowers_the_loss() {
    // What is dropped is drawn anew in every step, and moves the loss more than twenty steps do.
    let config = config_dropping("gelu", 0.0);
    let vocabulary = Vocabulary::new(&REAL, Mode::Train);
    let model = models::build(&vocabulary, &config, Task::SequenceClassification).unwrap();
    let variables: Vec<Tensor> = vocabulary.parameters().into_iter().map(|p| p.1).collect();
    let mut optimizer = REAL.adamw(&variables).unwrap();
    let batch = inputs(Some((BATCH, 5)));
    let mut losses = Vec::new();
    for _ in 0..20 {
        let loss = models::forward(&vocabulary, &model, &batch, SEQ, Mode::Train).unwrap();
        losses.push(loss.to_scalar::<f32>().unwrap());
        let grads = REAL.backward(&loss).unwrap();
        REAL.step(&mut optimizer, &grads).unwrap();
    }
    assert!(losses[19] < losses[0], "{losses:?}");
}
