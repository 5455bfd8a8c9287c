//! DistilBERT's configuration, as `configuration_distilbert.py` of transformers 5 defines it.

use super::fields::{self, Fields};
use super::{ConfigError, ModelConfig};
use crate::backend::Activation;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Everything that DistilBERT's shapes and lifetimes depend on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Rows of the word embedding table.
    pub vocab_size: u64,
    /// Width of the residual stream.
    pub dim: u64,
    /// Encoder layers.
    pub n_layers: u64,
    /// Heads that divide `dim`.
    pub n_heads: u64,
    /// Width between the two linear layers of the feed-forward part.
    pub hidden_dim: u64,
    /// The function between them.
    pub activation: Activation,
    /// Dropout after embeddings and feed-forward.
    pub dropout: f64,
    /// Dropout on attention weights.
    pub attention_dropout: f64,
    /// Dropout before the classifier.
    pub seq_classif_dropout: f64,
    /// Rows of the position table: the longest sequence.
    pub max_position_embeddings: u64,
    /// Standard deviation of fresh weights.
    pub initializer_range: f64,
    /// Classes: `num_labels`, else the entries of `id2label`, else 2.
    pub num_labels: u64,
}

pub(super) fn resolve(json: &Value) -> Result<ModelConfig, ConfigError> {
    let fields = Fields(json);
    fields.refuse_what_is_not_modelled()?;
    let config = Config {
        vocab_size: fields.size("vocab_size")?,
        dim: fields.size("dim")?,
        n_layers: fields.size("n_layers")?,
        n_heads: fields.size("n_heads")?,
        hidden_dim: fields.size("hidden_dim")?,
        activation: fields.activation("activation")?,
        dropout: fields.probability("dropout", 0.1)?,
        attention_dropout: fields.probability("attention_dropout", 0.1)?,
        seq_classif_dropout: fields.probability("seq_classif_dropout", 0.2)?,
        max_position_embeddings: fields.size("max_position_embeddings")?,
        initializer_range: fields.number("initializer_range", 0.02)?,
        num_labels: fields.num_labels()?,
    };
    fields::check_heads(("dim", config.dim), ("n_heads", config.n_heads))?;
    fields::check_layers("n_layers", config.n_layers)?;
    fields::check_tables(&[
        ("vocab_size", config.vocab_size),
        ("max_position_embeddings", config.max_position_embeddings),
        ("dim", config.dim),
        ("hidden_dim", config.hidden_dim),
        ("num_labels", config.num_labels),
    ])?;
    Ok(ModelConfig::DistilBert(config))
}
