//! `torch.compile`: a model's forward pass and its gradients as two graphs, each of which runs the
//! code that Inductor generates for it.
//!
//! `forward` and `backward` have the kernels, which depend on what Inductor fuses; `split` the parts
//! of its sums; `order` and `plan` what follows from them by Inductor's own rules: the order of the
//! kernels, and which buffers share memory.

mod backward;
mod forward;
mod graph;
mod inference;
mod order;
mod plan;
mod recompute;
mod shape;
mod split;

use super::autograd::Input;
use super::backward::{self as gradients, Kind};
use super::layout::Layout;
use super::profile::Kernel;
use super::tensor::{Device, Storage, Tensor};
use crate::dtype::DType;
use crate::workload::Mode;
use backward::Backward;
use forward::{Forward, Saved};
use graph::{Id, Tuned, Work};
use plan::{Line, Plan};
pub(super) use shape::Shape;
use std::cell::Cell;
use std::rc::Rc;

/// Bytes of the buffer that is overwritten between two runs of a benchmark: an H200's L2 cache
/// (torch/_inductor/runtime/benchmarking.py; as traced).
const FLUSHED: u64 = 60 << 20;

/// The generated code of a classifier.
#[derive(Debug)]
pub(super) struct Program {
    shape: Shape,
    forward: Plan,
    /// The loss, or the logits of inference.
    result: Id,
    training: Option<Training>,
    /// Passes that ran.
    passes: Cell<u32>,
}

/// What training needs beside the forward pass.
#[derive(Debug)]
struct Training {
    backward: Plan,
    /// What the forward graph saves, and what the backward graph calls it.
    saved: Vec<(Id, Id)>,
    /// In the order of the parameters.
    gradients: Vec<Id>,
}

impl Program {
    /// Compiles a BERT classifier.
    pub(super) fn new(shape: Shape, mode: Mode) -> Self {
        let (graph, result, training) = match mode {
            Mode::Infer => {
                let (graph, logits) = inference::graph(shape);
                (graph, logits, None)
            }
            Mode::Train => {
                let Forward { graph, loss, saved } = Forward::new(shape);
                (graph, loss, Some(Training::new(shape, &saved)))
            }
        };
        Self {
            shape,
            forward: Plan::new(graph),
            result,
            training,
            passes: Cell::new(0),
        }
    }

    /// The loss, which knows the way back to the parameters, or the logits. In training, the logits
    /// die with the outputs.
    pub(super) fn forward(self: &Rc<Self>, device: &Device, parameters: &[Tensor]) -> Tensor {
        if self.passes.get() == 0 && self.shape.tries_padding() {
            device.cublas(true);
            drop(device.bytes(FLUSHED, "benchmark"));
        }
        let mut run = Run::new(device, &self.forward, self);
        run.all();
        let result = run.take(self.result);
        let Some(training) = &self.training else {
            self.passes.set(self.passes.get() + 1);
            return result;
        };
        let saved = training.saved.iter();
        let saved = saved.filter_map(|&(id, _)| run.made[id].clone()).collect();
        drop(run);
        let inputs: Vec<&Tensor> = parameters.iter().collect();
        let loss = result.viewed(Layout::contiguous(&[]));
        device.record(loss, Kind::Compiled(self.clone()), &inputs, saved)
    }

    /// The gradients of the inputs, which are the parameters, from what the forward graph saved.
    pub(super) fn backward(
        &self,
        device: &Device,
        saved: Vec<Tensor>,
        inputs: &[Input],
    ) -> Vec<Option<Tensor>> {
        let Some(training) = &self.training else {
            unreachable!("inference records nothing")
        };
        // Nobody differentiated the logits.
        let logits = self.shape.batch * self.shape.classes;
        let of_logits = device.tensor(&[logits], self.shape.dtype, "zeros");
        let mut run = Run::new(device, &training.backward, self);
        for (tensor, (_, id)) in saved.into_iter().zip(&training.saved) {
            run.made[*id] = Some(tensor);
        }
        run.all();
        let pairs = training.gradients.iter().zip(inputs);
        let gradients = pairs.map(|(&id, input)| {
            let gradient = run.take(id);
            Some(gradient.viewed(Layout::contiguous(&input.dims)))
        });
        let gradients = gradients.collect();
        drop(of_logits);
        self.passes.set(self.passes.get() + 1);
        gradients
    }
}

impl Training {
    fn new(shape: Shape, saved: &[Saved]) -> Self {
        let backward = Backward::new(shape);
        let pairs = backward.given.iter().map(|(name, given)| {
            let Some((_, id)) = saved.iter().find(|(saved, _)| saved == name) else {
                unreachable!("the forward graph saves no {name}")
            };
            (*id, *given)
        });
        Self {
            saved: pairs.collect(),
            gradients: backward.gradients,
            backward: Plan::new(backward.graph),
        }
    }
}

/// A graph while it runs.
struct Run<'a> {
    device: &'a Device,
    plan: &'a Plan,
    shape: Shape,
    /// How often a kernel must be tuned to be tuned in this pass.
    tunes: Option<Tuned>,
    /// What the next kernel writes over.
    replaced: Vec<Id>,
    /// By the buffers of the graph.
    made: Vec<Option<Tensor>>,
    /// What the tuples hold.
    held: Vec<Vec<Option<Tensor>>>,
}

impl<'a> Run<'a> {
    fn new(device: &'a Device, plan: &'a Plan, program: &Program) -> Self {
        let count = plan.graph.buffers.len();
        Self {
            device,
            plan,
            shape: program.shape,
            tunes: match program.passes.get() {
                0 => Some(Tuned::Once),
                1 => Some(Tuned::Twice),
                _ => None,
            },
            replaced: vec![],
            made: vec![None; count],
            held: vec![vec![]; count],
        }
    }

    fn take(&mut self, id: Id) -> Tensor {
        let Some(tensor) = self.made[id].take() else {
            unreachable!("a graph returns what it made")
        };
        tensor
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
                Line::Reuse { from, to } => {
                    self.made[to] = self.made[from].take();
                    self.replaced.push(from);
                }
                Line::Run(number) => self.run(number),
                Line::Free(id) => {
                    drop(self.made[id].take());
                    // A tuple gives up its last entry first.
                    while let Some(result) = self.held[id].pop() {
                        drop(result);
                    }
                }
            }
        }
    }

    fn run(&mut self, number: usize) {
        let kernel = &self.plan.graph.kernels[number];
        let mut replaced = std::mem::take(&mut self.replaced);
        if self.tunes.is_some_and(|least| kernel.tuned >= least) {
            replaced.retain(|id| kernel.reads.contains(id));
            replaced.extend(&kernel.rewritten);
            self.tune(&replaced);
        }
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

    /// Runs a kernel's configurations, each on copies of what it writes over.
    fn tune(&self, replaced: &[Id]) {
        let flushed = self.device.bytes(FLUSHED, "benchmark");
        let copies = replaced.iter().map(|&id| {
            let bytes = self.plan.graph.buffers[id].bytes;
            self.device.bytes(bytes, "benchmark")
        });
        let copies: Vec<Storage> = copies.collect();
        drop(copies);
        drop(flushed);
    }

    /// The output, the sums, and the state of the dropout, which the memory-efficient kernel keeps
    /// on the host.
    fn attention(&self) -> Vec<Option<Tensor>> {
        let layout = Layout::contiguous(&self.shape.queries());
        let query = self.device.ghost(layout, self.shape.dtype);
        match self.shape.kernel {
            Kernel::Efficient => {
                let (out, _, mut rest) = self.device.efficient_attention(&query);
                if !self.device.keeps() {
                    return vec![Some(out)];
                }
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
