//! RoBERTa (Liu et al. 2019, arXiv:1907.11692) and XLM-RoBERTa (Conneau et al. 2019,
//! arXiv:1911.02116), with the pooler, a sequence classifier, or a masked language model head.
//!
//! Source of the structure: `modeling_roberta.py` of transformers 5. The layers are BERT's; what
//! differs is that positions are counted without padding, and that the classifier has no pooler.

use super::encoder::{self, pool};
use super::layer::Layers;
use super::masked_lm::{self, MaskedLm};
use super::parameters::Maker;
use super::{Frame, Inputs, Output, part};
use crate::backend::{Activation, Backend, BiasOf, LayerNorm, Linear};
use crate::config::roberta::Config;
use crate::workload::Task;

/// A built RoBERTa.
#[derive(Debug)]
pub struct Roberta<T> {
    config: Config,
    embeddings: Embeddings<T>,
    layers: Layers<T>,
    head: Head<T>,
}

#[derive(Debug)]
struct Embeddings<T> {
    word: T,
    token_type: T,
    norm: LayerNorm<T>,
    positions: Option<T>,
    token_types: Option<T>,
    position: T,
}

#[derive(Debug)]
enum Head<T> {
    Pooler(Linear<T>),
    Classifier { dense: Linear<T>, out: Linear<T> },
    MaskedLm(MaskedLm<T>),
}

/// Makes the parameters in the order of the constructors, weight before bias.
///
/// # Errors
/// The backend's.
pub fn build<B: Backend>(
    backend: &B,
    config: &Config,
    task: Task,
) -> Result<Roberta<B::Tensor>, B::Error> {
    let shape = &config.encoder;
    let make = Maker {
        backend,
        hidden: shape.hidden_size,
        deviation: shape.initializer_range,
        eps: shape.layer_norm_eps,
    };
    // A model with a head keeps the encoder under a name of its own.
    let encoder = if task == Task::Base { "" } else { "roberta." };
    let embeddings = backend.within(part("embeddings"), || {
        embeddings(&make, config, &format!("{encoder}embeddings"))
    })?;
    let layers = encoder::build(&make, shape, encoder)?;
    let h = shape.hidden_size;
    let pooler = match task {
        Task::Base => Some(make.linear("pooler.dense", h, h)?),
        Task::SequenceClassification | Task::MaskedLm => None,
    };
    backend.encoder_built(embeddings.positions.as_ref())?;
    let head = match (task, pooler) {
        (_, Some(pooler)) => Head::Pooler(pooler),
        (Task::MaskedLm, None) => {
            let names = masked_lm::Names {
                transform: "lm_head.dense",
                norm: "lm_head.layer_norm",
                bias: "lm_head.bias",
                bias_of: BiasOf::Head,
            };
            let (table, gelu) = (&embeddings.word, Activation::Gelu);
            Head::MaskedLm(MaskedLm::build(&make, table, gelu, &names)?)
        }
        (_, None) => Head::Classifier {
            dense: make.linear("classifier.dense", h, h)?,
            out: make.linear("classifier.out_proj", h, shape.num_labels)?,
        },
    };
    Ok(Roberta {
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
    let shape = &config.encoder;
    let positions = shape.max_position_embeddings;
    Ok(Embeddings {
        word: make.table(&format!("{name}.word_embeddings"), shape.vocab_size)?,
        token_type: make.table(
            &format!("{name}.token_type_embeddings"),
            shape.type_vocab_size,
        )?,
        norm: make.norm(&format!("{name}.LayerNorm"))?,
        positions: make.backend.ids_buffer("position_ids", positions)?,
        token_types: make.backend.ids_buffer("token_type_ids", positions)?,
        position: make.table(&format!("{name}.position_embeddings"), positions)?,
    })
}

/// The output of the head: `[B, H]` pooled, `[B, labels]` or `[B, S, V]` logits.
///
/// # Errors
/// The backend's.
pub fn forward<B: Backend>(
    backend: &B,
    model: &Roberta<B::Tensor>,
    inputs: &Inputs<B::Tensor>,
) -> Result<Output<B>, B::Error> {
    let (sequence, frame) = encode(backend, model, inputs)?;
    let held = backend.held(&sequence).into_iter().collect();
    let output = match &model.head {
        Head::Pooler(pooler) => {
            let pooled = pool(backend, pooler, &sequence)?;
            drop(frame);
            pooled
        }
        Head::Classifier { dense, out } => {
            drop(frame);
            let p = model.config.encoder.classifier_dropout;
            backend.within(part("classifier"), || {
                let mut x = backend.first_token(&sequence)?;
                x = backend.dropout(x, p)?;
                x = backend.linear(&x, dense)?;
                x = backend.activation(&x, Activation::Tanh)?;
                x = backend.dropout(x, p)?;
                backend.linear(&x, out)
            })?
        }
        Head::MaskedLm(head) => {
            drop(frame);
            backend.within(part("lm_head"), || head.forward(backend, &sequence))?
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
    model: &Roberta<B::Tensor>,
    inputs: &Inputs<B::Tensor>,
) -> Result<(B::Tensor, Frame<B>), B::Error> {
    let (config, layers) = (&model.config.encoder, &model.layers);
    encoder::encode(backend, config, layers, &inputs.attention_mask, || {
        embed(backend, model, inputs)
    })
}

fn embed<B: Backend>(
    backend: &B,
    model: &Roberta<B::Tensor>,
    inputs: &Inputs<B::Tensor>,
) -> Result<B::Tensor, B::Error> {
    let (config, tables) = (&model.config, &model.embeddings);
    let positions = backend.padded_positions(&inputs.input_ids, config.pad_token_id)?;
    let type_ids = backend.token_types(
        &inputs.input_ids,
        Some(&positions),
        inputs.token_type_ids.as_ref(),
        tables.token_types.as_ref(),
    )?;
    let words = backend.embedding(&inputs.input_ids, &tables.word)?;
    let types = backend.embedding(&type_ids, &tables.token_type)?;
    let mut embeddings = backend.add(&words, &types)?;
    let places = backend.embedding(&positions, &tables.position)?;
    embeddings = backend.add(&embeddings, &places)?;
    embeddings = backend.layer_norm(&embeddings, &tables.norm)?;
    let embeddings = backend.dropout(embeddings, config.encoder.hidden_dropout_prob)?;
    drop((positions, words, type_ids, types, places));
    Ok(embeddings)
}
