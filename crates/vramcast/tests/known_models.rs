//! Configurations: known models have the parameters that were published, what cannot be is refused.

use vramcast::config::{KNOWN, ModelConfig};
use vramcast::shadow::candle::{Flavour, run};
use vramcast::workload::{Mode, Runtime, Task, Workload};

fn parameters(config: &ModelConfig, task: Task) -> u64 {
    let workload = Workload::new(Runtime::Candle, task, Mode::Infer, 1, 1);
    run(config, &workload, Flavour::Cpu, 1).unwrap().1.n_params
}

#[test]
fn every_known_model_has_as_many_parameters_as_were_published() {
    // Elements of the checkpoints' encoders, with the pooler where there is one.
    for (name, published) in [
        ("bert-base-uncased", 109_482_240),
        ("bert-large-uncased", 335_141_888),
        ("bert-base-cased", 108_310_272),
        ("bert-base-multilingual-cased", 177_853_440),
        ("roberta-base", 124_645_632),
        ("roberta-large", 355_359_744),
        ("distilroberta-base", 82_118_400),
        ("xlm-roberta-base", 278_043_648),
        ("xlm-roberta-large", 559_890_432),
        ("distilbert-base-uncased", 66_362_880),
        ("distilbert-base-cased", 65_190_912),
        ("distilbert-base-multilingual-cased", 134_734_080),
    ] {
        let config = ModelConfig::known(name).unwrap();
        assert_eq!(parameters(&config, Task::Base), published, "{name}");
    }
}

#[test]
fn every_head_has_the_parameters_of_transformers() {
    use Task::{MaskedLm, SequenceClassification};
    for (name, task, n_params) in [
        ("bert-base-uncased", SequenceClassification, 109_483_778),
        ("bert-base-uncased", MaskedLm, 109_514_298),
        ("roberta-base", SequenceClassification, 124_647_170),
        ("roberta-base", MaskedLm, 124_697_433),
        (
            "distilbert-base-uncased",
            SequenceClassification,
            66_955_010,
        ),
        ("distilbert-base-uncased", MaskedLm, 66_985_530),
    ] {
        let config = ModelConfig::known(name).unwrap();
        assert_eq!(parameters(&config, task), n_params, "{name} {task}");
    }
}

#[test]
fn a_known_model_is_found_with_its_owner_on_the_hub() {
    for (name, owned) in [
        ("bert-base-uncased", "google-bert/bert-base-uncased"),
        ("roberta-base", "FacebookAI/roberta-base"),
        ("xlm-roberta-large", "FacebookAI/xlm-roberta-large"),
        ("distilbert-base-cased", "distilbert/distilbert-base-cased"),
        ("distilroberta-base", "distilbert/distilroberta-base"),
    ] {
        assert_eq!(ModelConfig::known(name), ModelConfig::known(owned));
    }
}

#[test]
fn every_known_model_takes_512_tokens() {
    for known in KNOWN {
        assert_eq!(known.config().max_sequence(), 512, "{}", known.name);
    }
}

/// A `config.json` with one field more.
fn read(base: &str, more: &str) -> Result<ModelConfig, String> {
    ModelConfig::from_json(&format!("{{{base}, {more}}}")).map_err(|error| error.to_string())
}

const ROBERTA: &str = r#""model_type": "xlm-roberta", "vocab_size": 9, "hidden_size": 8,
    "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8,
    "max_position_embeddings": 20"#;

const DISTILBERT: &str = r#""model_type": "distilbert", "vocab_size": 9, "dim": 8, "n_layers": 1,
    "hidden_dim": 8, "max_position_embeddings": 20"#;

#[test]
fn positions_before_and_of_the_padding_token_shorten_a_sequence() {
    for (pad, longest) in [("null", 18), ("0", 19), ("1", 18), ("8", 11)] {
        let config = read(ROBERTA, &format!(r#""pad_token_id": {pad}"#)).unwrap();
        assert_eq!(config.max_sequence(), longest, "{pad}");
    }
}

#[test]
fn what_cannot_be_is_refused_by_the_name_of_its_field() {
    for (base, more, told) in [
        (ROBERTA, r#""pad_token_id": 9"#, "no room in vocab_size"),
        (ROBERTA, r#""pad_token_id": -1"#, "field `pad_token_id`"),
        (
            DISTILBERT,
            r#""n_heads": 3"#,
            "dim 8 is not divisible by n_heads 3",
        ),
        (DISTILBERT, r#""heads": 2"#, "field `n_heads` is missing"),
        (
            DISTILBERT,
            r#""n_heads": 2, "sinusoidal_pos_embds": true"#,
            "field `sinusoidal_pos_embds` is true",
        ),
    ] {
        let error = read(base, more).unwrap_err();
        assert!(error.contains(told), "{error}");
    }
}
