//! Typed access to the fields of a `config.json`, with errors that name the field.

use super::ConfigError;
use crate::backend::Activation;
use serde::Deserialize;
use serde_json::Value;

/// More layers than any published encoder: beyond it, the answer would only take time.
const MOST_LAYERS: u64 = 4096;

/// A field and its value.
type Named = (&'static str, u64);

/// Heads divide the hidden size.
pub(super) fn check_heads(hidden: Named, heads: Named) -> Result<(), ConfigError> {
    if hidden.1.is_multiple_of(heads.1) {
        return Ok(());
    }
    Err(ConfigError::Contradiction(format!(
        "{} {} is not divisible by {} {}",
        hidden.0, hidden.1, heads.0, heads.1
    )))
}

/// Layers are so few that an answer does not take long.
pub(super) fn check_layers(field: &'static str, layers: u64) -> Result<(), ConfigError> {
    if layers <= MOST_LAYERS {
        return Ok(());
    }
    Err(ConfigError::Field {
        field,
        problem: format!("is {layers}; at most {MOST_LAYERS} are predicted"),
    })
}

/// Token ids and the kernels' indices are 32 bits wide.
pub(super) fn check_tables(sizes: &[Named]) -> Result<(), ConfigError> {
    match sizes.iter().find(|(_, size)| *size > u64::from(u32::MAX)) {
        None => Ok(()),
        Some(&(field, size)) => Err(ConfigError::Field {
            field,
            problem: format!("is {size}, more than 32 bits can index"),
        }),
    }
}

/// The fields of a `config.json`; null is absent.
pub(super) struct Fields<'a>(pub(super) &'a Value);

impl Fields<'_> {
    fn get(&self, field: &'static str) -> Option<&Value> {
        self.0.get(field).filter(|v| !v.is_null())
    }

    /// Settings that change what is allocated, in ways that no model here follows.
    pub(super) fn refuse_what_is_not_modelled(&self) -> Result<(), ConfigError> {
        let plain = |field: &'static str, plain: &[Value]| match self.get(field) {
            Some(value) if !plain.contains(value) => Err(ConfigError::Field {
                field,
                problem: format!("is {value}, which is not predicted; known: {}", plain[0]),
            }),
            _ => Ok(()),
        };
        plain("position_embedding_type", &["absolute".into()])?;
        plain("sinusoidal_pos_embds", &[false.into()])?;
        plain("problem_type", &["single_label_classification".into()])?;
        plain("chunk_size_feed_forward", &[0.into()])?;
        plain("output_hidden_states", &[false.into()])?;
        plain("output_attentions", &[false.into()])?;
        if let Some(quantized) = self.get("quantization_config") {
            let problem = format!("is {quantized}: quantized weights are not predicted");
            let field = "quantization_config";
            return Err(ConfigError::Field { field, problem });
        }
        plain("is_decoder", &[false.into()])?;
        plain("add_cross_attention", &[false.into()])?;
        plain("tie_word_embeddings", &[true.into()])?;
        plain(
            "pruned_heads",
            &[serde_json::json!({}), serde_json::json!([])],
        )
    }

    pub(super) fn size(&self, field: &'static str) -> Result<u64, ConfigError> {
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

    pub(super) fn size_or(&self, field: &'static str, default: u64) -> Result<u64, ConfigError> {
        if self.get(field).is_some() {
            self.size(field)
        } else {
            Ok(default)
        }
    }

    /// A row of a table.
    pub(super) fn index_or(&self, field: &'static str, default: u64) -> Result<u64, ConfigError> {
        let Some(value) = self.get(field) else {
            return Ok(default);
        };
        value.as_u64().ok_or_else(|| ConfigError::Field {
            field,
            problem: format!("is {value}, not a whole number"),
        })
    }

    pub(super) fn number(&self, field: &'static str, default: f64) -> Result<f64, ConfigError> {
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

    pub(super) fn probability(
        &self,
        field: &'static str,
        default: f64,
    ) -> Result<f64, ConfigError> {
        let p = self.number(field, default)?;
        if p < 1.0 {
            return Ok(p);
        }
        Err(ConfigError::Field {
            field,
            problem: format!("is {p}, not a probability below 1"),
        })
    }

    pub(super) fn activation(&self, field: &'static str) -> Result<Activation, ConfigError> {
        let Some(value) = self.get(field) else {
            return Ok(Activation::Gelu);
        };
        Activation::deserialize(value).map_err(|_| ConfigError::Field {
            field,
            problem: format!(
                "is {value}; known: gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, relu, tanh"
            ),
        })
    }

    pub(super) fn num_labels(&self) -> Result<u64, ConfigError> {
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
