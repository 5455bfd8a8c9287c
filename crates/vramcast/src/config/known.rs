//! Models known by name, with the sizes that their `config.json` on the hub has.

use super::{ModelConfig, bert, distilbert, roberta};
use crate::backend::Activation;

/// A published model. Everything that is not a field has its family's default.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The name on the hub.
    pub name: &'static str,
    vocab: u64,
    hidden: u64,
    layers: u64,
    heads: u64,
    resolve: fn(&Known) -> ModelConfig,
}

impl Known {
    /// Its configuration.
    pub fn config(&self) -> ModelConfig {
        (self.resolve)(self)
    }

    fn as_bert(&self) -> bert::Config {
        bert::Config {
            vocab_size: self.vocab,
            hidden_size: self.hidden,
            num_hidden_layers: self.layers,
            num_attention_heads: self.heads,
            intermediate_size: 4 * self.hidden,
            hidden_act: Activation::Gelu,
            hidden_dropout_prob: 0.1,
            attention_probs_dropout_prob: 0.1,
            classifier_dropout: 0.1,
            max_position_embeddings: 512,
            type_vocab_size: 2,
            initializer_range: 0.02,
            layer_norm_eps: 1e-12,
            num_labels: 2,
        }
    }

    fn as_roberta(&self) -> roberta::Config {
        roberta::Config {
            encoder: bert::Config {
                max_position_embeddings: 514,
                type_vocab_size: 1,
                layer_norm_eps: 1e-5,
                ..self.as_bert()
            },
            pad_token_id: 1,
        }
    }

    fn as_distilbert(&self) -> distilbert::Config {
        distilbert::Config {
            vocab_size: self.vocab,
            dim: self.hidden,
            n_layers: self.layers,
            n_heads: self.heads,
            hidden_dim: 4 * self.hidden,
            activation: Activation::Gelu,
            dropout: 0.1,
            attention_dropout: 0.1,
            seq_classif_dropout: 0.2,
            max_position_embeddings: 512,
            initializer_range: 0.02,
            num_labels: 2,
        }
    }
}

const fn distilbert(name: &'static str, vocab: u64) -> Known {
    Known {
        name,
        vocab,
        hidden: 768,
        layers: 6,
        heads: 12,
        resolve: |known| ModelConfig::DistilBert(known.as_distilbert()),
    }
}

const fn bert(name: &'static str, vocab: u64, hidden: u64, layers: u64, heads: u64) -> Known {
    Known {
        name,
        vocab,
        hidden,
        layers,
        heads,
        resolve: |known| ModelConfig::Bert(known.as_bert()),
    }
}

const fn roberta(name: &'static str, vocab: u64, hidden: u64, layers: u64) -> Known {
    Known {
        name,
        vocab,
        hidden,
        layers,
        heads: hidden / 64,
        resolve: |known| ModelConfig::Roberta(known.as_roberta()),
    }
}

const fn miniature(name: &'static str, layers: u64, hidden: u64) -> Known {
    bert(name, 30_522, hidden, layers, hidden / 64)
}

/// The known models, the miniatures of BERT last.
pub const KNOWN: &[Known] = &[
    bert("bert-base-uncased", 30_522, 768, 12, 12),
    bert("bert-large-uncased", 30_522, 1024, 24, 16),
    bert("bert-base-cased", 28_996, 768, 12, 12),
    bert("bert-large-cased", 28_996, 1024, 24, 16),
    bert("bert-base-multilingual-uncased", 105_879, 768, 12, 12),
    bert("bert-base-multilingual-cased", 119_547, 768, 12, 12),
    bert("bert-base-chinese", 21_128, 768, 12, 12),
    bert(
        "bert-large-uncased-whole-word-masking",
        30_522,
        1024,
        24,
        16,
    ),
    bert("sentence-transformers/all-MiniLM-L6-v2", 30_522, 384, 6, 12),
    bert(
        "sentence-transformers/all-MiniLM-L12-v2",
        30_522,
        384,
        12,
        12,
    ),
    roberta("roberta-base", 50_265, 768, 12),
    roberta("roberta-large", 50_265, 1024, 24),
    roberta("distilroberta-base", 50_265, 768, 6),
    roberta("xlm-roberta-base", 250_002, 768, 12),
    roberta("xlm-roberta-large", 250_002, 1024, 24),
    distilbert("distilbert-base-uncased", 30_522),
    distilbert("distilbert-base-cased", 28_996),
    distilbert("distilbert-base-multilingual-cased", 119_547),
    // The small models of Turc et al. 2019 (arXiv:1908.08962): every depth with every width.
    miniature("google/bert_uncased_L-2_H-128_A-2", 2, 128),
    miniature("google/bert_uncased_L-2_H-256_A-4", 2, 256),
    miniature("google/bert_uncased_L-2_H-512_A-8", 2, 512),
    miniature("google/bert_uncased_L-2_H-768_A-12", 2, 768),
    miniature("google/bert_uncased_L-4_H-128_A-2", 4, 128),
    miniature("google/bert_uncased_L-4_H-256_A-4", 4, 256),
    miniature("google/bert_uncased_L-4_H-512_A-8", 4, 512),
    miniature("google/bert_uncased_L-4_H-768_A-12", 4, 768),
    miniature("google/bert_uncased_L-6_H-128_A-2", 6, 128),
    miniature("google/bert_uncased_L-6_H-256_A-4", 6, 256),
    miniature("google/bert_uncased_L-6_H-512_A-8", 6, 512),
    miniature("google/bert_uncased_L-6_H-768_A-12", 6, 768),
    miniature("google/bert_uncased_L-8_H-128_A-2", 8, 128),
    miniature("google/bert_uncased_L-8_H-256_A-4", 8, 256),
    miniature("google/bert_uncased_L-8_H-512_A-8", 8, 512),
    miniature("google/bert_uncased_L-8_H-768_A-12", 8, 768),
    miniature("google/bert_uncased_L-10_H-128_A-2", 10, 128),
    miniature("google/bert_uncased_L-10_H-256_A-4", 10, 256),
    miniature("google/bert_uncased_L-10_H-512_A-8", 10, 512),
    miniature("google/bert_uncased_L-10_H-768_A-12", 10, 768),
    miniature("google/bert_uncased_L-12_H-128_A-2", 12, 128),
    miniature("google/bert_uncased_L-12_H-256_A-4", 12, 256),
    miniature("google/bert_uncased_L-12_H-512_A-8", 12, 512),
    miniature("google/bert_uncased_L-12_H-768_A-12", 12, 768),
];
