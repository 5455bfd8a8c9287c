//! BERT (Devlin et al. 2018, arXiv:1810.04805), with the pooler, a sequence classifier, a masked
//! language model head, or none.
//!
//! Source of the structure: `modeling_bert.py` of transformers 5. The decoder of the masked
//! language model is the word embedding table itself, as there.

use super::encoder::{self, pool};
use super::layer::Layers;
use super::masked_lm::{self, MaskedLm};
use super::parameters::Maker;
use super::{Frame, Inputs, Output, part};
use crate::backend::{Backend, BiasOf, LayerNorm, Linear};
use crate::config::bert::Config;
use crate::workload::Task;

/// A built BERT.
#[derive(Debug)]
pub struct Bert<T> {
    config: Config,
    embeddings: Embeddings<T>,
    layers: Layers<T>,
    head: Head<T>,
}

#[derive(Debug)]
struct Embeddings<T> {
    word: T,
    position: T,
    token_type: T,
    norm: LayerNorm<T>,
    positions: Option<T>,
    token_types: Option<T>,
}

#[derive(Debug)]
enum Head<T> {
    Pooler(Linear<T>),
    Classifier {
        pooler: Linear<T>,
        classifier: Linear<T>,
    },
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
) -> Result<Bert<B::Tensor>, B::Error> {
    let make = Maker {
        backend,
        hidden: config.hidden_size,
        deviation: config.initializer_range,
        eps: config.layer_norm_eps,
    };
    // A model with a head keeps the encoder under a name of its own.
    let encoder = if task == Task::Base { "" } else { "bert." };
    let embeddings = backend.within(part("embeddings"), || {
        embeddings(&make, config, &format!("{encoder}embeddings"))
    })?;
    let layers = encoder::build(&make, config, encoder)?;
    let h = config.hidden_size;
    let pooler = match task {
        Task::MaskedLm => None,
        Task::Base | Task::SequenceClassification => {
            Some(make.linear(&format!("{encoder}pooler.dense"), h, h)?)
        }
    };
    backend.encoder_built(embeddings.positions.as_ref())?;
    let head = match (task, pooler) {
        (Task::SequenceClassification, Some(pooler)) => Head::Classifier {
            pooler,
            classifier: make.linear("classifier", h, config.num_labels)?,
        },
        (_, Some(pooler)) => Head::Pooler(pooler),
        (_, None) => {
            let names = masked_lm::Names {
                transform: "cls.predictions.transform.dense",
                norm: "cls.predictions.transform.LayerNorm",
                bias: "cls.predictions.bias",
                bias_of: BiasOf::Head,
            };
            let table = &embeddings.word;
            Head::MaskedLm(MaskedLm::build(&make, table, config.hidden_act, &names)?)
        }
    };
    Ok(Bert {
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
        token_type: make.table(
            &format!("{name}.token_type_embeddings"),
            config.type_vocab_size,
        )?,
        norm: make.norm(&format!("{name}.LayerNorm"))?,
        positions: make.backend.ids_buffer("position_ids", positions)?,
        token_types: make.backend.ids_buffer("token_type_ids", positions)?,
    })
}

/// The output of the head: `[B, H]` pooled, `[B, labels]` or `[B, S, V]` logits.
///
/// # Errors
/// The backend's.
pub fn forward<B: Backend>(
    backend: &B,
    model: &Bert<B::Tensor>,
    inputs: &Inputs<B::Tensor>,
    seq: u64,
) -> Result<Output<B>, B::Error> {
    let (sequence, frame) = encode(backend, model, inputs, seq)?;
    let mut held: Vec<B::Tensor> = backend.held(&sequence).into_iter().collect();
    let output = match &model.head {
        Head::Pooler(pooler) => {
            let pooled = pool(backend, pooler, &sequence)?;
            drop(frame);
            pooled
        }
        Head::Classifier { pooler, classifier } => {
            let pooled = pool(backend, pooler, &sequence)?;
            drop(frame);
            backend.within(part("classifier"), || {
                let pooled = backend.dropout(pooled, model.config.classifier_dropout)?;
                held.extend(backend.held(&pooled));
                backend.linear(&pooled, classifier)
            })?
        }
        Head::MaskedLm(head) => {
            drop(frame);
            backend.within(part("cls.predictions"), || head.forward(backend, &sequence))?
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
    model: &Bert<B::Tensor>,
    inputs: &Inputs<B::Tensor>,
    seq: u64,
) -> Result<(B::Tensor, Frame<B>), B::Error> {
    let (config, layers) = (&model.config, &model.layers);
    encoder::encode(backend, config, layers, &inputs.attention_mask, || {
        embed(backend, model, inputs, seq)
    })
}

fn embed<B: Backend>(
    backend: &B,
    model: &Bert<B::Tensor>,
    inputs: &Inputs<B::Tensor>,
    seq: u64,
) -> Result<B::Tensor, B::Error> {
    let tables = &model.embeddings;
    let type_ids = backend.token_types(
        &inputs.input_ids,
        None,
        inputs.token_type_ids.as_ref(),
        tables.token_types.as_ref(),
    )?;
    let words = backend.embedding(&inputs.input_ids, &tables.word)?;
    let types = backend.embedding(&type_ids, &tables.token_type)?;
    let mut embeddings = backend.add(&words, &types)?;
    let positions = backend.position_embedding(&tables.position, seq)?;
    embeddings = backend.add(&embeddings, &positions)?;
    embeddings = backend.layer_norm(&embeddings, &tables.norm)?;
    let embeddings = backend.dropout(embeddings, model.config.hidden_dropout_prob)?;
    drop((words, type_ids, types, positions));
    Ok(embeddings)
}
