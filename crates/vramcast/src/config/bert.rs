//! BERT's configuration, as `configuration_bert.py` of transformers 5 defines it.

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

/// More layers than any published encoder: beyond it, the answer would only take time.
const MOST_LAYERS: u64 = 4096;

pub(super) fn resolve(json: &Value) -> Result<ModelConfig, ConfigError> {
    let fields = Fields(json);
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
    Ok(ModelConfig::Bert(config))
}

impl Config {
    fn check(&self) -> Result<(), ConfigError> {
        if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            return Err(ConfigError::Contradiction(format!(
                "hidden_size {} is not divisible by num_attention_heads {}",
                self.hidden_size, self.num_attention_heads
            )));
        }
        if self.num_hidden_layers > MOST_LAYERS {
            return Err(ConfigError::Field {
                field: "num_hidden_layers",
                problem: format!(
                    "is {}; at most {MOST_LAYERS} are predicted",
                    self.num_hidden_layers
                ),
            });
        }
        let tables = [
            ("vocab_size", self.vocab_size),
            ("max_position_embeddings", self.max_position_embeddings),
            ("type_vocab_size", self.type_vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_labels", self.num_labels),
        ];
        for (field, rows) in tables {
            // Token ids and the kernels' indices are 32 bits wide.
            if rows > u64::from(u32::MAX) {
                return Err(ConfigError::Field {
                    field,
                    problem: format!("is {rows}, more than 32 bits can index"),
                });
            }
        }
        Ok(())
    }
}

/// Typed access to the fields of a `config.json`, with errors that name the field.
struct Fields<'a>(&'a Value);

impl Fields<'_> {
    fn get(&self, field: &'static str) -> Option<&Value> {
        self.0.get(field).filter(|v| !v.is_null())
    }

    /// Settings that change what is allocated, in ways that no model here follows.
    fn refuse_what_is_not_modelled(&self) -> Result<(), ConfigError> {
        let plain = |field: &'static str, plain: &[Value]| match self.get(field) {
            Some(value) if !plain.contains(value) => Err(ConfigError::Field {
                field,
                problem: format!("is {value}, which is not predicted; known: {}", plain[0]),
            }),
            _ => Ok(()),
        };
        plain("position_embedding_type", &["absolute".into()])?;
        plain("is_decoder", &[false.into()])?;
        plain("add_cross_attention", &[false.into()])?;
        plain("tie_word_embeddings", &[true.into()])?;
        plain(
            "pruned_heads",
            &[serde_json::json!({}), serde_json::json!([])],
        )
    }

    fn size(&self, field: &'static str) -> Result<u64, ConfigError> {
        let problem = "is missing; the sizes of a model are not guessed".to_owned();
        let value = self
            .get(field)
            .ok_or(ConfigError::Field { field, problem })?;
        let wrong = || ConfigError::Field {
            field,
            problem: format!("is {value}, not a whole number of at least 1"),
        };
        value.as_u64().filter(|&n| n > 0).ok_or_else(wrong)
    }

    fn size_or(&self, field: &'static str, default: u64) -> Result<u64, ConfigError> {
        if self.get(field).is_some() {
            self.size(field)
        } else {
            Ok(default)
        }
    }

    fn number(&self, field: &'static str, default: f64) -> Result<f64, ConfigError> {
        let Some(value) = self.get(field) else {
            return Ok(default);
        };
        value
            .as_f64()
            .filter(|n| *n >= 0.0)
            .ok_or_else(|| ConfigError::Field {
                field,
                problem: format!("is {value}, not a number of at least 0"),
            })
    }

    fn probability(&self, field: &'static str, default: f64) -> Result<f64, ConfigError> {
        let p = self.number(field, default)?;
        if p < 1.0 {
            return Ok(p);
        }
        Err(ConfigError::Field {
            field,
            problem: format!("is {p}, not a probability below 1"),
        })
    }

    fn activation(&self, field: &'static str) -> Result<Activation, ConfigError> {
        let Some(value) = self.get(field) else {
            return Ok(Activation::Gelu);
        };
        match value.as_str() {
            Some("gelu") => Ok(Activation::Gelu),
            Some("gelu_new" | "gelu_pytorch_tanh" | "gelu_fast") => Ok(Activation::GeluTanh),
            Some("relu") => Ok(Activation::Relu),
            Some("tanh") => Ok(Activation::Tanh),
            _ => Err(ConfigError::Field {
                field,
                problem: format!(
                    "is {value}; known: gelu, gelu_new, gelu_pytorch_tanh, relu, tanh"
                ),
            }),
        }
    }

    fn num_labels(&self) -> Result<u64, ConfigError> {
        if self.get("num_labels").is_some() {
            return self.size("num_labels");
        }
        let Some(labels) = self.get("id2label") else {
            return Ok(2);
        };
        let named = labels
            .as_object()
            .map(|labels| labels.len() as u64)
            .filter(|&n| n > 0);
        named.ok_or_else(|| ConfigError::Field {
            field: "id2label",
            problem: format!("is {labels}, not an object of labels"),
        })
    }
}
