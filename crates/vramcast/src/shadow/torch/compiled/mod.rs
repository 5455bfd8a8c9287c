//! `torch.compile`: a model's forward pass and its gradients as two graphs, each of which runs the
//! code that Inductor generates for it.
//!
//! `forward` and `backward` have the kernels, which depend on what Inductor fuses; `split` the parts
//! of its sums; `order` and `plan` what follows from them by Inductor's own rules: the order of the
//! kernels, and which buffers share memory.

mod backward;
mod forward;
mod graph;
mod order;
mod plan;
mod shape;
mod split;

use super::autograd::Input;
use super::backward::{self as gradients, Kind};
use super::layout::Layout;
use super::profile::Kernel;
use super::tensor::{Device, Tensor};
use crate::config::bert::Config;
use crate::dtype::DType;
use crate::workload::Workload;
use backward::Backward;
use forward::Forward;
use graph::{Id, Work};
use plan::{Line, Plan};
use shape::Shape;
use std::rc::Rc;

/// The generated code of a classifier's training.
#[derive(Debug)]
pub(super) struct Program {
    shape: Shape,
    forward: Plan,
    loss: Id,
    logits: Id,
    backward: Plan,
    /// What the forward graph saves, and what the backward graph calls it.
    saved: Vec<(Id, Id)>,
    /// In the order of the parameters.
    gradients: Vec<Id>,
}

impl Program {
    /// Compiles a BERT classifier whose products are of `dtype`.
    pub(super) fn new(
        config: &Config,
        workload: &Workload,
        dtype: DType,
        kernel: Kernel,
        device: &Device,
    ) -> Self {
        let shape = Shape::new(config, workload, dtype, kernel, device.0.profile.card);
        let forward = Forward::new(shape);
        let backward = Backward::new(shape);
        let saved = backward.given.iter().map(|(name, given)| {
            let of_forward = forward.saved.iter().find(|(saved, _)| saved == name);
            let Some((_, id)) = of_forward else {
                unreachable!("the forward graph saves no {name}")
            };
            (*id, *given)
        });
        Self {
            shape,
            loss: forward.loss,
            logits: forward.logits,
            saved: saved.collect(),
            gradients: backward.gradients,
            forward: Plan::new(forward.graph),
            backward: Plan::new(backward.graph),
        }
    }

    /// The loss, which knows the way back to the parameters. The logits die with the outputs.
    pub(super) fn forward(self: &Rc<Self>, device: &Device, parameters: &[Tensor]) -> Tensor {
        let mut run = Run::new(device, &self.forward, self.shape);
        run.all();
        let loss = run.take(self.loss, &[]);
        let saved = self.saved.iter().filter_map(|&(id, _)| run.made[id].clone());
        let saved = saved.collect();
        drop(run);
        let inputs: Vec<&Tensor> = parameters.iter().collect();
        device.record(loss, Kind::Compiled(self.clone()), &inputs, saved)
    }

    /// The gradients of the inputs, which are the parameters, from what the forward graph saved.
    pub(super) fn backward(
        &self,
        device: &Device,
        saved: Vec<Tensor>,
        inputs: &[Input],
    ) -> Vec<Option<Tensor>> {
        // Nobody differentiated the logits.
        let logits = &self.forward.graph.buffers[self.logits];
        let elements = logits.bytes * 8 / logits.dtype.bits();
        let of_logits = device.tensor(&[elements], logits.dtype, "zeros");
        let mut run = Run::new(device, &self.backward, self.shape);
        for (tensor, (_, id)) in saved.into_iter().zip(&self.saved) {
            run.made[*id] = Some(tensor);
        }
        run.all();
        let pairs = self.gradients.iter().zip(inputs);
        let gradients = pairs.map(|(&id, input)| Some(run.take(id, &input.dims)));
        let gradients = gradients.collect();
        drop(of_logits);
        gradients
    }
}

/// A graph while it runs.
struct Run<'a> {
    device: &'a Device,
    plan: &'a Plan,
    shape: Shape,
    /// By the buffers of the graph.
    made: Vec<Option<Tensor>>,
    /// What the tuples hold.
    held: Vec<Vec<Option<Tensor>>>,
}

impl<'a> Run<'a> {
    fn new(device: &'a Device, plan: &'a Plan, shape: Shape) -> Self {
        let count = plan.graph.buffers.len();
        Self {
            device,
            plan,
            shape,
            made: vec![None; count],
            held: vec![vec![]; count],
        }
    }

    fn take(&mut self, id: Id, dims: &[u64]) -> Tensor {
        let Some(tensor) = self.made[id].take() else {
            unreachable!("a graph returns what it made")
        };
        tensor.viewed(Layout::contiguous(dims))
    }

    fn all(&mut self) {
        for &line in &self.plan.lines {
            match line {
                Line::Allocate(id) => {
                    self.device.0.tape.begin_operation();
                    let buffer = &self.plan.graph.buffers[id];
                    let elements = buffer.bytes * 8 / buffer.dtype.bits();
                    let tensor = self.device.tensor(&[elements], buffer.dtype, "compiled");
                    self.made[id] = Some(tensor);
                }
                Line::Reuse { from, to } => self.made[to] = self.made[from].take(),
                Line::Run(number) => self.run(number),
                Line::Free(id) => {
                    drop(self.made[id].take());
                    self.held[id].clear();
                }
            }
        }
    }

    fn run(&mut self, number: usize) {
        let kernel = &self.plan.graph.kernels[number];
        match kernel.work {
            Work::Fused => {}
            Work::Product { with_bias } => self.device.cublas(with_bias),
            Work::Attention => self.held[kernel.writes[0]] = self.attention(),
            Work::AttentionBackward => {
                self.held[kernel.writes[0]] = self.attention_backward();
            }
            Work::Part(i) => {
                self.made[kernel.writes[0]] = self.held[kernel.reads[0]][i].clone();
            }
        }
    }

    /// The output, the sums, and the state of the dropout, which the memory-efficient kernel keeps
    /// on the host.
    fn attention(&self) -> Vec<Option<Tensor>> {
        let layout = Layout::contiguous(&self.shape.queries());
        let query = self.device.ghost(layout, self.shape.dtype);
        match self.shape.kernel {
            Kernel::Efficient => {
                let (out, _, mut rest) = self.device.efficient_attention(&query);
                let on_host = || Some(self.device.ghost(Layout::contiguous(&[]), DType::I64));
                vec![Some(out), rest.swap_remove(0), on_host(), on_host()]
            }
            Kernel::Cudnn | Kernel::Flash => {
                let (out, _, rest) = self.device.cudnn_attention(&query);
                let [sums, _, offset, seed] = &rest[..] else {
                    unreachable!("cuDNN gives four results")
                };
                vec![Some(out), sums.clone(), seed.clone(), offset.clone()]
            }
        }
    }

    fn attention_backward(&self) -> Vec<Option<Tensor>> {
        let (queries, dtype) = (self.shape.queries(), self.shape.dtype);
        match self.shape.kernel {
            Kernel::Efficient => gradients::efficient_attention(self.device, queries, dtype),
            Kernel::Cudnn | Kernel::Flash => {
                gradients::cudnn_attention(self.device, queries, dtype)
            }
        }
    }
}
