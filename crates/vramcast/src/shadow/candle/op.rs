//! The operations of candle's graph: what a tracked tensor keeps.

use super::tensor::Tensor;
use strum::IntoStaticStr;

/// How a tracked tensor came to be. The order of fields is the order in which arguments die.
#[derive(Debug)]
pub(crate) enum Op {
    Unary(Tensor, Unary),
    Binary(Tensor, Tensor, Binary),
    Affine(Tensor),
    Powf(Tensor),
    Matmul(Tensor, Tensor),
    Reduce(Tensor, Reduce),
    Cmp(Tensor),
    Broadcast(Tensor),
    Reshape(Tensor),
    Transpose(Tensor, u8, u8),
    Narrow {
        arg: Tensor,
        dim: u8,
        start: u32,
        len: u32,
    },
    Copy(Tensor),
    ToDType(Tensor),
    Gather(Tensor, Tensor),
    IndexSelect(Tensor, Tensor),
    IndexAdd(Tensor, Tensor, Tensor),
    ScatterAdd(Tensor, Tensor, Tensor),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum Unary {
    Exp,
    Log,
    Neg,
    Sqr,
    Sqrt,
    Tanh,
    Erf,
    Relu,
    Gelu,
    GeluErf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum Reduce {
    Sum,
    Max,
}
