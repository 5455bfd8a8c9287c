//! BERT (Devlin et al. 2018, arXiv:1810.04805), with the pooler, a sequence classifier, a masked
//! language model head, or none.
//!
//! Source of the structure: `modeling_bert.py` of transformers 5. The decoder of the masked
//! language model is the word embedding table itself, as there.

use super::Inputs;
use crate::backend::{Activation, Attended, Backend, Heads, Init, LayerNorm, Linear};
use crate::config::bert::Config;
use crate::timeline::Scope;
use crate::workload::Task;
use std::rc::Rc;

/// A built BERT.
#[derive(Debug)]
pub struct Bert<T> {
    config: Config,
    embeddings: Embeddings<T>,
    layers: Vec<Rc<Layer<T>>>,
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
struct Layer<T> {
    query: Linear<T>,
    key: Linear<T>,
    value: Linear<T>,
    attention_output: Linear<T>,
    attention_norm: LayerNorm<T>,
    intermediate: Linear<T>,
    output: Linear<T>,
    output_norm: LayerNorm<T>,
}

#[derive(Debug)]
enum Head<T> {
    Pooler(Linear<T>),
    Classifier {
        pooler: Linear<T>,
        classifier: Linear<T>,
    },
    MaskedLm {
        transform: Linear<T>,
        norm: LayerNorm<T>,
        decoder: Linear<T>,
    },
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
    let make = Maker { backend, config };
    // A model with a head keeps the encoder under a name of its own.
    let encoder = if task == Task::Base { "" } else { "bert." };
    let embeddings = make.embeddings(&format!("{encoder}embeddings"))?;
    let layers = (0..config.num_hidden_layers)
        .map(|i| {
            backend.within(layer_scope(i), || {
                make.layer(&format!("{encoder}encoder.layer.{i}"))
                    .map(Rc::new)
            })
        })
        .collect::<Result<_, _>>()?;
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
            let ((transform, norm), decoder) =
                backend.tied_decoder(&embeddings.word, "cls.predictions.bias", || {
                    Ok((
                        make.linear("cls.predictions.transform.dense", h, h)?,
                        make.norm("cls.predictions.transform.LayerNorm")?,
                    ))
                })?;
            Head::MaskedLm {
                transform,
                norm,
                decoder,
            }
        }
    };
    Ok(Bert {
        config: config.clone(),
        embeddings,
        layers,
        head,
    })
}

fn layer_scope(index: u64) -> Scope {
    Scope {
        module: "encoder.layer",
        index: Some(index as u32),
    }
}

struct Maker<'a, B> {
    backend: &'a B,
    config: &'a Config,
}

impl<B: Backend> Maker<'_, B> {
    fn table(&self, name: &str, rows: u64) -> Result<B::Tensor, B::Error> {
        let init = Init::Normal(self.config.initializer_range);
        self.backend
            .parameter(name, &[rows, self.config.hidden_size], init)
    }

    fn linear(&self, name: &str, from: u64, to: u64) -> Result<Linear<B::Tensor>, B::Error> {
        let init = Init::Normal(self.config.initializer_range);
        Ok(Linear {
            weight: self
                .backend
                .parameter(&format!("{name}.weight"), &[to, from], init)?,
            bias: self
                .backend
                .parameter(&format!("{name}.bias"), &[to], Init::Zeros)?,
        })
    }

    fn norm(&self, name: &str) -> Result<LayerNorm<B::Tensor>, B::Error> {
        let shape = [self.config.hidden_size];
        Ok(LayerNorm {
            weight: self
                .backend
                .parameter(&format!("{name}.weight"), &shape, Init::Ones)?,
            bias: self
                .backend
                .parameter(&format!("{name}.bias"), &shape, Init::Zeros)?,
            eps: self.config.layer_norm_eps,
        })
    }

    fn embeddings(&self, name: &str) -> Result<Embeddings<B::Tensor>, B::Error> {
        let c = self.config;
        self.backend.within(
            Scope {
                module: "embeddings",
                index: None,
            },
            || {
                Ok(Embeddings {
                    word: self.table(&format!("{name}.word_embeddings.weight"), c.vocab_size)?,
                    position: self.table(
                        &format!("{name}.position_embeddings.weight"),
                        c.max_position_embeddings,
                    )?,
                    token_type: self.table(
                        &format!("{name}.token_type_embeddings.weight"),
                        c.type_vocab_size,
                    )?,
                    norm: self.norm(&format!("{name}.LayerNorm"))?,
                    positions: self
                        .backend
                        .ids_buffer("position_ids", c.max_position_embeddings)?,
                    token_types: self
                        .backend
                        .ids_buffer("token_type_ids", c.max_position_embeddings)?,
                })
            },
        )
    }

    fn layer(&self, name: &str) -> Result<Layer<B::Tensor>, B::Error> {
        let (h, i) = (self.config.hidden_size, self.config.intermediate_size);
        Ok(Layer {
            query: self.linear(&format!("{name}.attention.self.query"), h, h)?,
            key: self.linear(&format!("{name}.attention.self.key"), h, h)?,
            value: self.linear(&format!("{name}.attention.self.value"), h, h)?,
            attention_output: self.linear(&format!("{name}.attention.output.dense"), h, h)?,
            attention_norm: self.norm(&format!("{name}.attention.output.LayerNorm"))?,
            intermediate: self.linear(&format!("{name}.intermediate.dense"), h, i)?,
            output: self.linear(&format!("{name}.output.dense"), i, h)?,
            output_norm: self.norm(&format!("{name}.output.LayerNorm"))?,
        })
    }
}

/// The output of a head, and the locals that are held longer, in their order.
pub type Output<B> = (<B as Backend>::Tensor, Vec<<B as Backend>::Tensor>);

/// The output of the head: `[B, H]` pooled, `[B, labels]` or `[B, S, V]` logits. With it, what the
/// model's frame holds until the loss is computed.
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
    let mut held: Vec<_> = backend.held(&sequence).into_iter().collect();
    let config = &model.config;
    let output = match &model.head {
        Head::Pooler(pooler) => {
            let pooled = pool(backend, pooler, &sequence)?;
            drop(frame);
            pooled
        }
        Head::Classifier { pooler, classifier } => {
            let pooled = pool(backend, pooler, &sequence)?;
            drop(frame);
            let scope = Scope {
                module: "classifier",
                index: None,
            };
            backend.within(scope, || {
                let pooled = backend.dropout(pooled, config.classifier_dropout)?;
                held.extend(backend.held(&pooled));
                backend.linear(&pooled, classifier)
            })?
        }
        Head::MaskedLm {
            transform,
            norm,
            decoder,
        } => {
            drop(frame);
            let scope = Scope {
                module: "cls.predictions",
                index: None,
            };
            backend.within(scope, || {
                let mut hidden = backend.linear(&sequence, transform)?;
                hidden = backend.activation(&hidden, config.hidden_act)?;
                hidden = backend.layer_norm(&hidden, norm)?;
                backend.linear(&hidden, decoder)
            })?
        }
    };
    Ok((output, held))
}

fn pool<B: Backend>(
    backend: &B,
    pooler: &Linear<B::Tensor>,
    sequence: &B::Tensor,
) -> Result<B::Tensor, B::Error> {
    backend.within(
        Scope {
            module: "pooler",
            index: None,
        },
        || {
            let first = backend.first_token(sequence)?;
            let pooled = backend.linear(&first, pooler)?;
            backend.activation(&pooled, Activation::Tanh)
        },
    )
}

/// Attention's result, and the weights where they are held to the end of the layer.
type AttendedLayer<B> = (<B as Backend>::Tensor, Option<<B as Backend>::Tensor>);

/// What the frame of the encoder holds until its pooler is done, in the order of its locals.
type Frame<B> = (Option<<B as Backend>::Mask>, Option<<B as Backend>::Tensor>);

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
    let (mut hidden, mask) = backend.within(
        Scope {
            module: "embeddings",
            index: None,
        },
        || {
            let hidden = embed(backend, model, inputs, seq)?;
            Ok((hidden, backend.padding_mask(&inputs.attention_mask)?))
        },
    )?;
    let frame = (backend.held(&mask), backend.held(&hidden));
    for (i, layer) in model.layers.iter().enumerate() {
        let (config, layer, mask) = (model.config.clone(), layer.clone(), mask.clone());
        hidden = backend.within(layer_scope(i as u64), || {
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

fn embed<B: Backend>(
    backend: &B,
    model: &Bert<B::Tensor>,
    inputs: &Inputs<B::Tensor>,
    seq: u64,
) -> Result<B::Tensor, B::Error> {
    let tables = &model.embeddings;
    let type_ids = backend.token_types(
        &inputs.input_ids,
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
