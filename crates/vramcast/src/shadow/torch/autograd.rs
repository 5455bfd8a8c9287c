//! The graph that the forward pass leaves, and the engine that runs it backwards
//! (torch/csrc/autograd/engine.cpp; as traced).
//!
//! Nodes lie in an arena, so their number is their sequence number and a deep model needs no deep
//! stack. Every node has one differentiable output, which is all that encoders need.

use super::backward;
use super::layout::Dims;
use super::tensor::{Device, Tensor};
use crate::dtype::DType;
use crate::timeline::ScopeId;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::rc::Rc;

/// Whom a gradient is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    /// A node of the graph, by its number.
    Node(u32),
    /// A parameter, by its number.
    Leaf(u32),
    /// Nobody: the tensor was computed again, and its graph is not run.
    Again,
}

/// What becomes of what operations save.
#[derive(Clone, Copy, Debug)]
pub(super) enum Saving {
    /// It is kept by the node.
    Keep,
    /// It is given up, to be computed again: the forward pass of a checkpointed layer.
    Pack(usize),
    /// It is put where it was given up: the second run of that layer.
    Refill(usize),
}

/// Runs a checkpointed layer once more from its input.
pub(super) type Again = Rc<dyn Fn(&Tensor)>;

/// A checkpointed layer (torch/utils/checkpoint.py, `_CheckpointFrame`; as traced).
struct Frame {
    /// Runs the layer once more, and what it starts from. The hooks of what it gave up hold both.
    again: Option<(Again, Tensor)>,
    /// Nodes with such hooks.
    holders: usize,
    /// How much it gave up.
    count: usize,
    /// What was computed again, taken out one by one.
    refilled: Vec<Option<Tensor>>,
}

/// Which of a frame's tensors a node saved.
struct Packed {
    frame: usize,
    from: usize,
    len: usize,
}

/// An input of a node: whom its gradient is for, and what it must look like.
pub(super) struct Input {
    pub(super) edge: Option<Edge>,
    pub(super) dims: Dims,
    pub(super) dtype: DType,
}

/// A recorded operation.
pub(super) struct Node {
    pub(super) kind: backward::Kind,
    /// In the order in which the node gives them back: by name, inputs before outputs.
    pub(super) saved: Vec<Tensor>,
    packed: Option<Packed>,
    pub(super) inputs: Vec<Input>,
    scope: ScopeId,
}

/// The nodes of a forward pass, and the gradients of the parameters.
#[derive(Default)]
pub(super) struct Graph {
    nodes: Vec<Node>,
    frames: Vec<Frame>,
    pub(super) gradients: Vec<Option<Tensor>>,
}

impl Graph {
    fn push_frame(&mut self, frame: Frame) -> usize {
        self.frames.push(frame);
        self.frames.len() - 1
    }

    /// A new leaf.
    pub(super) fn leaf(&mut self) -> Edge {
        self.gradients.push(None);
        Edge::Leaf(self.gradients.len() as u32 - 1)
    }
}

impl Device {
    /// Whether what operations save outlives them.
    pub(super) fn keeps(&self) -> bool {
        self.0.records.get() && !matches!(self.0.saving.get(), Saving::Pack(_))
    }

    /// Records how `output` came to be, if anything that it came from needs a gradient. What is
    /// saved and not recorded dies here, in order.
    pub(super) fn record(
        &self,
        output: Tensor,
        kind: backward::Kind,
        inputs: &[&Tensor],
        saved: Vec<Tensor>,
    ) -> Tensor {
        let needed = inputs.iter().any(|input| input.edge().is_some());
        if !self.0.records.get() || !needed {
            for tensor in saved {
                drop(tensor);
            }
            return output;
        }
        let (mut kept, mut packed) = (vec![], None);
        match self.0.saving.get() {
            Saving::Keep => kept = saved,
            Saving::Pack(frame) => {
                let len = saved.len();
                for tensor in saved {
                    drop(tensor);
                }
                let of_layer = &mut self.0.graph.borrow_mut().frames[frame];
                packed = (len > 0).then_some(Packed {
                    frame,
                    from: of_layer.count,
                    len,
                });
                of_layer.count += len;
                of_layer.holders += usize::from(len > 0);
            }
            Saving::Refill(frame) => {
                let frame = &mut self.0.graph.borrow_mut().frames[frame];
                let saves = !saved.is_empty();
                frame.refilled.extend(saved.into_iter().map(Some));
                if saves && frame.refilled.len() == frame.count {
                    // An exception stops the run: its last result dies first.
                    return self.ghost(output.layout().clone(), output.dtype());
                }
                return output.with_edge(Some(Edge::Again));
            }
        }
        let inputs = inputs.iter().map(|input| Input {
            edge: input.edge(),
            dims: input.owned_dims(),
            dtype: input.dtype(),
        });
        let node = Node {
            kind,
            saved: kept,
            packed,
            inputs: inputs.collect(),
            scope: self.0.tape.scope(),
        };
        let nodes = &mut self.0.graph.borrow_mut().nodes;
        nodes.push(node);
        output.with_edge(Some(Edge::Node(nodes.len() as u32 - 1)))
    }

    /// `loss.backward()`: nodes run by descending sequence number as they become ready.
    pub(super) fn backward(&self, loss: &Tensor) {
        let seed = self.tensor(loss.dims(), loss.dtype(), "ones_like");
        let mut nodes = std::mem::take(&mut self.0.graph.borrow_mut().nodes);
        let Some(root @ Edge::Node(first)) = loss.edge() else {
            return;
        };
        let before = self.0.tape.scope();
        self.0.in_backward.set(true);
        let mut waiting = Waiting::new(&nodes, first, self.0.graph.borrow().gradients.len());
        let mut buffers: Vec<Option<Tensor>> = vec![None; nodes.len()];
        let mut leaf_buffers: Vec<Option<Tensor>> = vec![None; waiting.leaves.len()];
        let mut ready = BinaryHeap::new();
        buffers[first as usize] = Some(seed.clone());
        ready.push(Ready(root));
        while let Some(Ready(edge)) = ready.pop() {
            let number = match edge {
                Edge::Node(number) => number as usize,
                Edge::Leaf(number) => {
                    if let Some(gradient) = leaf_buffers[number as usize].take() {
                        self.accumulate_grad(number as usize, gradient);
                    }
                    continue;
                }
                Edge::Again => continue,
            };
            let node = &mut nodes[number];
            self.0.tape.set_scope(node.scope);
            let Some(gradient) = buffers[number].take() else {
                continue;
            };
            let mut unpacked = match &node.packed {
                Some(packed) => self.unpacked(packed),
                None => vec![],
            };
            let mut saved = std::mem::take(&mut node.saved);
            let outputs = backward::apply(self, node, &gradient, &mut saved);
            // C++ locals die in reverse.
            while let Some(local) = unpacked.pop() {
                drop(local);
            }
            let outputs: Vec<Option<Tensor>> = outputs
                .into_iter()
                .zip(&node.inputs)
                .map(|(output, input)| output.map(|output| self.validated(output, input)))
                .collect();
            drop(gradient);
            for saved in saved {
                drop(saved);
            }
            if let Some(packed) = &node.packed {
                self.let_go(packed.frame);
            }
            let edges: Vec<Option<Edge>> = node.inputs.iter().map(|input| input.edge).collect();
            for (edge, output) in edges.into_iter().zip(outputs) {
                let Some(edge) = edge else { continue };
                let buffer = match edge {
                    Edge::Node(n) => &mut buffers[n as usize],
                    Edge::Leaf(n) => &mut leaf_buffers[n as usize],
                    Edge::Again => continue,
                };
                if let Some(output) = output {
                    self.add_to(buffer, output);
                }
                if waiting.arrived(edge) {
                    ready.push(Ready(edge));
                }
            }
        }
        self.0.in_backward.set(false);
        self.0.tape.set_scope(before);
        self.0.graph.borrow_mut().frames.clear();
        drop(seed);
    }

    /// Runs a layer without keeping what it saves; `again` runs it once more.
    pub(super) fn checkpointed<E>(
        &self,
        hidden: &Tensor,
        again: Again,
        run: impl FnOnce() -> Result<Tensor, E>,
    ) -> Result<Tensor, E> {
        let frame = Frame {
            again: Some((again, hidden.clone())),
            holders: 0,
            count: 0,
            refilled: vec![],
        };
        let number = self.0.graph.borrow_mut().push_frame(frame);
        self.0.saving.set(Saving::Pack(number));
        let output = run();
        self.0.saving.set(Saving::Keep);
        output
    }

    /// A node's hooks die; with the last of a layer's, what its second run started from.
    fn let_go(&self, frame: usize) {
        let frame = &mut self.0.graph.borrow_mut().frames[frame];
        frame.holders -= 1;
        if frame.holders == 0
            && let Some((again, hidden)) = frame.again.take()
        {
            drop(hidden);
            drop(again);
        }
    }

    /// What a node of a checkpointed layer gave up. The first that is asked for has the layer run
    /// again; each is taken out, so that it dies with its node.
    fn unpacked(&self, packed: &Packed) -> Vec<Tensor> {
        let again = {
            let frame = &self.0.graph.borrow().frames[packed.frame];
            frame.again.clone().filter(|_| frame.refilled.is_empty())
        };
        if let Some((again, hidden)) = again {
            let hidden = hidden.viewed(hidden.layout().clone());
            let hidden = hidden.with_edge(Some(Edge::Again));
            self.0.saving.set(Saving::Refill(packed.frame));
            again(&hidden);
            self.0.saving.set(Saving::Keep);
        }
        let refilled = &mut self.0.graph.borrow_mut().frames[packed.frame].refilled;
        let range = packed.from..(packed.from + packed.len).min(refilled.len());
        refilled[range]
            .iter_mut()
            .filter_map(Option::take)
            .collect()
    }

    /// A gradient in the shape and type of what it is for (engine.cpp, `validate_outputs`).
    fn validated(&self, mut gradient: Tensor, input: &Input) -> Tensor {
        if gradient.dims() != &input.dims[..] {
            gradient = self.sum_to(&gradient, &input.dims);
        }
        if gradient.dtype() != input.dtype {
            gradient = self.strided(gradient.layout().preserved(), input.dtype, "to");
        }
        gradient
    }

    /// The first gradient moves in; a later one is added in place where nobody can tell.
    fn add_to(&self, buffer: &mut Option<Tensor>, newcomer: Tensor) {
        let Some(old) = buffer.take() else {
            *buffer = Some(newcomer);
            return;
        };
        if old.may_be_written() {
            *buffer = Some(old);
            drop(newcomer);
            return;
        }
        let sum = self.tensor(old.dims(), old.dtype(), "add");
        drop(old);
        drop(newcomer);
        *buffer = Some(sum);
    }

    /// Steals the first gradient if it can, and adds later ones in place
    /// (accumulate_grad.h, `accumulateGrad`).
    fn accumulate_grad(&self, number: usize, gradient: Tensor) {
        let has_one = self.0.graph.borrow().gradients[number].is_some();
        if has_one {
            drop(gradient);
            return;
        }
        let kept = if gradient.is_unshared() && gradient.is_contiguous() {
            gradient
        } else {
            self.tensor(gradient.dims(), gradient.dtype(), "clone")
        };
        self.0.graph.borrow_mut().gradients[number] = Some(kept);
    }
}

/// How many gradients each node and parameter still waits for.
struct Waiting {
    nodes: Vec<u32>,
    leaves: Vec<u32>,
}

impl Waiting {
    fn new(graph: &[Node], root: u32, leaves: usize) -> Self {
        let mut waiting = Self {
            nodes: vec![0; graph.len()],
            leaves: vec![0; leaves],
        };
        let mut seen = vec![false; graph.len()];
        let mut stack = vec![root];
        seen[root as usize] = true;
        while let Some(number) = stack.pop() {
            for edge in graph[number as usize].inputs.iter().filter_map(|i| i.edge) {
                if let Some(count) = waiting.of(edge) {
                    *count += 1;
                }
                if let Edge::Node(next) = edge
                    && !std::mem::replace(&mut seen[next as usize], true)
                {
                    stack.push(next);
                }
            }
        }
        waiting
    }

    fn of(&mut self, edge: Edge) -> Option<&mut u32> {
        match edge {
            Edge::Node(number) => self.nodes.get_mut(number as usize),
            Edge::Leaf(number) => self.leaves.get_mut(number as usize),
            Edge::Again => None,
        }
    }

    /// One more arrived; whether it was the last.
    fn arrived(&mut self, edge: Edge) -> bool {
        self.of(edge).is_some_and(|left| {
            *left -= 1;
            *left == 0
        })
    }
}

/// Parameters first, then nodes by descending number. The order of parameters among themselves is
/// seen only where gradients accumulate over several passes.
struct Ready(Edge);

impl Ready {
    fn priority(&self) -> u64 {
        match self.0 {
            Edge::Node(number) => u64::from(number),
            Edge::Leaf(_) | Edge::Again => u64::MAX,
        }
    }
}

impl PartialEq for Ready {
    fn eq(&self, other: &Self) -> bool {
        self.priority() == other.priority()
    }
}

impl Eq for Ready {}

impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ready {
    fn cmp(&self, other: &Self) -> Ordering {
        self.priority().cmp(&other.priority())
    }
}
