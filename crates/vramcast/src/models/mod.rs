//! The models, one file an architecture, generic over the backend.
//!
//! They follow the structure and the locals of Hugging Face's modeling code, since that decides
//! when a tensor dies; the names of parameters are the hub's.

pub mod bert;
pub mod distilbert;
mod encoder;
mod layer;
mod masked_lm;
mod parameters;
pub mod roberta;

use crate::backend::Backend;
use crate::config::ModelConfig;
use crate::timeline::Scope;
use crate::workload::{Mode, Task};

/// What a step reads: token ids, token types, the mask and the labels.
#[derive(Clone, Debug)]
pub struct Inputs<T> {
    /// `[B, S]`.
    pub input_ids: T,
    /// `[B, S]`; zeros where none are given.
    pub token_type_ids: Option<T>,
    /// `[B, S]` of ones and zeros.
    pub attention_mask: T,
    /// `[B]` or `[B * S]`, where the task has labels and trains.
    pub labels: Option<T>,
}

/// A built model of any architecture.
#[derive(Debug)]
pub enum Model<T> {
    /// BERT with one of its heads.
    Bert(bert::Bert<T>),
    /// RoBERTa with one of its heads.
    Roberta(roberta::Roberta<T>),
    /// DistilBERT with one of its heads.
    DistilBert(distilbert::DistilBert<T>),
}

/// The output of a head, and what the model's frame holds until the loss is computed, in the order
/// in which it dies.
pub type Output<B> = (<B as Backend>::Tensor, Vec<<B as Backend>::Tensor>);

/// What the frame of an encoder holds while its layers run, in the order of its locals.
pub type Frame<B> = (Option<<B as Backend>::Mask>, Option<<B as Backend>::Tensor>);

/// Attention's result, and the weights where they are held to the end of the layer.
type AttendedLayer<B> = (<B as Backend>::Tensor, Option<<B as Backend>::Tensor>);

/// A part of a model that there is one of.
fn part(module: &'static str) -> Scope {
    Scope {
        module,
        index: None,
    }
}

/// One of the layers.
fn numbered(module: &'static str, index: usize) -> Scope {
    Scope {
        module,
        index: Some(index as u32),
    }
}

/// Makes the parameters of a model.
///
/// # Errors
/// The backend's.
pub fn build<B: Backend>(
    backend: &B,
    config: &ModelConfig,
    task: Task,
) -> Result<Model<B::Tensor>, B::Error> {
    match config {
        ModelConfig::Bert(config) => bert::build(backend, config, task).map(Model::Bert),
        ModelConfig::Roberta(config) => roberta::build(backend, config, task).map(Model::Roberta),
        ModelConfig::DistilBert(config) => {
            distilbert::build(backend, config, task).map(Model::DistilBert)
        }
    }
}

/// Runs the forward pass: the loss where a task trains, else the output.
///
/// # Errors
/// The backend's.
pub fn forward<B: Backend>(
    backend: &B,
    model: &Model<B::Tensor>,
    inputs: &Inputs<B::Tensor>,
    seq: u64,
    mode: Mode,
) -> Result<B::Tensor, B::Error> {
    let (output, held) = match model {
        Model::Bert(model) => bert::forward(backend, model, inputs, seq)?,
        Model::Roberta(model) => roberta::forward(backend, model, inputs)?,
        Model::DistilBert(model) => distilbert::forward(backend, model, inputs, seq)?,
    };
    let result = match mode {
        Mode::Infer => Ok(output.clone()),
        Mode::Train => backend.within(part("loss"), || match &inputs.labels {
            Some(labels) => backend.cross_entropy(&output, labels),
            None => backend.mean_square(&output),
        }),
    };
    drop(held);
    drop(output);
    result
}
