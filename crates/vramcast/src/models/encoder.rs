//! The layers of BERT, which RoBERTa took over.

use super::parameters::Maker;
use super::{AttendedLayer, Frame, numbered, part};
use crate::backend::{Activation, Attended, Backend, Heads, LayerNorm, Linear};
use crate::config::bert::Config;
use std::rc::Rc;

/// A layer.
#[derive(Debug)]
pub(super) struct Layer<T> {
    query: Linear<T>,
    key: Linear<T>,
    value: Linear<T>,
    attention_output: Linear<T>,
    attention_norm: LayerNorm<T>,
    intermediate: Linear<T>,
    output: Linear<T>,
    output_norm: LayerNorm<T>,
}

/// All of them, each shared with the backward pass, which may run it again.
pub(super) type Layers<T> = Vec<Rc<Layer<T>>>;

/// What the encoder calls a layer.
const LAYER: &str = "encoder.layer";

/// The layers of the encoder of that name.
pub(super) fn build<B: Backend>(
    make: &Maker<'_, B>,
    config: &Config,
    encoder: &str,
) -> Result<Layers<B::Tensor>, B::Error> {
    let layers = (0..config.num_hidden_layers).map(|i| {
        make.backend.within(numbered(LAYER, i as usize), || {
            layer(make, config, &format!("{encoder}{LAYER}.{i}")).map(Rc::new)
        })
    });
    layers.collect()
}

fn layer<B: Backend>(
    make: &Maker<'_, B>,
    config: &Config,
    name: &str,
) -> Result<Layer<B::Tensor>, B::Error> {
    let (h, i) = (config.hidden_size, config.intermediate_size);
    Ok(Layer {
        query: make.linear(&format!("{name}.attention.self.query"), h, h)?,
        key: make.linear(&format!("{name}.attention.self.key"), h, h)?,
        value: make.linear(&format!("{name}.attention.self.value"), h, h)?,
        attention_output: make.linear(&format!("{name}.attention.output.dense"), h, h)?,
        attention_norm: make.norm(&format!("{name}.attention.output.LayerNorm"))?,
        intermediate: make.linear(&format!("{name}.intermediate.dense"), h, i)?,
        output: make.linear(&format!("{name}.output.dense"), i, h)?,
        output_norm: make.norm(&format!("{name}.output.LayerNorm"))?,
    })
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
        hidden = backend.within(numbered(LAYER, i), || {
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
