//! The training loop that a script writes, and the parts that every loop has.

use super::autograd::Edge;
use super::optimizer;
use super::scaler::{self, Scaler};
use super::tensor::Tensor;
use super::{Made, Shadow};
use crate::models::{self, Model};
use crate::shadow::MOST_PASSES;
use crate::timeline::Phase;
use crate::workload::{Optimizer, Precision};
use std::convert::Infallible;

impl Shadow {
    /// `steps` steps on one batch, each of which clears the gradients first.
    pub(super) fn train(&self, model: &Model<Tensor>, steps: u32) -> Result<(), Infallible> {
        let (device, tape) = (&self.device, &self.device.0.tape);
        let inputs = self.inputs();
        self.add_adapters();
        let parameters = &self.trained();
        let mut optimizer = optimizer::State::new(self.workload.optimizer);
        let mut scaler = self.scaler();
        let mut loss = None;
        for _ in 0..steps {
            self.zero_grad(parameters);
            for _ in 0..self.passes() {
                let next = self.forward(model, &inputs)?;
                drop(loss.replace(next.clone()));
                device.end_autocast();
                let scaled = scaler::scaled(device, &mut scaler, &next);
                drop(next);
                tape.begin(Phase::Backward);
                device.backward(&scaled);
            }
            tape.begin(Phase::Step);
            let fused = self.workload.optimizer == Optimizer::AdamwFused;
            let found = scaler.as_ref().map(|scaler| match fused {
                true => scaler.check(device),
                false => scaler.unscale(device),
            });
            let lent = scaler.as_ref().filter(|_| fused);
            let lent = lent.map(|scaler| scaler.lend(device, false));
            optimizer.step(device, &self.with_gradients(parameters));
            drop(lent);
            drop(found);
        }
        // What lives to the end of a run is not given back in it.
        tape.end();
        Ok(())
    }

    /// How many passes of a step are followed.
    pub(super) fn passes(&self) -> usize {
        self.workload.accumulation.min(MOST_PASSES) as usize
    }

    /// A forward pass, under autocast where the workload asks for it.
    pub(super) fn forward(&self, model: &Model<Tensor>, inputs: &models::Inputs<Tensor>) -> Made {
        let workload = &*self.workload;
        self.device.0.tape.begin(Phase::Forward);
        if let Some(program) = &self.program {
            return Ok(program.forward(&self.device, &self.trained()));
        }
        self.device.0.autocast.set(workload.precision.autocast());
        models::forward(self, model, inputs, workload.seq, workload.mode)
    }

    /// Of half precision only: bfloat16 reaches as far as single precision.
    pub(super) fn scaler(&self) -> Option<Scaler> {
        (self.workload.precision == Precision::AmpFp16).then(Scaler::default)
    }

    /// `zero_grad(set_to_none=True)`.
    pub(super) fn zero_grad(&self, parameters: &[Tensor]) {
        for parameter in parameters {
            if let Some(Edge::Leaf(number)) = parameter.edge() {
                let gradients = &mut self.device.0.graph.borrow_mut().gradients;
                drop(gradients[number as usize].take());
            }
        }
    }

    /// The parameters that a backward pass reached.
    pub(super) fn with_gradients(&self, parameters: &[Tensor]) -> Vec<Tensor> {
        let graph = self.device.0.graph.borrow();
        let reached = |parameter: &&Tensor| match parameter.edge() {
            Some(Edge::Leaf(number)) => graph.gradients[number as usize].is_some(),
            _ => false,
        };
        parameters.iter().filter(reached).cloned().collect()
    }
}
