//! Hugging Face's `Trainer`: what its loop and accelerate, which it calls, add to the passes
//! (transformers, trainer.py; as traced). It clips gradients, as by default; that it logs
//! every 500th step is not followed.

use super::clipping::clip_grad_norm;
use super::optimizer;
use super::scaler;
use super::tensor::Tensor;
use super::{Made, Shadow};
use crate::dtype::DType;
use crate::models::{Inputs, Model};
use crate::timeline::Phase;
use crate::workload::{Loop, Mode, Optimizer};
use std::convert::Infallible;

impl Shadow {
    /// `steps` steps, each on batches that are moved to the device for it.
    pub(super) fn train_by_trainer(
        &self,
        model: &Model<Tensor>,
        steps: u32,
    ) -> Result<(), Infallible> {
        let (device, tape) = (&self.device, &self.device.0.tape);
        self.add_adapters();
        let parameters = &self.trained();
        let kind = self.workload.optimizer;
        // Weights decay, biases and norms, which are the vectors, do not: two groups.
        let mut groups = [true, false].map(|decays| (decays, optimizer::State::new(kind)));
        let mut scaler = self.scaler();
        // What the Trainer logs; it lives as long as the loop.
        let _sum_of_losses = device.tensor(&[], DType::F32, "loss");
        let mut batches = vec![];
        let (mut items, mut inputs, mut loss, mut norm) = (None, None, None, None);
        for _ in 0..steps {
            tape.begin(Phase::Forward);
            let next = (0..self.workload.accumulation).map(|_| self.inputs());
            let next: Vec<_> = next.collect();
            let counted = self.count_items(&next);
            for old in std::mem::replace(&mut batches, next).into_iter().rev() {
                drop(old);
            }
            drop(std::mem::replace(&mut items, counted));
            let skipped = batches.len() - self.passes();
            for batch in &batches[skipped..] {
                drop(inputs.replace(batch.clone()));
                let next = self.compute_loss(model, batch)?;
                // Divided by the passes of a step, even if there is one.
                let share = device.scale(&next);
                let scaled = scaler::scaled(device, &mut scaler, &share);
                tape.begin(Phase::Backward);
                device.backward(&scaled);
                drop((scaled, share));
                drop(loss.replace(next.clone()));
                self.look_for_nan(&next);
            }
            tape.begin(Phase::Step);
            let reached = self.with_gradients(parameters);
            drop(norm.take());
            let found = scaler.as_ref().map(|scaler| scaler.unscale(device));
            norm = Some(clip_grad_norm(device, &reached));
            let lent = scaler.as_ref().filter(|_| kind == Optimizer::AdamwFused);
            let lent = lent.map(|scaler| scaler.lend(device, true));
            for (decays, optimizer) in &mut groups {
                let of_group = |p: &&Tensor| (p.dims().len() > 1) == *decays;
                let group: Vec<Tensor> = reached.iter().filter(of_group).cloned().collect();
                optimizer.step(device, &group);
            }
            drop(lent);
            drop(found);
            self.zero_grad(parameters);
        }
        tape.end();
        Ok(())
    }

    /// How many labels the batches of a step have (`_get_num_items_in_batch`).
    fn count_items(&self, batches: &[Inputs<Tensor>]) -> Option<Tensor> {
        let count = || self.device.tensor(&[], DType::I64, "count");
        let mut sum = None;
        for labels in batches.iter().filter_map(|batch| batch.labels.as_ref()) {
            let kept = self.device.tensor(labels.dims(), DType::Bool, "ne");
            let of_batch = count();
            drop(self.device.tensor(labels.dims(), DType::I64, "to"));
            drop(kept);
            drop(sum.replace(count()));
            drop(of_batch);
        }
        sum
    }

    /// The loss, times the number of processes in place. Accelerate ends autocast with the model's
    /// forward pass, and then casts what the model returned to single precision, of which only the
    /// loss is used (accelerate, utils/operations.py, `ConvertOutputsToFp32`).
    fn compute_loss(&self, model: &Model<Tensor>, inputs: &Inputs<Tensor>) -> Made {
        let loss = self.forward(model, inputs)?;
        self.device.end_autocast();
        if let Some(logits) = self.returned.take() {
            let cast = self.device.to(&logits, DType::F32);
            drop(logits);
            drop(cast);
        }
        Ok(self.device.scale_in_place(&loss))
    }

    /// Whether accelerate casts what the model returns.
    pub(super) fn casts_outputs(&self) -> bool {
        let workload = &*self.workload;
        workload.training_loop == Loop::Trainer
            && workload.mode == Mode::Train
            && workload.precision.autocast().is_some()
    }

    /// `isnan` and `isinf` of a loss, read by the host.
    fn look_for_nan(&self, loss: &Tensor) {
        let truth = || self.device.tensor(&[], DType::Bool, "isnan");
        drop(truth());
        let magnitude = self.device.tensor(&[], loss.dtype(), "abs");
        let infinite = truth();
        drop((magnitude, infinite));
    }
}
