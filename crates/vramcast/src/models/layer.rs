//! The parts of a transformer layer, which BERT and DistilBERT name and run each in its own way.

use super::numbered;
use super::parameters::Maker;
use crate::backend::{Backend, LayerNorm, Linear};
use std::rc::Rc;

/// A layer.
#[derive(Debug)]
pub(super) struct Layer<T> {
    pub(super) query: Linear<T>,
    pub(super) key: Linear<T>,
    pub(super) value: Linear<T>,
    pub(super) attention_output: Linear<T>,
    pub(super) attention_norm: LayerNorm<T>,
    pub(super) intermediate: Linear<T>,
    pub(super) output: Linear<T>,
    pub(super) output_norm: LayerNorm<T>,
}

/// All of them, each shared with the backward pass, which may run it again.
pub(super) type Layers<T> = Vec<Rc<Layer<T>>>;

/// What a model calls its layers and their parts.
pub(super) struct Names {
    pub(super) layer: &'static str,
    pub(super) query: &'static str,
    pub(super) key: &'static str,
    pub(super) value: &'static str,
    pub(super) attention_output: &'static str,
    pub(super) attention_norm: &'static str,
    pub(super) intermediate: &'static str,
    pub(super) output: &'static str,
    pub(super) output_norm: &'static str,
}

/// `count` layers of the encoder of that name, whose feed-forward part is `inner` wide.
pub(super) fn build<B: Backend>(
    make: &Maker<'_, B>,
    names: &Names,
    encoder: &str,
    count: u64,
    inner: u64,
) -> Result<Layers<B::Tensor>, B::Error> {
    let layers = (0..count).map(|i| {
        make.backend.within(numbered(names.layer, i as usize), || {
            let name = format!("{encoder}{}.{i}", names.layer);
            layer(make, names, &name, inner).map(Rc::new)
        })
    });
    layers.collect()
}

/// Its parts in the order of the constructors.
fn layer<B: Backend>(
    make: &Maker<'_, B>,
    names: &Names,
    name: &str,
    inner: u64,
) -> Result<Layer<B::Tensor>, B::Error> {
    let hidden = make.hidden;
    let linear = |part: &str, from, to| make.linear(&format!("{name}.{part}"), from, to);
    let norm = |part: &str| make.norm(&format!("{name}.{part}"));
    Ok(Layer {
        query: linear(names.query, hidden, hidden)?,
        key: linear(names.key, hidden, hidden)?,
        value: linear(names.value, hidden, hidden)?,
        attention_output: linear(names.attention_output, hidden, hidden)?,
        attention_norm: norm(names.attention_norm)?,
        intermediate: linear(names.intermediate, hidden, inner)?,
        output: linear(names.output, inner, hidden)?,
        output_norm: norm(names.output_norm)?,
    })
}
