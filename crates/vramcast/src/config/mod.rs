//! What a model is: the wire form of a `config.json`, and its resolved form with every default
//! applied and every contradiction refused.

pub mod bert;
pub mod distilbert;
mod fields;
mod known;
pub mod roberta;

pub use known::{KNOWN, Known};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The resolved configuration of a model of any architecture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ModelConfig {
    /// `model_type` "bert".
    Bert(bert::Config),
    /// `model_type` "roberta" and "xlm-roberta".
    Roberta(roberta::Config),
    /// `model_type` "distilbert".
    DistilBert(distilbert::Config),
}

/// An architecture that configurations are read for.
pub struct Family {
    /// `model_type` in a `config.json`.
    pub model_type: &'static str,
    /// Reads and resolves the configuration.
    pub resolve: fn(&Value) -> Result<ModelConfig, ConfigError>,
}

/// The architectures, in the order of help texts.
pub const FAMILIES: &[Family] = &[
    Family {
        model_type: "bert",
        resolve: bert::resolve,
    },
    Family {
        model_type: "roberta",
        resolve: roberta::resolve,
    },
    Family {
        model_type: "xlm-roberta",
        resolve: roberta::resolve,
    },
    Family {
        model_type: "distilbert",
        resolve: distilbert::resolve,
    },
];

/// Who keeps the original models on the hub, which are known without them, too.
const OWNERS: &[&str] = &["google-bert/", "FacebookAI/", "distilbert/"];

/// Why a configuration is no model. Each text says what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The text is not JSON.
    #[error("not JSON: {0}")]
    NotJson(String),
    /// The text is JSON, but no object.
    #[error("a config.json is one JSON object")]
    NotAnObject,
    /// No `model_type`, so the fields have no meaning.
    #[error("no `model_type`; known: {known}", known = known_model_types())]
    NoModelType,
    /// An architecture that this version does not know.
    #[error("model_type `{0}` is not known; known: {known}", known = known_model_types())]
    UnknownModelType(String),
    /// A field is missing or has the wrong type.
    #[error("field `{field}` {problem}")]
    Field {
        /// The field's name.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// Two fields contradict each other.
    #[error("{0}")]
    Contradiction(String),
}

/// What somebody typed, fit for one line of an error: without control characters, and cut.
pub fn quoted(text: &str) -> String {
    const LONGEST: usize = 80;
    let escaped: String = text
        .chars()
        .take(LONGEST)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(LONGEST).is_some() {
        format!("{escaped}...")
    } else {
        escaped
    }
}

fn known_model_types() -> String {
    FAMILIES
        .iter()
        .map(|f| f.model_type)
        .collect::<Vec<_>>()
        .join(", ")
}

/// A name that is no known model, with the nearest that are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{name}` is not a known model{nearest}; `vramcast models` lists them, and a path to a config.json works too"
)]
pub struct UnknownModel {
    /// What was asked for.
    pub name: String,
    /// " (did you mean ...?)", or nothing.
    pub nearest: String,
}

impl ModelConfig {
    /// Reads the text of a `config.json`.
    ///
    /// # Errors
    /// One line that names the field or the place in the text.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let value: Value = serde_json::from_str(text.trim_start_matches('\u{feff}'))
            .map_err(|e| ConfigError::NotJson(e.to_string()))?;
        let fields = value.as_object().ok_or(ConfigError::NotAnObject)?;
        let model_type = match fields.get("model_type") {
            None | Some(Value::Null) => return Err(ConfigError::NoModelType),
            Some(Value::String(model_type)) => model_type,
            Some(other) => return Err(ConfigError::UnknownModelType(quoted(&other.to_string()))),
        };
        let family = FAMILIES
            .iter()
            .find(|f| f.model_type == model_type)
            .ok_or_else(|| ConfigError::UnknownModelType(quoted(model_type)))?;
        (family.resolve)(&value)
    }

    /// The published configuration of a model by its name on the hub.
    ///
    /// # Errors
    /// The nearest known names.
    pub fn known(name: &str) -> Result<Self, UnknownModel> {
        let bare = OWNERS.iter().find_map(|owner| name.strip_prefix(owner));
        let bare = bare.unwrap_or(name);
        let known = KNOWN.iter().find(|k| k.name.eq_ignore_ascii_case(bare));
        known.map(Known::config).ok_or_else(|| {
            let mut nearest: Vec<(f64, &str)> = KNOWN
                .iter()
                .map(|k| (strsim::jaro_winkler(name, k.name), k.name))
                .collect();
            nearest.sort_by(|a, b| b.0.total_cmp(&a.0));
            let names: Vec<&str> = nearest
                .iter()
                .take_while(|(near, _)| *near > 0.75)
                .take(3)
                .map(|n| n.1)
                .collect();
            let nearest = match names.as_slice() {
                [] => String::new(),
                names => format!(" (did you mean {}?)", names.join(" or ")),
            };
            UnknownModel {
                name: quoted(name),
                nearest,
            }
        })
    }

    /// The `config.json` that this configuration comes from, with every default written out.
    pub fn to_json(&self) -> Value {
        let mut json = match self {
            Self::Bert(config) => serde_json::json!(config),
            Self::Roberta(config) => serde_json::json!(config),
            Self::DistilBert(config) => serde_json::json!(config),
        };
        json["model_type"] = self.model_type().into();
        json
    }

    /// The same model, which drops nothing in training unless `dropout`.
    #[must_use]
    pub fn with_dropout(&self, dropout: bool) -> Self {
        let mut config = self.clone();
        if dropout {
            return config;
        }
        match &mut config {
            Self::Bert(bert) | Self::Roberta(roberta::Config { encoder: bert, .. }) => {
                bert.hidden_dropout_prob = 0.0;
                bert.attention_probs_dropout_prob = 0.0;
                bert.classifier_dropout = 0.0;
            }
            Self::DistilBert(distilbert) => {
                distilbert.dropout = 0.0;
                distilbert.attention_dropout = 0.0;
                distilbert.seq_classif_dropout = 0.0;
            }
        }
        config
    }

    /// Entries of the vocabulary.
    pub fn vocab_size(&self) -> u64 {
        match self {
            Self::Bert(config) => config.vocab_size,
            Self::Roberta(config) => config.encoder.vocab_size,
            Self::DistilBert(config) => config.vocab_size,
        }
    }

    /// Classes of a classification head.
    pub fn num_labels(&self) -> u64 {
        match self {
            Self::Bert(config) => config.num_labels,
            Self::Roberta(config) => config.encoder.num_labels,
            Self::DistilBert(config) => config.num_labels,
        }
    }

    /// The longest sequence that the position table holds.
    pub fn max_sequence(&self) -> u64 {
        match self {
            Self::Bert(config) => config.max_position_embeddings,
            Self::Roberta(config) => config.max_sequence(),
            Self::DistilBert(config) => config.max_position_embeddings,
        }
    }

    /// Width of one head of attention.
    pub fn head_width(&self) -> u64 {
        match self {
            Self::Bert(config) => config.head_width(),
            Self::Roberta(config) => config.encoder.head_width(),
            Self::DistilBert(config) => config.dim / config.n_heads,
        }
    }

    /// `model_type` of the family.
    pub fn model_type(&self) -> &'static str {
        match self {
            Self::Bert(_) => "bert",
            Self::Roberta(_) => "roberta",
            Self::DistilBert(_) => "distilbert",
        }
    }

    /// Whether a batch has token types.
    pub fn has_token_types(&self) -> bool {
        match self {
            Self::Bert(_) | Self::Roberta(_) => true,
            Self::DistilBert(_) => false,
        }
    }
}
