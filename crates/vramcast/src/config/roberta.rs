//! RoBERTa's configuration, as `configuration_roberta.py` of transformers 5 defines it; XLM-RoBERTa's
//! is the same.

use super::fields::Fields;
use super::{ConfigError, ModelConfig, bert};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// BERT's encoder, with positions that begin after the padding token's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// What BERT has, too.
    #[serde(flatten)]
    pub encoder: bert::Config,
    /// The token that fills up short sequences, and its position. Others are numbered from the next.
    pub pad_token_id: u64,
}

pub(super) fn resolve(json: &Value) -> Result<ModelConfig, ConfigError> {
    let fields = Fields(json);
    let config = Config {
        encoder: bert::read(&fields)?,
        pad_token_id: fields.index_or("pad_token_id", 1)?,
    };
    for (field, rows) in [
        ("vocab_size", config.encoder.vocab_size),
        (
            "max_position_embeddings",
            config.encoder.max_position_embeddings - 1,
        ),
    ] {
        if config.pad_token_id >= rows {
            return Err(ConfigError::Contradiction(format!(
                "pad_token_id {} leaves no room in {field}",
                config.pad_token_id
            )));
        }
    }
    Ok(ModelConfig::Roberta(config))
}

impl Config {
    /// The longest sequence: positions up to the padding token's are not for other tokens.
    pub fn max_sequence(&self) -> u64 {
        self.encoder.max_position_embeddings - self.pad_token_id - 1
    }
}
