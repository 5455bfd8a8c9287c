//! Layers at the peak, and what two runs differ in.

use vramcast::bytes::Bytes;
use vramcast::config::ModelConfig;
use vramcast::diff::Difference;
use vramcast::figures::Figures;
use vramcast::gate::inject;
use vramcast::predict::{Effort, Prediction, Question, predict};
use vramcast::timeline::Category;
use vramcast::workload::{Mode, Runtime, Task, Workload};

fn workload(runtime: Runtime, batch: u64) -> Workload {
    Workload::new(
        runtime,
        Task::SequenceClassification,
        Mode::Train,
        batch,
        128,
    )
}

fn answer(model: &str, workload: &Workload) -> Prediction {
    let config = ModelConfig::known(model).unwrap();
    predict(&Question::new(model, &config, workload)).unwrap()
}

fn difference(a: &Prediction, b: &Prediction) -> Difference {
    Difference::new(&Figures::from(a), &Figures::from(b))
}

/// The layers at the peak are its components, to the byte.
fn check_layers(figures: &Figures) {
    let parts = figures.at_peak.unwrap();
    for category in Category::all() {
        let of = |layer: &&vramcast::layers::Layer| layer.category == category;
        let sum: u64 = figures.layers.iter().filter(of).map(|l| l.bytes.0).sum();
        let part = parts.parts().into_iter();
        let (_, bytes) = part
            .into_iter()
            .find(|(name, _)| *name == category.to_string())
            .unwrap();
        assert_eq!(sum, bytes.0, "{category}");
    }
    for layer in &figures.layers {
        assert_eq!(layer.bytes.0 % layer.scope.count(), 0, "{}", layer.scope);
    }
}

#[test]
fn layers_at_the_peak_sum_to_its_components() {
    for model in [
        "bert-base-uncased",
        "distilbert-base-uncased",
        "roberta-base",
    ] {
        for runtime in [Runtime::Candle, Runtime::Torch] {
            for task in [Task::SequenceClassification, Task::MaskedLm] {
                for mode in [Mode::Train, Mode::Infer] {
                    let workload = Workload::new(runtime, task, mode, 4, 96);
                    let workload = Workload {
                        checkpointing: mode == Mode::Train,
                        ..workload
                    };
                    check_layers(&Figures::from(&answer(model, &workload)));
                }
            }
        }
    }
}

#[test]
fn equal_layers_in_a_row_are_one_entry() {
    let prediction = answer("bert-large-uncased", &workload(Runtime::Torch, 8));
    let of = |category| {
        prediction
            .layers
            .iter()
            .filter(move |l| l.category == category)
    };
    let parameters: Vec<String> = of(Category::Parameters)
        .map(|l| l.scope.to_string())
        .collect();
    assert_eq!(parameters, ["", "embeddings", "encoder.layer.0..=23"]);
    assert!(prediction.layers.len() < 30, "{}", prediction.layers.len());
}

#[test]
fn a_sweep_has_no_layers() {
    let config = ModelConfig::known("bert-base-uncased").unwrap();
    let workload = workload(Runtime::Torch, 8);
    let question = Question {
        effort: Effort::Verdict,
        ..Question::new("", &config, &workload)
    };
    assert!(predict(&question).unwrap().layers.is_empty());
}

#[test]
fn a_prediction_of_an_older_version_is_read_without_layers() {
    let mut value =
        serde_json::to_value(answer("bert-base-uncased", &workload(Runtime::Torch, 1))).unwrap();
    value.as_object_mut().unwrap().remove("layers");
    let prediction: Prediction = serde_json::from_value(value).unwrap();
    assert!(prediction.layers.is_empty());
}

#[test]
fn a_run_differs_from_itself_in_nothing() {
    for runtime in [Runtime::Candle, Runtime::Torch] {
        let prediction = answer("bert-base-uncased", &workload(runtime, 8));
        let difference = difference(&prediction, &prediction);
        assert!(difference.is_empty());
        assert!(!difference.layers.is_empty());
    }
}

#[test]
fn a_larger_batch_grows_the_activations_of_every_layer_alike() {
    let small = answer("bert-base-uncased", &workload(Runtime::Torch, 32));
    let large = answer("bert-base-uncased", &workload(Runtime::Torch, 33));
    let difference = difference(&small, &large);
    let grown = difference.main_component().unwrap();
    assert_eq!(grown.name, "activations");
    let layers = difference.main_layers(grown)[0];
    // The backward pass has freed some of the last.
    assert_eq!(layers.scope.to_string(), "encoder.layer.0..=10");
    // What the components differ in, the layers do.
    let layers = difference.layers.iter().map(|layer| layer.change.growth());
    let parts = difference
        .components
        .iter()
        .filter(|row| row.name != "rounding");
    assert_eq!(
        layers.sum::<i128>(),
        parts.map(|row| row.change.growth()).sum()
    );
}

#[test]
fn layers_that_one_model_lacks_come_from_nothing() {
    let base = answer(
        "google/bert_uncased_L-4_H-256_A-4",
        &workload(Runtime::Torch, 32),
    );
    let deep = answer(
        "google/bert_uncased_L-8_H-256_A-4",
        &workload(Runtime::Torch, 32),
    );
    let difference = difference(&base, &deep);
    let new = difference
        .layers
        .iter()
        .find(|layer| layer.category == Category::Parameters && layer.change.before == Bytes(0));
    assert_eq!(new.unwrap().scope.to_string(), "encoder.layer.4..=7");
}

#[test]
fn what_is_injected_is_found_in_the_activations_of_layers() {
    for runtime in [Runtime::Candle, Runtime::Torch] {
        for bytes in [1, 4097, 100 << 20] {
            let before = Figures::from(&answer("bert-base-uncased", &workload(runtime, 8)));
            let mut after = before.clone();
            inject(&mut after, Bytes(bytes));
            check_layers(&after);
            let difference = Difference::new(&before, &after);
            for row in &difference.peaks {
                assert_eq!(row.change.growth(), i128::from(bytes), "{}", row.name);
            }
            let grown = difference.main_component().unwrap();
            assert_eq!(
                (grown.name, grown.change.growth()),
                ("activations", i128::from(bytes))
            );
        }
    }
}
