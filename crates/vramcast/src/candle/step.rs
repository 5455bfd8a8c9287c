//! The loop that a probe runs and a shadow imitates.
//!
//! It is the loop of candle's own examples: forward, `backward`, `step`, with the loss, and through
//! it the graph, alive until the step is done.

use super::api::Candle;
use super::vocabulary::Vocabulary;
use crate::config::ModelConfig;
use crate::models::{self, Inputs, Model};
use crate::timeline::{Category, Phase};
use crate::workload::{Mode, Optimizer, Task, Workload};

/// What a run can say of itself, besides its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Elements of all parameters.
    pub n_params: u64,
    /// Parameter tensors.
    pub n_tensors: u64,
    /// Elements of the parameters that received a gradient in the last step; 0 for inference.
    pub n_params_with_gradient: u64,
    /// Parameter tensors that received one.
    pub n_tensors_with_gradient: u64,
}

/// Builds the model and runs `steps` steps of the workload.
///
/// # Errors
/// What `candle` returns.
pub fn run<C: Candle>(
    candle: &C,
    config: &ModelConfig,
    workload: &Workload,
    steps: u32,
) -> Result<Outcome, C::Error> {
    candle.begin(Phase::Load)?;
    let vocabulary = Vocabulary::new(candle, workload.mode);
    let model = models::build(&vocabulary, config, workload.task)?;
    let parameters: Vec<C::Tensor> = vocabulary
        .parameters()
        .into_iter()
        .map(|(_, tensor)| tensor)
        .collect();
    let elements = |tensor: &C::Tensor| {
        candle
            .dims(tensor)
            .iter()
            .fold(1u64, |product, &d| product.saturating_mul(d))
    };
    let mut outcome = Outcome {
        n_params: parameters.iter().map(elements).fold(0, u64::saturating_add),
        n_tensors: parameters.len() as u64,
        n_params_with_gradient: 0,
        n_tensors_with_gradient: 0,
    };
    match workload.mode {
        Mode::Infer => {
            for _ in 0..steps {
                candle.begin(Phase::Forward)?;
                let inputs = inputs(candle, config, workload)?;
                let output = forward(&vocabulary, &model, &inputs, workload)?;
                drop((output, inputs));
                candle.synchronize()?;
            }
            candle.end();
        }
        Mode::Train => {
            let mut optimizer = match workload.optimizer {
                // candle has one of each; a question for another is refused before it comes here.
                Optimizer::Adamw
                | Optimizer::AdamwSingle
                | Optimizer::AdamwFused
                | Optimizer::Adafactor => candle.adamw(&parameters)?,
                Optimizer::Sgd | Optimizer::SgdMomentum => candle.sgd(&parameters)?,
            };
            for _ in 0..steps {
                candle.begin(Phase::Forward)?;
                let inputs = inputs(candle, config, workload)?;
                let loss = forward(&vocabulary, &model, &inputs, workload)?;
                candle.begin(Phase::Backward)?;
                let grads = candle.backward(&loss)?;
                candle.begin(Phase::Step)?;
                let reached = parameters.iter().filter(|p| candle.has_gradient(&grads, p));
                outcome.n_tensors_with_gradient = reached.clone().count() as u64;
                outcome.n_params_with_gradient = reached.map(elements).fold(0, u64::saturating_add);
                candle.step(&mut optimizer, &grads)?;
                drop(grads);
                drop(loss);
                drop(inputs);
                candle.synchronize()?;
            }
            candle.end();
        }
    }
    Ok(outcome)
}

fn forward<C: Candle>(
    vocabulary: &Vocabulary<'_, C>,
    model: &Model<C::Tensor>,
    inputs: &Inputs<C::Tensor>,
    workload: &Workload,
) -> Result<C::Tensor, C::Error> {
    models::forward(vocabulary, model, inputs, workload.seq, workload.mode)
}

/// A batch of made-up tokens, spread over the vocabulary so that gathers are not all alike.
fn inputs<C: Candle>(
    candle: &C,
    config: &ModelConfig,
    workload: &Workload,
) -> Result<Inputs<C::Tensor>, C::Error> {
    let Workload { batch, seq, .. } = *workload;
    let spread =
        |below: u64| move |i: u64| (i.wrapping_mul(2_654_435_761) >> 7).rem_euclid(below) as u32;
    candle.with_category(Category::Inputs, || {
        let input_ids = candle.ids(&[batch, seq], spread(config.vocab_size()))?;
        let token_type_ids = (config.has_token_types())
            .then(|| candle.ids(&[batch, seq], |_| 0))
            .transpose()?;
        let attention_mask = candle.ids(&[batch, seq], |_| 1)?;
        let labels = match (workload.mode, workload.task) {
            (Mode::Infer, _) | (Mode::Train, Task::Base) => None,
            (Mode::Train, Task::SequenceClassification) => {
                Some(candle.ids(&[batch], spread(config.num_labels()))?)
            }
            (Mode::Train, Task::MaskedLm) => {
                Some(candle.ids(&[batch * seq], spread(config.vocab_size()))?)
            }
        };
        Ok(Inputs {
            input_ids,
            token_type_ids,
            attention_mask,
            labels,
        })
    })
}
