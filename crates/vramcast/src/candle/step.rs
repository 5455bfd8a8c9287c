//! The loop that a probe runs and a shadow imitates.
//!
//! Without levers it is the loop of candle's own examples: forward, `backward`, `step`, with the
//! loss, and through it the graph, alive until the step is done.

use super::api::Candle;
use super::gradients;
use super::loss_scale::LossScale;
use super::vocabulary::Vocabulary;
use crate::config::ModelConfig;
use crate::models::{self, Inputs, Model};
use crate::timeline::{Category, Phase};
use crate::workload::{Mode, Optimizer, Precision, Task, Workload};

/// What a run can say of itself, besides its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Elements of all parameters.
    pub n_params: u64,
    /// Parameter tensors.
    pub n_tensors: u64,
    /// Elements of the parameters that received a gradient in the last step; 0 for inference.
    pub n_params_with_gradient: u64,
    /// Parameter tensors that received one.
    pub n_tensors_with_gradient: u64,
    /// Steps of the optimizer that were left out, since scaled gradients were not finite.
    pub steps_left_out: u64,
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
    let config = &config.with_dropout(workload.dropout);
    candle.begin(Phase::Load)?;
    let vocabulary = Vocabulary::new(candle, workload);
    let model = models::build(&vocabulary, config, workload.task)?;
    let run = Run {
        candle,
        config,
        workload,
        parameters: vocabulary.parameters().into_iter().map(|p| p.1).collect(),
        vocabulary,
        model,
    };
    let mut outcome = Outcome {
        n_params: run.elements(run.parameters.iter()),
        n_tensors: run.parameters.len() as u64,
        ..Outcome::default()
    };
    match workload.mode {
        Mode::Infer => run.infer(steps)?,
        Mode::Train => run.train(steps, &mut outcome)?,
    }
    Ok(outcome)
}

struct Run<'a, C: Candle> {
    candle: &'a C,
    config: &'a ModelConfig,
    workload: &'a Workload,
    parameters: Vec<C::Tensor>,
    vocabulary: Vocabulary<'a, C>,
    model: Model<C::Tensor>,
}

/// What is alive after a backward pass, in the order in which it dies.
struct Pass<C: Candle> {
    grads: C::Grads,
    loss: C::Tensor,
    inputs: Inputs<C::Tensor>,
}

impl<C: Candle> Run<'_, C> {
    fn elements<'t>(&self, tensors: impl Iterator<Item = &'t C::Tensor>) -> u64 {
        let product = |dims: Vec<u64>| dims.into_iter().fold(1, u64::saturating_mul);
        tensors
            .map(|tensor| product(self.candle.dims(tensor)))
            .fold(0, u64::saturating_add)
    }

    fn infer(&self, passes: u32) -> Result<(), C::Error> {
        for _ in 0..passes {
            self.candle.begin(Phase::Forward)?;
            let inputs = inputs(self.candle, self.config, self.workload)?;
            let output = self.forward(&inputs)?;
            drop((output, inputs));
            self.candle.synchronize()?;
        }
        self.candle.end();
        Ok(())
    }

    /// Notes which parameters had a gradient in the last step.
    fn train(&self, steps: u32, outcome: &mut Outcome) -> Result<(), C::Error> {
        let Self {
            candle,
            workload,
            parameters,
            ..
        } = self;
        let mut optimizer = match workload.optimizer {
            // candle has one of each; a question for another is refused before it comes here.
            Optimizer::Adamw
            | Optimizer::AdamwSingle
            | Optimizer::AdamwFused
            | Optimizer::Adafactor => candle.adamw(parameters)?,
            Optimizer::Sgd | Optimizer::SgdMomentum => candle.sgd(parameters)?,
        };
        let mut scale = (workload.precision == Precision::AmpFp16).then(LossScale::default);
        for _ in 0..steps {
            let mut earlier: Option<C::Grads> = None;
            for _ in 1..workload.accumulation {
                let Pass {
                    grads,
                    loss,
                    inputs,
                } = self.pass(scale.as_ref())?;
                drop((loss, inputs));
                earlier = Some(self.gather(earlier, grads)?);
            }
            let Pass {
                mut grads,
                mut loss,
                inputs,
            } = self.pass(scale.as_ref())?;
            if earlier.is_some() {
                grads = self.gather(earlier, grads)?;
            }
            if workload.drop_graph {
                grads = self.gather(None, grads)?;
                loss = candle.detach(&loss);
            }
            candle.begin(Phase::Step)?;
            let reached = || {
                let has = |parameter: &&C::Tensor| candle.has_gradient(&grads, parameter);
                parameters.iter().filter(has)
            };
            outcome.n_params_with_gradient = self.elements(reached());
            outcome.n_tensors_with_gradient = reached().count() as u64;
            let finite = match &mut scale {
                Some(scale) => scale.unscale(*candle, parameters, &mut grads)?,
                None => true,
            };
            if finite {
                candle.step(&mut optimizer, &grads)?;
            } else {
                outcome.steps_left_out += 1;
            }
            drop(grads);
            drop(loss);
            drop(inputs);
            candle.synchronize()?;
        }
        candle.end();
        Ok(())
    }

    fn forward(&self, inputs: &Inputs<C::Tensor>) -> Result<C::Tensor, C::Error> {
        let Workload { seq, mode, .. } = *self.workload;
        models::forward(&self.vocabulary, &self.model, inputs, seq, mode)
    }

    /// A forward and a backward pass. The loss is a mean over all passes of a step.
    fn pass(&self, scale: Option<&LossScale>) -> Result<Pass<C>, C::Error> {
        let candle = self.candle;
        candle.begin(Phase::Forward)?;
        let inputs = inputs(candle, self.config, self.workload)?;
        let mut loss = self.forward(&inputs)?;
        let passes = self.workload.accumulation;
        if passes > 1 {
            loss = candle.affine(&loss, 1.0 / f64::from(passes), 0.0)?;
        }
        if let Some(scale) = scale {
            loss = scale.scaled(candle, &loss)?;
        }
        candle.begin(Phase::Backward)?;
        let (grads, loss) = self.vocabulary.backward(loss, &self.parameters)?;
        Ok(Pass {
            grads,
            loss,
            inputs,
        })
    }

    /// The gradients of a step so far.
    fn gather(&self, earlier: Option<C::Grads>, new: C::Grads) -> Result<C::Grads, C::Error> {
        let mut all = earlier.unwrap_or_else(|| self.candle.no_gradients());
        gradients::accumulate(self.candle, &self.parameters, &mut all, new)?;
        Ok(all)
    }
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
