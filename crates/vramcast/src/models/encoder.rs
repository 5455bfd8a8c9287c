//! The layers of BERT, which RoBERTa took over.

use super::layer::{self, Layer, Layers};
use super::parameters::Maker;
use super::{AttendedLayer, Frame, numbered, part};
use crate::backend::{Activation, Attended, Backend, Heads, Linear};
use crate::config::bert::Config;
use std::rc::Rc;

/// What BERT calls its layers and their parts.
const NAMES: layer::Names = layer::Names {
    layer: "encoder.layer",
    query: "attention.self.query",
    key: "attention.self.key",
    value: "attention.self.value",
    attention_output: "attention.output.dense",
    attention_norm: "attention.output.LayerNorm",
    intermediate: "intermediate.dense",
    output: "output.dense",
    output_norm: "output.LayerNorm",
};

/// The layers of the encoder of that name.
pub(super) fn build<B: Backend>(
    make: &Maker<'_, B>,
    config: &Config,
    encoder: &str,
) -> Result<Layers<B::Tensor>, B::Error> {
    let count = config.num_hidden_layers;
    layer::build(make, &NAMES, encoder, count, config.intermediate_size)
}

/// The last layer's output, `[B, S, H]`, from that of the embeddings, and what the model's frame
/// holds until its pooler is done.
pub(super) fn encode<B: Backend>(
    backend: &B,
    config: &Config,
    layers: &[Rc<Layer<B::Tensor>>],
    attention_mask: &B::Tensor,
    embed: impl FnOnce() -> Result<B::Tensor, B::Error>,
) -> Result<(B::Tensor, Frame<B>), B::Error> {
    let (mut hidden, mask) = backend.within(part("embeddings"), || {
        let hidden = embed()?;
        Ok((hidden, backend.padding_mask(attention_mask)?))
    })?;
    let frame = (backend.held(&mask), backend.held(&hidden));
    for (i, layer) in layers.iter().enumerate() {
        let (config, layer, mask) = (config.clone(), layer.clone(), mask.clone());
        hidden = backend.within(numbered(NAMES.layer, i), || {
            backend.layer(&hidden, move |backend, hidden| {
                let (attended, weights) = attend(backend, &config, &layer, hidden, &mask)?;
                let held = backend.held(&attended);
                let output = feed_forward(backend, &config, &layer, attended)?;
                drop(weights);
                drop(held);
                Ok(output)
            })
        })?;
    }
    Ok((hidden, frame))
}

fn attend<B: Backend>(
    backend: &B,
    config: &Config,
    layer: &Layer<B::Tensor>,
    hidden: &B::Tensor,
    mask: &B::Mask,
) -> Result<AttendedLayer<B>, B::Error> {
    let n = config.num_attention_heads;
    let heads = Heads {
        query: backend.project(hidden, &layer.query, n)?,
        key: backend.project(hidden, &layer.key, n)?,
        value: backend.project(hidden, &layer.value, n)?,
        heads: n,
    };
    let Attended { context, weights } =
        backend.attention(heads, mask, config.attention_probs_dropout_prob)?;
    let held_context = backend.held(&context);
    let mut output = backend.linear(&context, &layer.attention_output)?;
    drop(context);
    output = backend.dropout(output, config.hidden_dropout_prob)?;
    let sum = backend.add(&output, hidden)?;
    let held_output = backend.held(&output);
    drop(output);
    let normed = backend.layer_norm(&sum, &layer.attention_norm)?;
    drop(sum);
    drop((held_output, held_context));
    Ok((normed, weights))
}

fn feed_forward<B: Backend>(
    backend: &B,
    config: &Config,
    layer: &Layer<B::Tensor>,
    attended: B::Tensor,
) -> Result<B::Tensor, B::Error> {
    let mut inner = backend.linear(&attended, &layer.intermediate)?;
    inner = backend.activation(&inner, config.hidden_act)?;
    let mut output = backend.linear(&inner, &layer.output)?;
    let held_inner = backend.held(&inner);
    drop(inner);
    output = backend.dropout(output, config.hidden_dropout_prob)?;
    let sum = backend.add(&output, &attended)?;
    let held_output = backend.held(&output);
    drop((output, attended));
    let normed = backend.layer_norm(&sum, &layer.output_norm)?;
    drop(sum);
    drop((held_output, held_inner));
    Ok(normed)
}

/// `[B, S, H]`: `[B, H]`, the first position through a linear layer and tanh.
pub(super) fn pool<B: Backend>(
    backend: &B,
    pooler: &Linear<B::Tensor>,
    sequence: &B::Tensor,
) -> Result<B::Tensor, B::Error> {
    backend.within(part("pooler"), || {
        let first = backend.first_token(sequence)?;
        let pooled = backend.linear(&first, pooler)?;
        backend.activation(&pooled, Activation::Tanh)
    })
}
