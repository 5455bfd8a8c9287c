//! The compositions of candle-nn 0.11.1 that models and training loops call.
//!
//! The intermediates die in the order of the original's locals: reverse of their declaration, and
//! temporaries of a tail expression after the locals (candle-nn is edition 2021).

use super::backprop::GradStore;
use super::device::Device;
use super::layout::dims;
use super::op::{Binary, Reduce, Unary};
use super::tensor::Tensor;
use crate::dtype::DType;
use crate::timeline::Category;

/// `Linear::forward`: a contiguous batch is multiplied as one matrix.
pub(crate) fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
    let product = if x.rank() > 2 {
        debug_assert!(
            x.is_contiguous(),
            "strided batches take another path in candle"
        );
        let mut shape = dims(x.dims());
        let inner = shape
            .pop()
            .expect("a linear layer's input has a last dimension");
        let rows = super::layout::elements(&shape);
        shape.push(weight.dims()[0]);
        x.reshape(&[rows, inner])
            .matmul(&weight.t())
            .reshape(&shape)
    } else {
        x.matmul(&weight.t())
    };
    match bias {
        None => product,
        Some(bias) => product.broadcast_binary(bias, Binary::Add),
    }
}

/// `Embedding::forward`.
pub(crate) fn embedding(ids: &Tensor, table: &Tensor) -> Tensor {
    let mut shape = dims(ids.dims());
    shape.push(table.dims()[1]);
    let flat = ids.reshape(&[super::layout::elements(ids.dims())]);
    let rows = table.index_select(&flat);
    rows.reshape(&shape)
}

/// `ops::softmax` over the last dimension.
pub(crate) fn softmax(x: &Tensor) -> Tensor {
    let last = [x.rank() - 1];
    let max = x.reduce_keepdim(&last, Reduce::Max);
    let diff = x.broadcast_binary(&max, Binary::Sub);
    let num = diff.unary(Unary::Exp);
    let den = num.reduce_keepdim(&last, Reduce::Sum);
    let out = num.broadcast_binary(&den, Binary::Div);
    drop((den, num, diff, max));
    out
}

fn log_softmax(x: &Tensor) -> Tensor {
    let last = [x.rank() - 1];
    let max = x.reduce_keepdim(&last, Reduce::Max);
    let diff = x.broadcast_binary(&max, Binary::Sub);
    let exp = diff.unary(Unary::Exp);
    let sum_exp = exp.reduce_keepdim(&last, Reduce::Sum);
    drop(exp);
    let log = sum_exp.unary(Unary::Log);
    let out = diff.broadcast_binary(&log, Binary::Sub);
    drop((log, sum_exp, diff, max));
    out
}

/// `loss::cross_entropy` of `[N, C]` logits and `[N]` labels: the mean over rows.
pub(crate) fn cross_entropy(logits: &Tensor, labels: &Tensor) -> Tensor {
    let log_probabilities = log_softmax(logits);
    let picked = log_probabilities.gather(&labels.unsqueeze(1));
    let sum = picked.sum_all();
    let loss = sum.affine();
    drop((sum, picked, log_probabilities));
    loss
}

/// `ops::layer_norm_slow`: the composition that has a gradient. Half precision is normalized in
/// single precision.
pub(crate) fn layer_norm_slow(x: &Tensor, weight: &Tensor, bias: &Tensor) -> Tensor {
    let last = [x.rank() - 1];
    let dtype = x.dtype();
    let x = x.to_dtype(DType::F32);
    let sum = x.reduce_keepdim(&last, Reduce::Sum);
    let mean = sum.affine();
    drop(sum);
    let centred = x.broadcast_binary(&mean, Binary::Sub);
    drop(mean);
    let square = centred.unary(Unary::Sqr);
    let sum = square.reduce_keepdim(&last, Reduce::Sum);
    let variance = sum.affine();
    drop((sum, square));
    let shifted = variance.affine();
    drop(variance);
    let deviation = shifted.unary(Unary::Sqrt);
    let normed = centred.broadcast_binary(&deviation, Binary::Div);
    drop((deviation, shifted));
    let cast = normed.to_dtype(dtype);
    let scaled = cast.broadcast_binary(weight, Binary::Mul);
    let out = scaled.broadcast_binary(bias, Binary::Add);
    drop((normed, centred, x, scaled, cast));
    out
}

/// `ops::layer_norm`: the fused kernel, which has no gradient.
pub(crate) fn layer_norm_fused(x: &Tensor) -> Tensor {
    x.device().tensor(dims(x.dims()), x.dtype(), "layer_norm")
}

/// `ops::dropout`: the mask is kept for the backward pass as a full tensor.
pub(crate) fn dropout(x: &Tensor) -> Tensor {
    let device = x.device();
    let random = device.tensor(dims(x.dims()), DType::F32, "rand");
    let threshold = device
        .tensor(dims(&[]), DType::F32, "scalar")
        .broadcast_as(x.dims());
    let kept = random.cmp(&threshold);
    let mask = kept.to_dtype(x.dtype());
    let scaled = mask.affine();
    drop((mask, kept));
    let out = x.mul(&scaled);
    drop((scaled, threshold, random));
    out
}

/// `Tensor::rand` and `Tensor::ge`: a byte for each element.
pub(crate) fn kept(device: &Device, shape: &[u64]) -> Tensor {
    let random = device.tensor(dims(shape), DType::F32, "rand");
    let threshold = device.tensor(dims(&[]), DType::F32, "scalar");
    random.cmp(&threshold.broadcast_as(shape))
}

/// An optimizer and the state it holds (candle-nn, optim.rs).
pub(crate) enum Optimizer {
    AdamW(Vec<Moments>),
    Sgd(Vec<Tensor>),
}

pub(crate) struct Moments {
    variable: Tensor,
    first: Tensor,
    second: Tensor,
}

impl Optimizer {
    pub(crate) fn adamw(device: &Device, variables: Vec<Tensor>) -> Self {
        let zeros = |like: &Tensor| device.variable(dims(like.dims()), like.dtype(), "zeros");
        device.tape().with_category(Category::Optimizer, || {
            let moments = |variable| {
                let first = zeros(&variable);
                let second = zeros(&variable);
                Moments {
                    variable,
                    first,
                    second,
                }
            };
            Self::AdamW(variables.into_iter().map(moments).collect())
        })
    }

    pub(crate) fn sgd(variables: Vec<Tensor>) -> Self {
        Self::Sgd(variables)
    }

    /// Updates every variable that has a gradient. `Var::set` copies in place and allocates
    /// nothing.
    pub(crate) fn step(&self, grads: &GradStore) {
        match self {
            Self::AdamW(all) => all.iter().for_each(|moments| {
                if let Some(grad) = grads.get(&moments.variable) {
                    adamw_update(moments, grad);
                }
            }),
            Self::Sgd(variables) => variables.iter().for_each(|variable| {
                if let Some(grad) = grads.get(variable) {
                    let scaled = grad.affine();
                    let next = variable.sub(&scaled);
                    drop((next, scaled));
                }
            }),
        }
    }
}

/// Moments and parameter are variables, so every expression is tracked, and nothing but the
/// squared gradient dies before the update ends.
fn adamw_update(
    Moments {
        variable,
        first,
        second,
    }: &Moments,
    grad: &Tensor,
) {
    let next_first = first.affine().add(&grad.affine());
    let decayed = second.affine();
    let square = grad.unary(Unary::Sqr);
    let scaled_square = square.affine();
    drop(square);
    let next_second = decayed.add(&scaled_square);
    drop((scaled_square, decayed));
    let first_hat = next_first.affine();
    let second_hat = next_second.affine();
    let shrunk = variable.affine();
    let denominator = second_hat.unary(Unary::Sqrt).affine();
    let adjusted = first_hat.div(&denominator);
    drop((denominator, first_hat));
    let next = shrunk.sub(&adjusted.affine());
    drop((shrunk, next, adjusted, second_hat, next_second, next_first));
}
