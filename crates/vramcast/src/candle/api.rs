//! The part of candle's API that models and training loops use.

use crate::backend::{Activation, Init};
use crate::dtype::DType;
use crate::timeline::{Category, Phase, Scope};

/// A tensor that nothing was computed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// A plain tensor.
    Constant,
    /// A `Var`, which receives a gradient.
    Variable,
}

/// candle's operations. Each method allocates what the candle function that it names allocates.
///
/// # Errors
/// Every method that makes a tensor returns what the runtime returns; the shadow cannot fail here.
#[allow(clippy::missing_errors_doc)]
pub trait Candle {
    /// `Tensor`.
    type Tensor: Clone + 'static;
    /// `GradStore`.
    type Grads;
    /// `AdamW` or `SGD`.
    type Optimizer;
    /// `candle_core::Error`.
    type Error;

    /// `Var::randn_f64`, `zeros` or `ones`; not a `Var` for a constant.
    fn leaf(
        &self,
        shape: &[u64],
        init: Init,
        leaf: Leaf,
        dtype: DType,
    ) -> Result<Self::Tensor, Self::Error>;
    /// `Tensor::from_vec` of `u32` values that `value` gives by position.
    fn ids(&self, shape: &[u64], value: impl Fn(u64) -> u32) -> Result<Self::Tensor, Self::Error>;

    /// `Tensor::dims`.
    fn dims(&self, x: &Self::Tensor) -> Vec<u64>;
    /// `Tensor::dtype`.
    fn dtype(&self, x: &Self::Tensor) -> DType;
    /// `Tensor::reshape`.
    fn reshape(&self, x: &Self::Tensor, shape: &[u64]) -> Result<Self::Tensor, Self::Error>;
    /// `Tensor::transpose`.
    fn transpose(&self, x: &Self::Tensor, a: usize, b: usize) -> Result<Self::Tensor, Self::Error>;
    /// `Tensor::contiguous`.
    fn contiguous(&self, x: &Self::Tensor) -> Result<Self::Tensor, Self::Error>;
    /// `Tensor::unsqueeze`.
    fn unsqueeze(&self, x: &Self::Tensor, dim: usize) -> Result<Self::Tensor, Self::Error>;
    /// `Tensor::squeeze`.
    fn squeeze(&self, x: &Self::Tensor, dim: usize) -> Result<Self::Tensor, Self::Error>;
    /// `Tensor::narrow`.
    fn narrow(
        &self,
        x: &Self::Tensor,
        dim: usize,
        start: u64,
        len: u64,
    ) -> Result<Self::Tensor, Self::Error>;
    /// `Tensor::flatten_from`.
    fn flatten_from(&self, x: &Self::Tensor, dim: usize) -> Result<Self::Tensor, Self::Error>;
    /// `Tensor::to_dtype`.
    fn to_dtype(&self, x: &Self::Tensor, dtype: DType) -> Result<Self::Tensor, Self::Error>;
    /// `Tensor::detach`.
    fn detach(&self, x: &Self::Tensor) -> Self::Tensor;
    /// `Var::from_tensor`, which copies.
    fn variable(&self, x: &Self::Tensor) -> Result<Self::Tensor, Self::Error>;
    /// `Tensor::ne` with a number.
    fn ne(&self, x: &Self::Tensor, value: u32) -> Result<Self::Tensor, Self::Error>;
    /// `Tensor::mul`.
    fn mul(&self, x: &Self::Tensor, y: &Self::Tensor) -> Result<Self::Tensor, Self::Error>;
    /// `Tensor::add`.
    fn add(&self, x: &Self::Tensor, y: &Self::Tensor) -> Result<Self::Tensor, Self::Error>;
    /// `Tensor::affine`.
    fn affine(&self, x: &Self::Tensor, mul: f64, add: f64) -> Result<Self::Tensor, Self::Error>;
    /// `Tensor::sqr`.
    fn sqr(&self, x: &Self::Tensor) -> Result<Self::Tensor, Self::Error>;
    /// `Tensor::sum_all`.
    fn sum_all(&self, x: &Self::Tensor) -> Result<Self::Tensor, Self::Error>;
    /// `Tensor::mean_all`.
    fn mean_all(&self, x: &Self::Tensor) -> Result<Self::Tensor, Self::Error>;
    /// `gelu_erf`, `gelu`, `relu` or `tanh`.
    fn activation(
        &self,
        x: &Self::Tensor,
        function: Activation,
    ) -> Result<Self::Tensor, Self::Error>;
    /// `Tensor::broadcast_add`.
    fn broadcast_add(
        &self,
        x: &Self::Tensor,
        y: &Self::Tensor,
    ) -> Result<Self::Tensor, Self::Error>;
    /// `Tensor::matmul`.
    fn matmul(&self, x: &Self::Tensor, y: &Self::Tensor) -> Result<Self::Tensor, Self::Error>;
    /// `candle_nn::Embedding::forward`.
    fn embedding(
        &self,
        ids: &Self::Tensor,
        table: &Self::Tensor,
    ) -> Result<Self::Tensor, Self::Error>;
    /// `candle_nn::Linear::forward`.
    fn linear(
        &self,
        x: &Self::Tensor,
        weight: &Self::Tensor,
        bias: &Self::Tensor,
    ) -> Result<Self::Tensor, Self::Error>;
    /// `candle_nn::ops::layer_norm_slow`, the one with a gradient.
    fn layer_norm_slow(
        &self,
        x: &Self::Tensor,
        weight: &Self::Tensor,
        bias: &Self::Tensor,
        eps: f64,
    ) -> Result<Self::Tensor, Self::Error>;
    /// `candle_nn::ops::softmax` over the last dimension.
    fn softmax(&self, x: &Self::Tensor) -> Result<Self::Tensor, Self::Error>;
    /// `candle_nn::ops::dropout`.
    fn dropout(&self, x: &Self::Tensor, p: f64) -> Result<Self::Tensor, Self::Error>;
    /// `Tensor::rand` between 0 and 1, where `Tensor::ge` to `p`: `u8` ones with probability
    /// `1 - p`.
    fn kept(&self, shape: &[u64], p: f64) -> Result<Self::Tensor, Self::Error>;
    /// `candle_nn::loss::cross_entropy`.
    fn cross_entropy(
        &self,
        logits: &Self::Tensor,
        labels: &Self::Tensor,
    ) -> Result<Self::Tensor, Self::Error>;

    /// `Tensor::backward`.
    fn backward(&self, loss: &Self::Tensor) -> Result<Self::Grads, Self::Error>;
    /// `GradStore::default`.
    fn no_gradients(&self) -> Self::Grads;
    /// Whether the store has a gradient for `variable`.
    fn has_gradient(&self, grads: &Self::Grads, variable: &Self::Tensor) -> bool;
    /// `GradStore::remove`.
    fn take(&self, grads: &mut Self::Grads, of: &Self::Tensor) -> Option<Self::Tensor>;
    /// `GradStore::insert`, where there is none yet.
    fn put(&self, grads: &mut Self::Grads, of: &Self::Tensor, gradient: Self::Tensor);
    /// Whether a scalar is finite: `Tensor::to_scalar`, for which the host waits.
    fn is_finite(&self, x: &Self::Tensor) -> Result<bool, Self::Error>;
    /// `AdamW::new`.
    fn adamw(&self, variables: &[Self::Tensor]) -> Result<Self::Optimizer, Self::Error>;
    /// `SGD::new`.
    fn sgd(&self, variables: &[Self::Tensor]) -> Result<Self::Optimizer, Self::Error>;
    /// `Optimizer::step`.
    fn step(&self, optimizer: &mut Self::Optimizer, grads: &Self::Grads)
    -> Result<(), Self::Error>;

    /// Says that a phase begins: a mark for the timeline, a reading for a probe.
    fn begin(&self, phase: Phase) -> Result<(), Self::Error>;
    /// `Device::synchronize`.
    fn synchronize(&self) -> Result<(), Self::Error>;
    /// Says that the last step is over: what dies now is the model.
    fn end(&self);
    /// Says that an operation of the vocabulary begins.
    fn begin_operation(&self);
    /// What allocations are tagged with now.
    fn scope(&self) -> Scope;
    /// Tags what follows with `scope` and returns the scope before.
    fn enter(&self, scope: Scope) -> Scope;
    /// Runs `make`, whose allocations are known to be `category`.
    fn with_category<R>(&self, category: Category, make: impl FnOnce() -> R) -> R;
}
