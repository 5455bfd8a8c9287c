//! DistilBERT (Sanh et al. 2019, arXiv:1910.01108), bare or with a sequence classifier or a masked
//! language model head.
//!
//! Source of the structure: `modeling_distilbert.py` of transformers 5. It is BERT without token
//! types, a pooler, and dropout after attention; queries, keys and values are locals of the frame
//! that holds attention's output layer, too.

use super::layer::{self, Layer, Layers};
use super::masked_lm::{self, MaskedLm};
use super::parameters::Maker;
use super::{AttendedLayer, Inputs, Output, numbered, part};
use crate::backend::{Activation, Attended, Backend, BiasOf, Heads, LayerNorm, Linear};
use crate::config::distilbert::Config;
use crate::workload::Task;

/// A built DistilBERT.
#[derive(Debug)]
pub struct DistilBert<T> {
    config: Config,
    embeddings: Embeddings<T>,
    layers: Layers<T>,
    head: Head<T>,
}

#[derive(Debug)]
struct Embeddings<T> {
    word: T,
    position: T,
    norm: LayerNorm<T>,
    positions: Option<T>,
}

#[derive(Debug)]
enum Head<T> {
    None,
    Classifier {
        pre_classifier: Linear<T>,
        classifier: Linear<T>,
    },
    MaskedLm(MaskedLm<T>),
}

/// What the model calls its layers and their parts.
const NAMES: layer::Names = layer::Names {
    layer: "transformer.layer",
    query: "attention.q_lin",
    key: "attention.k_lin",
    value: "attention.v_lin",
    attention_output: "attention.out_lin",
    attention_norm: "sa_layer_norm",
    intermediate: "ffn.lin1",
    output: "ffn.lin2",
    output_norm: "output_layer_norm",
};

/// Makes the parameters in the order of the constructors, weight before bias.
///
/// # Errors
/// The backend's.
pub fn build<B: Backend>(
    backend: &B,
    config: &Config,
    task: Task,
) -> Result<DistilBert<B::Tensor>, B::Error> {
    let make = Maker {
        backend,
        hidden: config.dim,
        deviation: config.initializer_range,
        // A constant of the modeling code.
        eps: 1e-12,
    };
    // A model with a head keeps the encoder under a name of its own.
    let encoder = if task == Task::Base {
        ""
    } else {
        "distilbert."
    };
    let embeddings = backend.within(part("embeddings"), || {
        embeddings(&make, config, &format!("{encoder}embeddings"))
    })?;
    let layers = layer::build(&make, &NAMES, encoder, config.n_layers, config.hidden_dim)?;
    backend.encoder_built(embeddings.positions.as_ref())?;
    let head = match task {
        Task::Base => Head::None,
        Task::SequenceClassification => Head::Classifier {
            pre_classifier: make.linear("pre_classifier", config.dim, config.dim)?,
            classifier: make.linear("classifier", config.dim, config.num_labels)?,
        },
        Task::MaskedLm => {
            let names = masked_lm::Names {
                transform: "vocab_transform",
                norm: "vocab_layer_norm",
                bias: "vocab_projector.bias",
                bias_of: BiasOf::Decoder,
            };
            let table = &embeddings.word;
            Head::MaskedLm(MaskedLm::build(&make, table, config.activation, &names)?)
        }
    };
    Ok(DistilBert {
        config: config.clone(),
        embeddings,
        layers,
        head,
    })
}

fn embeddings<B: Backend>(
    make: &Maker<'_, B>,
    config: &Config,
    name: &str,
) -> Result<Embeddings<B::Tensor>, B::Error> {
    let positions = config.max_position_embeddings;
    Ok(Embeddings {
        word: make.table(&format!("{name}.word_embeddings"), config.vocab_size)?,
        position: make.table(&format!("{name}.position_embeddings"), positions)?,
        norm: make.norm(&format!("{name}.LayerNorm"))?,
        positions: make.backend.ids_buffer("position_ids", positions)?,
    })
}

/// The output of the head: `[B, S, H]` of the last layer, `[B, labels]` or `[B, S, V]` logits.
///
/// # Errors
/// The backend's.
pub fn forward<B: Backend>(
    backend: &B,
    model: &DistilBert<B::Tensor>,
    inputs: &Inputs<B::Tensor>,
    seq: u64,
) -> Result<Output<B>, B::Error> {
    let sequence = encode(backend, model, inputs, seq)?;
    let mut held: Vec<B::Tensor> = backend.held(&sequence).into_iter().collect();
    let output = match &model.head {
        Head::None => sequence,
        Head::Classifier {
            pre_classifier,
            classifier,
        } => backend.within(part("classifier"), || {
            let mut pooled = backend.first_token(&sequence)?;
            pooled = backend.linear(&pooled, pre_classifier)?;
            pooled = backend.activation(&pooled, Activation::Relu)?;
            pooled = backend.dropout(pooled, model.config.seq_classif_dropout)?;
            held.extend(backend.held(&pooled));
            backend.linear(&pooled, classifier)
        })?,
        Head::MaskedLm(head) => {
            backend.within(part("vocab_projector"), || head.forward(backend, &sequence))?
        }
    };
    Ok((output, held))
}

/// The last layer's output, `[B, S, H]`, which every head starts from.
///
/// # Errors
/// The backend's.
pub fn encode<B: Backend>(
    backend: &B,
    model: &DistilBert<B::Tensor>,
    inputs: &Inputs<B::Tensor>,
    seq: u64,
) -> Result<B::Tensor, B::Error> {
    let (mut hidden, mask) = backend.within(part("embeddings"), || {
        let hidden = embed(backend, model, &inputs.input_ids, seq)?;
        Ok((hidden, backend.padding_mask(&inputs.attention_mask)?))
    })?;
    let frame = (backend.held(&mask), backend.held(&hidden));
    for (i, layer) in model.layers.iter().enumerate() {
        let (config, layer, mask) = (model.config.clone(), layer.clone(), mask.clone());
        hidden = backend.within(numbered(NAMES.layer, i), || {
            backend.layer(&hidden, move |backend, hidden| {
                block(backend, &config, &layer, hidden, &mask)
            })
        })?;
    }
    drop(mask);
    drop(frame);
    Ok(hidden)
}

fn embed<B: Backend>(
    backend: &B,
    model: &DistilBert<B::Tensor>,
    ids: &B::Tensor,
    seq: u64,
) -> Result<B::Tensor, B::Error> {
    let tables = &model.embeddings;
    let words = backend.embedding(ids, &tables.word)?;
    let positions = backend.position_embedding(&tables.position, seq)?;
    let mut embeddings = backend.add(&words, &positions)?;
    embeddings = backend.layer_norm(&embeddings, &tables.norm)?;
    let embeddings = backend.dropout(embeddings, model.config.dropout)?;
    drop((words, positions));
    Ok(embeddings)
}

fn block<B: Backend>(
    backend: &B,
    config: &Config,
    layer: &Layer<B::Tensor>,
    hidden: &B::Tensor,
    mask: &B::Mask,
) -> Result<B::Tensor, B::Error> {
    let (output, weights) = attend(backend, config, layer, hidden, mask)?;
    let sum = backend.add(&output, hidden)?;
    let held_output = backend.held(&output);
    drop(output);
    let attended = backend.layer_norm(&sum, &layer.attention_norm)?;
    drop(sum);
    drop(held_output);
    let output = feed_forward(backend, config, layer, &attended)?;
    let sum = backend.add(&output, &attended)?;
    let held = (backend.held(&output), backend.held(&attended));
    drop((output, attended));
    let normed = backend.layer_norm(&sum, &layer.output_norm)?;
    drop(sum);
    drop(held);
    drop(weights);
    Ok(normed)
}

fn attend<B: Backend>(
    backend: &B,
    config: &Config,
    layer: &Layer<B::Tensor>,
    hidden: &B::Tensor,
    mask: &B::Mask,
) -> Result<AttendedLayer<B>, B::Error> {
    let n = config.n_heads;
    let heads = Heads {
        query: backend.project(hidden, &layer.query, n)?,
        key: backend.project(hidden, &layer.key, n)?,
        value: backend.project(hidden, &layer.value, n)?,
        heads: n,
    };
    let held_heads = backend.held(&heads);
    let Attended { context, weights } = backend.attention(heads, mask, config.attention_dropout)?;
    let output = backend.linear(&context, &layer.attention_output)?;
    drop(context);
    drop(held_heads);
    Ok((output, weights))
}

fn feed_forward<B: Backend>(
    backend: &B,
    config: &Config,
    layer: &Layer<B::Tensor>,
    attended: &B::Tensor,
) -> Result<B::Tensor, B::Error> {
    let mut x = backend.linear(attended, &layer.intermediate)?;
    x = backend.activation(&x, config.activation)?;
    x = backend.linear(&x, &layer.output)?;
    backend.dropout(x, config.dropout)
}
