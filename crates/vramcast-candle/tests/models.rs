//! The models compute the right thing: with the same weights, what candle-transformers' models of
//! the same architecture compute; and they train: every parameter receives a gradient.

use candle_core::backprop::GradStore;
use candle_core::{DType, Device, Tensor, Var};
use candle_nn::VarBuilder;
use candle_transformers::models::{
    bert as stock_bert, distilbert as stock_distilbert, xlm_roberta as stock_roberta,
};
use std::collections::HashMap;
use vramcast::backend::{Activation, Backend};
use vramcast::candle::{Candle, LossScale, Vocabulary, accumulate};
use vramcast::config::ModelConfig;
use vramcast::models::{self, Inputs, Model, bert, distilbert, roberta};
use vramcast::timeline::Phase;
use vramcast::workload::{Mode, Precision, Runtime, Task, Workload};
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

const FAMILIES: [&str; 3] = ["bert", "roberta", "distilbert"];

/// Activations that candle-transformers has, by family; what its DistilBERT calls gelu is the
/// approximation by tanh.
const COMPARED: [(&str, &[&str]); 3] = [
    ("bert", &["gelu", "gelu_new", "relu"]),
    ("roberta", &["gelu", "gelu_new", "relu"]),
    ("distilbert", &["gelu_new", "relu"]),
];

fn config(family: &str, act: &str) -> ModelConfig {
    config_dropping(family, act, 0.1)
}

/// The same sizes in the words of every family.
fn config_dropping(family: &str, act: &str, p: f64) -> ModelConfig {
    // A large initializer_range makes the outputs differ from each other.
    ModelConfig::from_json(&format!(
        r#"{{"model_type": "{family}", "vocab_size": 60, "max_position_embeddings": 24,
            "initializer_range": 0.3, "num_labels": 5, "hidden_size": 32, "num_hidden_layers": 3,
            "num_attention_heads": 4, "intermediate_size": 48, "hidden_act": "{act}",
            "hidden_dropout_prob": {p}, "attention_probs_dropout_prob": {p}, "dim": 32,
            "n_layers": 3, "n_heads": 4, "hidden_dim": 48, "activation": "{act}", "dropout": {p},
            "attention_dropout": {p}, "seq_classif_dropout": {p}}}"#
    ))
    .unwrap()
}

const BATCH: u64 = 3;
const SEQ: u64 = 11;

fn workload(mode: Mode) -> Workload {
    Workload::new(Runtime::Candle, Task::Base, mode, BATCH, SEQ)
}

/// The second row is padded from its sixth token on.
fn is_padding(i: u64) -> bool {
    (SEQ + 5..2 * SEQ).contains(&i)
}

fn inputs(labels: Option<(u64, u64)>) -> Inputs<Tensor> {
    let ids = |value: fn(u64) -> u32| REAL.ids(&[BATCH, SEQ], value).unwrap();
    Inputs {
        input_ids: ids(|i| {
            if is_padding(i) {
                1
            } else {
                (i * 7 % 60) as u32
            }
        }),
        token_type_ids: Some(ids(|i| (i % 2) as u32)),
        attention_mask: ids(|i| u32::from(!is_padding(i))),
        labels: labels
            .map(|(count, classes)| REAL.ids(&[count], |i| (i % classes) as u32).unwrap()),
    }
}

fn largest(tensor: &Tensor) -> f32 {
    let flat = tensor.abs().unwrap().flatten_all().unwrap();
    flat.max(0).unwrap().to_scalar().unwrap()
}

/// The largest difference, in terms of the largest value: sums of single-precision products are
/// rounded in proportion to it.
fn largest_difference(ours: &Tensor, theirs: &Tensor) -> f32 {
    assert_eq!(ours.dims(), theirs.dims());
    largest(&(ours - theirs).unwrap()) / largest(theirs)
}

/// Our model in inference, and its weights by name.
fn ours(config: &ModelConfig, task: Task) -> (Model<Tensor>, HashMap<String, Tensor>) {
    let vocabulary = Vocabulary::new(&REAL, &workload(Mode::Infer));
    let model = models::build(&vocabulary, config, task).unwrap();
    (model, vocabulary.parameters().into_iter().collect())
}

fn forward(config: &ModelConfig, model: &Model<Tensor>) -> Tensor {
    let vocabulary = Vocabulary::new(&REAL, &workload(Mode::Infer));
    assert!(SEQ <= config.max_sequence());
    models::forward(&vocabulary, model, &inputs(None), SEQ, Mode::Infer).unwrap()
}

/// The output of the last layer of our model.
fn encode(model: &Model<Tensor>) -> Tensor {
    let (vocabulary, batch) = (Vocabulary::new(&REAL, &workload(Mode::Infer)), inputs(None));
    match model {
        Model::Bert(model) => bert::encode(&vocabulary, model, &batch, SEQ).unwrap().0,
        Model::Roberta(model) => roberta::encode(&vocabulary, model, &batch).unwrap().0,
        Model::DistilBert(model) => distilbert::encode(&vocabulary, model, &batch, SEQ).unwrap(),
    }
}

fn builder(weights: HashMap<String, Tensor>) -> VarBuilder<'static> {
    VarBuilder::from_tensors(weights, DType::F32, &Device::Cpu)
}

fn stock_roberta_config(config: &vramcast::config::roberta::Config) -> stock_roberta::Config {
    let encoder = &config.encoder;
    stock_roberta::Config {
        hidden_size: encoder.hidden_size as usize,
        layer_norm_eps: encoder.layer_norm_eps,
        attention_probs_dropout_prob: encoder.attention_probs_dropout_prob as f32,
        hidden_dropout_prob: encoder.hidden_dropout_prob as f32,
        num_attention_heads: encoder.num_attention_heads as usize,
        position_embedding_type: "absolute".to_owned(),
        intermediate_size: encoder.intermediate_size as usize,
        hidden_act: match encoder.hidden_act {
            Activation::Gelu => candle_nn::Activation::Gelu,
            Activation::GeluNew => candle_nn::Activation::NewGelu,
            Activation::Relu => candle_nn::Activation::Relu,
            _ => unreachable!("not compared"),
        },
        num_hidden_layers: encoder.num_hidden_layers as usize,
        vocab_size: encoder.vocab_size as usize,
        max_position_embeddings: encoder.max_position_embeddings as usize,
        type_vocab_size: encoder.type_vocab_size as usize,
        pad_token_id: config.pad_token_id as u32,
    }
}

fn stock_distilbert_config(
    config: &vramcast::config::distilbert::Config,
) -> stock_distilbert::Config {
    let activation = match config.activation {
        Activation::GeluNew => "gelu",
        Activation::Relu => "relu",
        _ => unreachable!("not compared"),
    };
    // Its fields are private.
    let json = serde_json::json!({
        "vocab_size": config.vocab_size, "dim": config.dim, "n_layers": config.n_layers,
        "n_heads": config.n_heads, "hidden_dim": config.hidden_dim, "activation": activation,
        "max_position_embeddings": config.max_position_embeddings,
        "initializer_range": config.initializer_range, "pad_token_id": 0,
    });
    serde_json::from_value(json).unwrap()
}

/// `[B, 1, 1, S]`, ones where their DistilBERT must not look.
fn masked_out() -> Tensor {
    let masked = REAL.ids(&[BATCH, SEQ], |i| u32::from(is_padding(i)));
    masked
        .unwrap()
        .reshape((BATCH as usize, 1, 1, SEQ as usize))
        .unwrap()
}

/// The output of the last layer of their model.
fn encode_stock(config: &ModelConfig, weights: HashMap<String, Tensor>) -> Tensor {
    let batch = inputs(None);
    let (ids, mask) = (&batch.input_ids, &batch.attention_mask);
    let types = batch.token_type_ids.as_ref().unwrap();
    let vb = builder(weights);
    let output = match config {
        ModelConfig::Bert(config) => {
            stock_bert::BertModel::load(vb, &stock_config(config).unwrap())
                .and_then(|model| model.forward(ids, types, Some(mask)))
        }
        ModelConfig::Roberta(config) => {
            stock_roberta::XLMRobertaModel::new(&stock_roberta_config(config), vb)
                .and_then(|model| model.forward(ids, mask, types, None, None, None))
        }
        ModelConfig::DistilBert(config) => {
            stock_distilbert::DistilBertModel::load(vb, &stock_distilbert_config(config))
                .and_then(|model| model.forward(ids, &masked_out()))
        }
    };
    output.unwrap()
}

/// The logits of their masked language model.
fn masked_lm_stock(config: &ModelConfig, mut weights: HashMap<String, Tensor>) -> Tensor {
    let batch = inputs(None);
    let (ids, mask) = (&batch.input_ids, &batch.attention_mask);
    let types = batch.token_type_ids.as_ref().unwrap();
    let output = match config {
        ModelConfig::Bert(config) => {
            // There the decoder has a weight of its own; here it is the word embedding table.
            let table = weights["bert.embeddings.word_embeddings.weight"].clone();
            weights.insert("cls.predictions.decoder.weight".to_owned(), table);
            let bias = weights.remove("cls.predictions.bias").unwrap();
            weights.insert("cls.predictions.decoder.bias".to_owned(), bias);
            let config = stock_config(config).unwrap();
            stock_bert::BertForMaskedLM::load(builder(weights), &config)
                .and_then(|model| model.forward(ids, types, Some(mask)))
        }
        // There the decoder has no bias; here it is zero.
        ModelConfig::Roberta(config) => {
            let config = stock_roberta_config(config);
            stock_roberta::XLMRobertaForMaskedLM::new(&config, builder(weights))
                .and_then(|model| model.forward(ids, mask, types, None, None, None))
        }
        ModelConfig::DistilBert(config) => {
            let config = stock_distilbert_config(config);
            stock_distilbert::DistilBertForMaskedLM::load(builder(weights), &config)
                .and_then(|model| model.forward(ids, &masked_out()))
        }
    };
    output.unwrap()
}

/// Two outputs of the same model.
fn check(ours: &Tensor, theirs: &Tensor, case: &str) {
    let difference = largest_difference(ours, theirs);
    assert!(difference <= 1e-5, "{case}: {difference}");
}

#[test]
fn the_encoder_computes_what_candle_transformers_computes() {
    for (family, acts) in COMPARED {
        for act in acts {
            let config = config(family, act);
            let (model, weights) = ours(&config, Task::Base);
            let theirs = encode_stock(&config, weights);
            check(&encode(&model), &theirs, &format!("{family} {act}"));
        }
    }
}

#[test]
fn the_masked_language_model_computes_what_candle_transformers_computes() {
    for (family, acts) in COMPARED {
        for act in acts {
            let config = config(family, act);
            let (model, weights) = ours(&config, Task::MaskedLm);
            let theirs = masked_lm_stock(&config, weights);
            check(
                &forward(&config, &model),
                &theirs,
                &format!("{family} {act}"),
            );
        }
    }
}

#[test]
fn the_classifier_of_roberta_computes_what_candle_transformers_computes() {
    let config = config("roberta", "gelu");
    let (model, weights) = ours(&config, Task::SequenceClassification);
    let ModelConfig::Roberta(stock) = &config else {
        unreachable!("a roberta")
    };
    let stock = stock_roberta_config(stock);
    let vb = builder(weights);
    let theirs = stock_roberta::XLMRobertaForSequenceClassification::new(5, &stock, vb).unwrap();
    let batch = inputs(None);
    let types = batch.token_type_ids.as_ref().unwrap();
    let theirs = theirs.forward(&batch.input_ids, &batch.attention_mask, types);
    check(&forward(&config, &model), &theirs.unwrap(), "logits");
}

#[test]
fn every_parameter_of_every_head_receives_a_gradient_that_is_not_zero() {
    for family in FAMILIES {
        for (task, labels) in [
            (Task::Base, None),
            (Task::SequenceClassification, Some((BATCH, 5))),
            (Task::MaskedLm, Some((BATCH * SEQ, 60))),
        ] {
            let config = config(family, "gelu");
            let vocabulary = Vocabulary::new(&REAL, &workload(Mode::Train));
            let model = models::build(&vocabulary, &config, task).unwrap();
            let batch = inputs(labels);
            let loss = models::forward(&vocabulary, &model, &batch, SEQ, Mode::Train).unwrap();
            let grads = REAL.backward(&loss).unwrap();
            for (name, parameter) in vocabulary.parameters() {
                let case = format!("{family} {task}: {name}");
                let grad = grads
                    .get(&parameter)
                    .unwrap_or_else(|| panic!("{case}: none"));
                let size: f32 = grad.abs().unwrap().sum_all().unwrap().to_scalar().unwrap();
                assert!(size > 0.0 && size.is_finite(), "{case}: {size}");
            }
        }
    }
}

/// The tasks, and how many labels of how many classes each trains with.
const TRAINED: [(Task, Option<(u64, u64)>); 3] = [
    (Task::Base, None),
    (Task::SequenceClassification, Some((BATCH, 5))),
    (Task::MaskedLm, Some((BATCH * SEQ, 60))),
];

/// A model that trains, with the vocabulary it was built in.
struct Trained {
    vocabulary: Vocabulary<'static, Real<Silent>>,
    model: Model<Tensor>,
    variables: Vec<Tensor>,
}

impl Trained {
    fn new(config: &ModelConfig, task: Task, pull: impl Fn(&mut Workload)) -> Self {
        let mut workload = workload(Mode::Train);
        pull(&mut workload);
        let vocabulary = Vocabulary::new(&REAL, &workload);
        let model = models::build(&vocabulary, config, task).unwrap();
        let variables = vocabulary.parameters().into_iter().map(|p| p.1).collect();
        Self {
            vocabulary,
            model,
            variables,
        }
    }

    /// The same weights as `other`'s, as far as this one's type holds them.
    fn like(self, other: &Self) -> Self {
        for (mine, theirs) in self.variables.iter().zip(&other.variables) {
            let value = theirs.detach().to_dtype(mine.dtype()).unwrap();
            Var::from_tensor(mine).unwrap().set(&value).unwrap();
        }
        self
    }

    fn loss(&self, inputs: &Inputs<Tensor>) -> Tensor {
        models::forward(&self.vocabulary, &self.model, inputs, SEQ, Mode::Train).unwrap()
    }

    fn gradients(&self, loss: Tensor) -> GradStore {
        self.vocabulary.backward(loss, &self.variables).unwrap().0
    }

    /// The largest difference of any gradient, in terms of the largest value of all: some are zero
    /// but for rounding.
    fn difference(&self, ours: &GradStore, other: &Self, theirs: &GradStore) -> f32 {
        let pairs = self.variables.iter().zip(&other.variables);
        let (mut difference, mut value) = (0f32, 0f32);
        for (a, b) in pairs {
            let (a, b) = (ours.get(a).unwrap(), theirs.get(b).unwrap());
            difference = difference.max(largest(&(a - b).unwrap()));
            value = value.max(largest(b));
        }
        difference / value
    }
}

#[test]
fn gradients_with_checkpointing_equal_those_without() {
    for family in FAMILIES {
        for (task, labels) in TRAINED {
            let config = config_dropping(family, "gelu", 0.0);
            let plain = Trained::new(&config, task, |_| {});
            let again = Trained::new(&config, task, |w| w.checkpointing = true).like(&plain);
            let batch = inputs(labels);
            let (loss, same) = (plain.loss(&batch), again.loss(&batch));
            let losses = [&loss, &same].map(|l| l.to_scalar::<f32>().unwrap());
            assert_eq!(losses[0], losses[1], "{family} {task}");
            let (expected, found) = (plain.gradients(loss), again.gradients(same));
            let difference = again.difference(&found, &plain, &expected);
            // The two gradients of a tied table add up in another order.
            let most = if task == Task::MaskedLm { 1e-6 } else { 0.0 };
            assert!(difference <= most, "{family} {task}: {difference}");
        }
    }
}

#[test]
fn a_layer_that_runs_again_drops_what_it_dropped_before() {
    const P: f64 = 0.5;
    let checkpointed = Workload {
        checkpointing: true,
        ..workload(Mode::Train)
    };
    let vocabulary = Vocabulary::new(&REAL, &checkpointed);
    let x = Var::randn(0f32, 1.0, (8, 64), &Device::Cpu).unwrap();
    let variables = [x.as_tensor().clone()];
    let dropping = |backend: &Vocabulary<'_, _>, x: &Tensor| {
        backend.dropout(backend.dropout(x.clone(), P)?, P)
    };
    let y = vocabulary.layer(&variables[0], dropping).unwrap();
    let kept = y.ne(0f32).unwrap().to_dtype(DType::F32).unwrap();
    let (grads, _) = vocabulary
        .backward(y.sum_all().unwrap(), &variables)
        .unwrap();
    // What was kept twice was scaled twice.
    let expected = (kept * (1.0 / (1.0 - P)).powi(2)).unwrap();
    assert_eq!(largest_difference(grads.get(&x).unwrap(), &expected), 0.0);
    assert!(expected.sum_all().unwrap().to_scalar::<f32>().unwrap() > 0.0);
}

#[test]
fn passes_add_up_to_the_gradient_of_their_mean() {
    let config = config_dropping("bert", "gelu", 0.0);
    let trained = Trained::new(&config, Task::SequenceClassification, |_| {});
    let first = inputs(Some((BATCH, 5)));
    let second = Inputs {
        labels: Some(REAL.ids(&[BATCH], |_| 3).unwrap()),
        ..first.clone()
    };
    let mean = ((trained.loss(&first) + trained.loss(&second)).unwrap() / 2.0).unwrap();
    let expected = trained.gradients(mean);
    let mut sum = REAL.no_gradients();
    for batch in [first, second] {
        let half = (trained.loss(&batch) / 2.0).unwrap();
        let grads = trained.gradients(half);
        accumulate(&REAL, &trained.variables, &mut sum, grads).unwrap();
    }
    let difference = trained.difference(&sum, &trained, &expected);
    assert!(difference < 1e-5, "{difference}");
}

#[test]
fn gradients_in_mixed_precision_are_those_of_single_precision_rounded() {
    for (task, labels) in TRAINED {
        let config = config_dropping("bert", "gelu", 0.0);
        let single = Trained::new(&config, task, |_| {});
        let mixed = Trained::new(&config, task, |w| w.precision = Precision::AmpFp16);
        let mixed = mixed.like(&single);
        let batch = inputs(labels);
        let expected = single.gradients(single.loss(&batch));
        let mut scale = LossScale::default();
        // The first scales are too large for weights as large as these.
        let found = (0..10).find_map(|_| {
            let loss = scale.scaled(&REAL, &mixed.loss(&batch)).unwrap();
            let mut found = mixed.gradients(loss);
            let finite = scale.unscale(&REAL, &mixed.variables, &mut found);
            finite.unwrap().then_some(found)
        });
        let found = found.unwrap_or_else(|| panic!("{task}: never finite"));
        // Eleven bits, and a hundred roundings one after the other.
        let difference = mixed.difference(&found, &single, &expected);
        assert!(difference < 100.0 / 2048.0, "{task}: {difference}");
        assert!(difference > 0.0, "{task}: nothing was rounded");
    }
}

#[test]
fn a_gradient_that_is_not_finite_halves_the_scale_and_forbids_the_step() {
    let x = Var::new(&[1f32, 2.0], &Device::Cpu).unwrap();
    let variables = [x.as_tensor().clone()];
    let mut scale = LossScale::default();
    for (factor, finite) in [
        (1.0, true),
        (f64::INFINITY, false),
        (f64::NAN, false),
        (1.0, true),
    ] {
        let loss = (x.as_tensor() * factor).unwrap().sum_all().unwrap();
        let before = scale.scaled(&REAL, &loss).unwrap();
        let mut grads = before.backward().unwrap();
        let found = scale.unscale(&REAL, &variables, &mut grads).unwrap();
        assert_eq!(found, finite, "{factor}");
        if finite {
            let grad = grads.get(&x).unwrap().to_vec1::<f32>().unwrap();
            assert_eq!(grad, [1.0, 1.0]);
        }
    }
}

#[test]
fn a_training_step_lowers_the_loss() {
    for family in FAMILIES {
        // What is dropped is drawn anew in every step, and moves the loss more than twenty steps do.
        let config = config_dropping(family, "gelu", 0.0);
        let vocabulary = Vocabulary::new(&REAL, &workload(Mode::Train));
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
        assert!(losses[19] < losses[0], "{family}: {losses:?}");
    }
}
