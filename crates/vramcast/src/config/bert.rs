//! BERT's configuration, as `configuration_bert.py` of transformers 5 defines it.

use super::fields::{self, Fields};
use super::{ConfigError, ModelConfig};
use crate::backend::Activation;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Everything that BERT's shapes and lifetimes depend on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Rows of the word embedding table.
    pub vocab_size: u64,
    /// Width of the residual stream.
    pub hidden_size: u64,
    /// Encoder layers.
    pub num_hidden_layers: u64,
    /// Heads that divide `hidden_size`.
    pub num_attention_heads: u64,
    /// Width between the two linear layers of the feed-forward part.
    pub intermediate_size: u64,
    /// The function between them.
    pub hidden_act: Activation,
    /// Dropout after embeddings, attention and feed-forward.
    pub hidden_dropout_prob: f64,
    /// Dropout on attention weights.
    pub attention_probs_dropout_prob: f64,
    /// Dropout before the classifier; `hidden_dropout_prob` where absent.
    pub classifier_dropout: f64,
    /// Rows of the position table: the longest sequence.
    pub max_position_embeddings: u64,
    /// Rows of the token type table.
    pub type_vocab_size: u64,
    /// Standard deviation of fresh weights.
    pub initializer_range: f64,
    /// Added to variances.
    pub layer_norm_eps: f64,
    /// Classes: `num_labels`, else the entries of `id2label`, else 2.
    pub num_labels: u64,
}

pub(super) fn resolve(json: &Value) -> Result<ModelConfig, ConfigError> {
    let config = read(&Fields(json))?;
    Ok(ModelConfig::Bert(config))
}

/// Reads the fields that BERT shares with those that took over its encoder.
pub(super) fn read(fields: &Fields<'_>) -> Result<Config, ConfigError> {
    fields.refuse_what_is_not_modelled()?;
    let hidden_dropout_prob = fields.probability("hidden_dropout_prob", 0.1)?;
    let config = Config {
        vocab_size: fields.size("vocab_size")?,
        hidden_size: fields.size("hidden_size")?,
        num_hidden_layers: fields.size("num_hidden_layers")?,
        num_attention_heads: fields.size("num_attention_heads")?,
        intermediate_size: fields.size("intermediate_size")?,
        hidden_act: fields.activation("hidden_act")?,
        hidden_dropout_prob,
        attention_probs_dropout_prob: fields.probability("attention_probs_dropout_prob", 0.1)?,
        classifier_dropout: fields.probability("classifier_dropout", hidden_dropout_prob)?,
        max_position_embeddings: fields.size("max_position_embeddings")?,
        type_vocab_size: fields.size_or("type_vocab_size", 2)?,
        initializer_range: fields.number("initializer_range", 0.02)?,
        layer_norm_eps: fields.number("layer_norm_eps", 1e-12)?,
        num_labels: fields.num_labels()?,
    };
    config.check()?;
    Ok(config)
}

impl Config {
    /// Width of one head of attention.
    pub fn head_width(&self) -> u64 {
        self.hidden_size / self.num_attention_heads
    }

    fn check(&self) -> Result<(), ConfigError> {
        fields::check_heads(
            ("hidden_size", self.hidden_size),
            ("num_attention_heads", self.num_attention_heads),
        )?;
        fields::check_layers("num_hidden_layers", self.num_hidden_layers)?;
        fields::check_tables(&[
            ("vocab_size", self.vocab_size),
            ("max_position_embeddings", self.max_position_embeddings),
            ("type_vocab_size", self.type_vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_labels", self.num_labels),
        ])
    }
}
