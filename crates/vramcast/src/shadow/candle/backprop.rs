//! What candle's backward pass allocates and frees (candle-core 0.11.1, backprop.rs).
//!
//! Rules that the arms share:
//!
//! * nodes are visited in reverse of a depth-first post-order, left argument first;
//! * a node's gradient leaves the store and is detached; the original, with whatever graph it
//!   holds, lives until the iteration ends;
//! * the first contribution to an argument allocates zeros, and every contribution is an
//!   out-of-place sum;
//! * contributions computed from tracked tensors are tracked, and keep their intermediates.

use super::layout::dims;
use super::op::{Binary, Op, Reduce, Unary};
use super::tensor::Tensor;

/// The gradients that a backward pass leaves, by tensor.
#[derive(Default)]
pub(crate) struct GradStore(Vec<Option<Tensor>>);

impl GradStore {
    pub(crate) fn get(&self, tensor: &Tensor) -> Option<&Tensor> {
        self.0.get(tensor.id() as usize)?.as_ref()
    }

    pub(crate) fn remove(&mut self, tensor: &Tensor) -> Option<Tensor> {
        self.0.get_mut(tensor.id() as usize)?.take()
    }

    pub(crate) fn insert(&mut self, tensor: &Tensor, gradient: Tensor) {
        let id = tensor.id() as usize;
        if id >= self.0.len() {
            self.0.resize(id + 1, None);
        }
        self.0[id] = Some(gradient);
    }

    fn slot(&mut self, tensor: &Tensor) -> &mut Option<Tensor> {
        &mut self.0[tensor.id() as usize]
    }

    /// Makes sure that the gradient of `tensor` exists: zeros at first touch.
    fn touch(&mut self, tensor: &Tensor) {
        let slot = self.slot(tensor);
        if slot.is_none() {
            *slot = Some(tensor.zeros_like());
        }
    }

    /// Adds to a gradient that [`Self::touch`] has made. The old sum dies after the new one exists,
    /// unless the new one keeps it.
    fn accumulate(&mut self, tensor: &Tensor, contribution: &Tensor, op: Binary) {
        let slot = self.slot(tensor);
        let old = slot.take().expect("touched before");
        *slot = Some(old.binary(contribution, op));
    }

    fn add(&mut self, tensor: &Tensor, contribution: &Tensor) {
        self.touch(tensor);
        self.accumulate(tensor, contribution, Binary::Add);
    }

    fn sub(&mut self, tensor: &Tensor, contribution: &Tensor) {
        self.touch(tensor);
        self.accumulate(tensor, contribution, Binary::Sub);
    }
}

/// The gradients of a scalar with respect to every variable it depends on.
pub(crate) fn backward(loss: &Tensor) -> GradStore {
    let device = loss.device().clone();
    let tape = device.tape();
    let before = tape.scope();
    let nodes = sorted_nodes(loss);
    let mut grads = GradStore(vec![None; loss.device().tensors()]);
    let seed = loss.ones_like().contiguous();
    *grads.slot(loss) = Some(seed);
    for node in nodes {
        if node.is_variable() {
            continue;
        }
        tape.set_scope(node.scope());
        let original = grads
            .slot(node)
            .take()
            .expect("a visited node has a gradient");
        let grad = original.detach();
        if let Some(op) = node.op() {
            visit(op, node, &grad, &mut grads);
        }
        drop(grad);
        drop(original);
    }
    tape.set_scope(before);
    grads
}

/// The arguments of an op that the walk descends into, in order.
fn arguments(op: &Op) -> [Option<&Tensor>; 3] {
    match op {
        Op::Unary(t, _)
        | Op::Affine(t)
        | Op::Powf(t)
        | Op::Reduce(t, _)
        | Op::Cmp(t)
        | Op::Broadcast(t)
        | Op::Reshape(t)
        | Op::Transpose(t, _, _)
        | Op::Narrow { arg: t, .. }
        | Op::Copy(t)
        | Op::ToDType(t) => [Some(t), None, None],
        Op::Binary(a, b, _) | Op::Matmul(a, b) | Op::Gather(a, b) | Op::IndexSelect(a, b) => {
            [Some(a), Some(b), None]
        }
        Op::IndexAdd(a, b, c) | Op::ScatterAdd(a, b, c) => [Some(a), Some(b), Some(c)],
    }
}

/// The tracked tensors that `root` depends on, `root` first. A stack of its own instead of
/// recursion, so that deep models need no deep thread.
fn sorted_nodes(root: &Tensor) -> Vec<&Tensor> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        Tracked,
        Untracked,
    }
    struct Frame<'a> {
        node: &'a Tensor,
        next: usize,
        tracked: bool,
    }
    let mut seen = vec![Seen::No; root.device().tensors()];
    let mut sorted = Vec::new();
    let frame = |node| Frame {
        node,
        next: 0,
        tracked: node.is_variable(),
    };
    let mut stack = vec![frame(root)];
    while let Some(top) = stack.last_mut() {
        let descends = !top.node.is_variable() && top.node.dtype().is_float();
        let argument = match top.node.op() {
            Some(op) if descends => arguments(op).get(top.next).copied().flatten(),
            _ => None,
        };
        if let Some(argument) = argument {
            top.next += 1;
            match seen[argument.id() as usize] {
                Seen::No => stack.push(frame(argument)),
                known => top.tracked |= known == Seen::Tracked,
            }
            continue;
        }
        let (node, tracked) = (top.node, top.tracked);
        stack.pop();
        seen[node.id() as usize] = if tracked {
            Seen::Tracked
        } else {
            Seen::Untracked
        };
        if tracked {
            sorted.push(node);
            if let Some(parent) = stack.last_mut() {
                parent.tracked = true;
            }
        }
    }
    sorted.reverse();
    sorted
}

/// Expands what was reduced back to the argument's shape.
fn broadcast_back(arg: &Tensor, node: &Tensor) -> Tensor {
    debug_assert_eq!(arg.rank(), node.rank(), "reductions keep their dimensions");
    node.broadcast_as(arg.dims())
}

/// One node's arm: the order of the statements and of the drops is candle's.
fn visit(op: &Op, node: &Tensor, grad: &Tensor, grads: &mut GradStore) {
    match op {
        Op::Binary(lhs, rhs, Binary::Add) => {
            grads.add(lhs, grad);
            grads.add(rhs, grad);
        }
        Op::Binary(lhs, rhs, Binary::Sub) => {
            grads.add(lhs, grad);
            grads.sub(rhs, grad);
        }
        Op::Binary(lhs, rhs, Binary::Mul) => {
            let lhs_grad = grad.mul(rhs);
            grads.add(lhs, &lhs_grad);
            let rhs_grad = grad.mul(lhs);
            grads.add(rhs, &rhs_grad);
            drop((rhs_grad, lhs_grad));
        }
        Op::Binary(lhs, rhs, Binary::Div) => {
            let lhs_grad = grad.div(rhs);
            grads.add(lhs, &lhs_grad);
            let scaled = grad.mul(lhs);
            let squared = rhs.unary(Unary::Sqr);
            let rhs_grad = scaled.div(&squared);
            drop((squared, scaled));
            grads.sub(rhs, &rhs_grad);
            drop((rhs_grad, lhs_grad));
        }
        Op::Matmul(lhs, rhs) => {
            let lhs_grad = grad.matmul(&rhs.t());
            grads.add(lhs, &lhs_grad);
            let rhs_grad = lhs.t().matmul(grad);
            grads.add(rhs, &rhs_grad);
            drop((rhs_grad, lhs_grad));
        }
        Op::Affine(arg) => {
            let arg_grad = grad.affine();
            grads.add(arg, &arg_grad);
        }
        Op::Powf(arg) => {
            let power = arg.powf();
            let product = grad.mul(&power);
            drop(power);
            let arg_grad = product.affine();
            drop(product);
            grads.add(arg, &arg_grad);
        }
        Op::Reduce(arg, Reduce::Sum) => {
            let grad = broadcast_back(arg, grad);
            grads.add(arg, &grad);
        }
        Op::Reduce(arg, Reduce::Max) => {
            let node = broadcast_back(arg, node);
            let grad = broadcast_back(arg, grad);
            let equal = node.cmp(arg);
            let mask = equal.to_dtype(grad.dtype());
            let masked = mask.mul(&grad);
            drop((mask, equal));
            grads.touch(arg);
            let shape = dims(arg.dims());
            grads.accumulate(arg, &masked.broadcast_as(&shape), Binary::Add);
            drop((masked, grad, node));
        }
        Op::Broadcast(arg) => {
            let left = node.rank() - arg.rank();
            let mut over: arrayvec::ArrayVec<usize, 6> = (0..left).collect();
            for (dim, (to, from)) in node.dims()[left..].iter().zip(arg.dims()).enumerate() {
                if to != from {
                    over.push(dim + left);
                }
            }
            let mut arg_grad = grad.reduce_keepdim(&over, Reduce::Sum);
            for _ in 0..left {
                arg_grad = arg_grad.squeeze(0);
            }
            grads.touch(arg);
            let shape = dims(arg.dims());
            grads.accumulate(arg, &arg_grad.broadcast_as(&shape), Binary::Add);
        }
        Op::Reshape(arg) => {
            let arg_grad = grad.reshape(arg.dims());
            grads.add(arg, &arg_grad);
        }
        Op::Transpose(arg, a, b) => {
            let arg_grad = grad.transpose(usize::from(*a), usize::from(*b));
            grads.add(arg, &arg_grad);
        }
        Op::Narrow {
            arg,
            dim,
            start,
            len,
        } => {
            let (dim, start) = (usize::from(*dim), u64::from(*start));
            let pad = |size: u64| {
                (size > 0).then(|| {
                    let mut shape = dims(arg.dims());
                    shape[dim] = size;
                    grad.device().tensor(shape, grad.dtype(), "zeros")
                })
            };
            let (left, right) = (pad(start), pad(arg.dims()[dim] - start - u64::from(*len)));
            let parts: Vec<&Tensor> = [left.as_ref(), Some(grad), right.as_ref()]
                .into_iter()
                .flatten()
                .collect();
            let arg_grad = Tensor::cat(&parts, dim);
            drop(parts);
            drop((right, left));
            grads.add(arg, &arg_grad);
        }
        Op::Copy(arg) => grads.add(arg, grad),
        Op::ToDType(arg) => {
            grads.touch(arg);
            grads.accumulate(arg, &grad.to_dtype(arg.dtype()), Binary::Add);
        }
        Op::Gather(arg, ids) => {
            grads.touch(arg);
            let slot = grads.slot(arg);
            let old = slot.take().expect("touched before");
            *slot = Some(old.scatter_add(ids, grad));
        }
        Op::IndexSelect(arg, ids) => {
            grads.touch(arg);
            let ids = ids.contiguous();
            let slot = grads.slot(arg);
            let old = slot.take().expect("touched before");
            *slot = Some(old.index_add(&ids, grad));
        }
        Op::Unary(arg, op) => unary(*op, arg, node, grad, grads),
        Op::Cmp(_) => {}
        Op::IndexAdd(..) | Op::ScatterAdd(..) => {
            unreachable!("only the backward pass makes these, and nothing differentiates it")
        }
    }
}

/// The arms of the element-wise functions. Those that touch the sum before computing their
/// contribution and those that do so after are candle's own, as are the intermediates.
fn unary(op: Unary, arg: &Tensor, node: &Tensor, grad: &Tensor, grads: &mut GradStore) {
    let multiplied = |grads: &mut GradStore, derivative: Tensor, op: Binary| {
        let contribution = grad.mul(&derivative);
        drop(derivative);
        grads.accumulate(arg, &contribution, op);
    };
    match op {
        Unary::Exp => {
            grads.touch(arg);
            multiplied(grads, node.clone(), Binary::Add);
        }
        Unary::Log => {
            grads.touch(arg);
            grads.accumulate(arg, &grad.div(arg), Binary::Add);
        }
        Unary::Neg => {
            grads.touch(arg);
            grads.accumulate(arg, grad, Binary::Sub);
        }
        Unary::Sqr => {
            let product = arg.mul(grad);
            let arg_grad = product.affine();
            drop(product);
            grads.add(arg, &arg_grad);
        }
        Unary::Sqrt => {
            let quotient = grad.div(node);
            let arg_grad = quotient.affine();
            drop(quotient);
            grads.add(arg, &arg_grad);
        }
        Unary::Tanh => {
            grads.touch(arg);
            let minus_dtanh = node.unary(Unary::Sqr).affine();
            multiplied(grads, minus_dtanh, Binary::Sub);
        }
        Unary::Relu => {
            grads.touch(arg);
            let zeros = arg.zeros_like();
            let positive = arg.cmp(&zeros);
            let relu_grad = positive.to_dtype(arg.dtype());
            drop((positive, zeros));
            multiplied(grads, relu_grad, Binary::Add);
        }
        Unary::Erf => {
            grads.touch(arg);
            let exponent = arg.unary(Unary::Sqr).unary(Unary::Neg);
            let erf_grad = exponent.unary(Unary::Exp).affine();
            multiplied(grads, erf_grad, Binary::Add);
        }
        Unary::Gelu => {
            grads.touch(arg);
            let cube = arg.powf();
            let inner = cube.affine().add(&arg.affine());
            let tanh = inner.unary(Unary::Tanh);
            let half_tanh = tanh.affine();
            let slope = cube.affine().add(&arg.affine());
            let one_minus = tanh.powf().affine();
            let gelu_grad = half_tanh.add(&slope.mul(&one_minus)).affine();
            multiplied(grads, gelu_grad, Binary::Add);
        }
        Unary::GeluErf => {
            grads.touch(arg);
            let neg_half_square = arg.unary(Unary::Sqr).unary(Unary::Neg).affine();
            let scaled_exp_arg = neg_half_square.unary(Unary::Exp).affine().mul(arg);
            let erf = arg.affine().unary(Unary::Erf).affine();
            let gelu_erf_grad = scaled_exp_arg.affine().add(&erf);
            multiplied(grads, gelu_erf_grad, Binary::Add);
        }
    }
}
