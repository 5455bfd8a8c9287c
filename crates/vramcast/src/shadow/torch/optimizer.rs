//! What torch's optimizers keep and allocate in a step (as traced).

use super::adafactor;
use super::tensor::{Device, Tensor};
use crate::dtype::DType;
use crate::timeline::Category;
use crate::workload::Optimizer;

/// An optimizer and its state, which the first step makes.
pub(super) struct State {
    kind: Optimizer,
    /// Of each parameter with a gradient, in the order of the parameters.
    moments: Option<Vec<Vec<Tensor>>>,
}

impl State {
    pub(super) fn new(kind: Optimizer) -> Self {
        Self {
            kind,
            moments: None,
        }
    }

    /// `step` over parameters, all of which have gradients.
    pub(super) fn step(&mut self, device: &Device, parameters: &[Tensor]) {
        let like = |p: &Tensor, op| device.tensor(p.dims(), p.dtype(), op);
        let kind = self.kind;
        self.moments.get_or_insert_with(|| {
            device.0.tape.with_category(Category::Optimizer, || {
                let moments = |p: &Tensor| match kind {
                    Optimizer::Sgd => vec![],
                    Optimizer::Adafactor => adafactor::moments(device, p),
                    Optimizer::SgdMomentum => vec![like(p, "clone")],
                    Optimizer::Adamw | Optimizer::AdamwSingle => {
                        vec![like(p, "zeros_like"), like(p, "zeros_like")]
                    }
                    Optimizer::AdamwFused => {
                        let step = device.tensor(&[], DType::F32, "zeros");
                        vec![step, like(p, "zeros_like"), like(p, "zeros_like")]
                    }
                };
                parameters.iter().map(moments).collect()
            })
        });
        match kind {
            Optimizer::Sgd | Optimizer::SgdMomentum | Optimizer::AdamwFused => {}
            Optimizer::Adafactor => adafactor::step(device, parameters),
            Optimizer::Adamw => {
                let mut roots: Vec<Tensor> = parameters
                    .iter()
                    .map(|p| like(p, "_foreach_sqrt"))
                    .collect();
                // A list gives up its last entry first.
                while let Some(root) = roots.pop() {
                    drop(root);
                }
            }
            Optimizer::AdamwSingle => {
                let mut denominator = None;
                for p in parameters {
                    let root = like(p, "sqrt");
                    let next = like(p, "div");
                    drop(root);
                    drop(denominator.replace(next));
                }
            }
        }
    }
}
