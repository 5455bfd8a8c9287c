//! `candle_transformers::models::bert::BertModel`, inference from plain tensors.
//!
//! The stock model differs from ours in its fused layer norm and in locals that outlive their use;
//! temporaries of a tail expression die after the locals, as in edition 2021.

use super::device::Device;
use super::layout::{dims, elements};
use super::nn;
use super::op::Binary;
use super::tensor::Tensor;
use super::unary;
use crate::candle::Outcome;
use crate::config::bert::Config;
use crate::dtype::DType;
use crate::timeline::{Category, Phase, Scope};

struct Model {
    word: Tensor,
    position: Tensor,
    token_type: Tensor,
    layers: Vec<Layer>,
}

struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    attention_output: Linear,
    intermediate: Linear,
    output: Linear,
}

struct Linear {
    weight: Tensor,
    bias: Tensor,
}

impl Linear {
    fn forward(&self, x: &Tensor) -> Tensor {
        nn::linear(x, &self.weight, Some(&self.bias))
    }
}

/// Loads the model and runs `steps` forward passes.
pub(super) fn run(device: &Device, config: &Config, batch: u64, seq: u64, steps: u32) -> Outcome {
    let tape = device.tape();
    tape.begin(Phase::Load);
    let mut outcome = Outcome::default();
    // The norms are held by name only: the fused kernel reads them and allocates for the result.
    let mut norms = Vec::new();
    let model = tape.with_category(Category::Parameters, || {
        load(device, config, &mut norms, &mut outcome)
    });
    for _ in 0..steps {
        tape.begin(Phase::Forward);
        let ids = || device.tensor(dims(&[batch, seq]), DType::U32, "from_vec");
        let (input_ids, token_type_ids, mask) =
            tape.with_category(Category::Inputs, || (ids(), ids(), ids()));
        let output = forward(device, &model, config, &input_ids, &token_type_ids, &mask);
        drop((output, input_ids, token_type_ids, mask));
        tape.synchronize();
    }
    tape.end();
    outcome
}

fn load(device: &Device, config: &Config, norms: &mut Vec<Tensor>, outcome: &mut Outcome) -> Model {
    let (h, i) = (config.hidden_size, config.intermediate_size);
    let mut tensor = |shape: &[u64], name: &'static str| {
        outcome.n_params = outcome.n_params.saturating_add(elements(shape));
        outcome.n_tensors += 1;
        match name {
            "randn" => device.randn(dims(shape), DType::F32, false),
            name => device.tensor(dims(shape), DType::F32, name),
        }
    };
    let mut norm = |tensor: &mut dyn FnMut(&[u64], &'static str) -> Tensor| {
        norms.extend([tensor(&[h], "ones"), tensor(&[h], "zeros")]);
    };
    let word = tensor(&[config.vocab_size, h], "randn");
    let position = tensor(&[config.max_position_embeddings, h], "randn");
    let token_type = tensor(&[config.type_vocab_size, h], "randn");
    norm(&mut tensor);
    let linear = |tensor: &mut dyn FnMut(&[u64], &'static str) -> Tensor, from, to| Linear {
        weight: tensor(&[to, from], "randn"),
        bias: tensor(&[to], "zeros"),
    };
    let layers = (0..config.num_hidden_layers)
        .map(|_| {
            let query = linear(&mut tensor, h, h);
            let key = linear(&mut tensor, h, h);
            let value = linear(&mut tensor, h, h);
            let attention_output = linear(&mut tensor, h, h);
            norm(&mut tensor);
            let intermediate = linear(&mut tensor, h, i);
            let output = linear(&mut tensor, i, h);
            norm(&mut tensor);
            Layer {
                query,
                key,
                value,
                attention_output,
                intermediate,
                output,
            }
        })
        .collect();
    Model {
        word,
        position,
        token_type,
        layers,
    }
}

fn forward(
    device: &Device,
    model: &Model,
    config: &Config,
    input_ids: &Tensor,
    token_type_ids: &Tensor,
    mask: &Tensor,
) -> Tensor {
    let tape = device.tape();
    tape.enter(Scope {
        module: "embeddings",
        index: None,
    });
    let embedding_output = embed(device, model, input_ids, token_type_ids);
    let mask = extended_mask(device, mask);
    let mut hidden = embedding_output.clone();
    for (i, layer) in model.layers.iter().enumerate() {
        tape.enter(Scope {
            module: "encoder.layer",
            index: Some(i as u32),
        });
        hidden = layer_forward(layer, config, &hidden, &mask);
    }
    tape.enter(Scope::NONE);
    drop((mask, embedding_output));
    hidden
}

fn embed(device: &Device, model: &Model, input_ids: &Tensor, token_type_ids: &Tensor) -> Tensor {
    let tape = device.tape();
    tape.begin_operation();
    let words = nn::embedding(input_ids, &model.word);
    let types = nn::embedding(token_type_ids, &model.token_type);
    let mut embeddings = words.add(&types);
    drop(types);
    tape.begin_operation();
    let seq = input_ids.dims()[1];
    let collected = device.host_vec(seq, DType::U32);
    let positions = device.tensor(dims(&[seq]), DType::U32, "from_slice");
    let rows = nn::embedding(&positions, &model.position);
    embeddings = embeddings.broadcast_binary(&rows, Binary::Add);
    drop((positions, collected, rows));
    tape.begin_operation();
    let normed = nn::layer_norm_fused(&embeddings);
    drop((embeddings, words));
    normed
}

/// `get_extended_attention_mask`: `(1 - mask) * lowest`.
fn extended_mask(device: &Device, mask: &Tensor) -> Tensor {
    device.tape().begin_operation();
    let mask = mask.unsqueeze(1).unsqueeze(1).to_dtype(DType::F32);
    let ones = mask.ones_like();
    let inverted = ones.sub(&mask);
    drop(ones);
    let lowest = device.tensor(dims(&[]), DType::F32, "scalar");
    let extended = inverted.broadcast_binary(&lowest, Binary::Mul);
    drop((mask, lowest, inverted));
    extended
}

fn layer_forward(layer: &Layer, config: &Config, hidden: &Tensor, mask: &Tensor) -> Tensor {
    let tape = hidden.device().tape();
    let context = attend(layer, config, hidden, mask);
    tape.begin_operation();
    let attention_output = add_and_norm(&layer.attention_output, &context, hidden);
    drop(context);
    tape.begin_operation();
    let inner = layer.intermediate.forward(&attention_output);
    let intermediate = inner.unary(unary(config.hidden_act));
    drop(inner);
    tape.begin_operation();
    let output = add_and_norm(&layer.output, &intermediate, &attention_output);
    drop((intermediate, attention_output));
    output
}

fn attend(layer: &Layer, config: &Config, hidden: &Tensor, mask: &Tensor) -> Tensor {
    hidden.device().tape().begin_operation();
    let heads = config.num_attention_heads;
    let split = |x: &Tensor| {
        let mut shape = dims(&x.dims()[..2]);
        shape.extend([heads, config.hidden_size / heads]);
        x.reshape(&shape).transpose(1, 2).contiguous()
    };
    let query_out = layer.query.forward(hidden);
    let key_out = layer.key.forward(hidden);
    let value_out = layer.value.forward(hidden);
    let query = split(&query_out);
    let key = split(&key_out);
    let value = split(&value_out);
    let scores = query.matmul(&key.t());
    let scaled = scores.affine();
    drop(scores);
    let masked = scaled.broadcast_binary(mask, Binary::Add);
    let probabilities = nn::softmax(&masked);
    let context = probabilities.matmul(&value);
    let turned = context.transpose(1, 2).contiguous();
    let flat = turned.flatten_from(2);
    drop((turned, context, probabilities, masked, scaled));
    drop((value, key, query, value_out, key_out, query_out));
    flat
}

/// `BertSelfOutput::forward` and `BertOutput::forward`; dropout returns its input.
fn add_and_norm(dense: &Linear, hidden: &Tensor, residual: &Tensor) -> Tensor {
    let hidden = dense.forward(hidden);
    let dropped = hidden.clone();
    let sum = dropped.add(residual);
    drop(dropped);
    let normed = nn::layer_norm_fused(&sum);
    drop((hidden, sum));
    normed
}
