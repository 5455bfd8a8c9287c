//! candle without values: every allocation and free of candle 0.11.1, in order, and nothing else.
//!
//! [`Shadow`] gives meaning to the operations of [`crate::candle::Candle`]; `device`, `tensor` and
//! `op` have the rules of candle-core's operations, `backprop` those of its backward pass, `nn` the compositions and
//! optimizers of candle-nn. `stock_bert` follows the model of candle-transformers.

mod backprop;
mod device;
mod layout;
mod nn;
mod op;
mod stock_bert;
mod tensor;

pub use device::Flavour;

use crate::backend::{Activation, Init};
use crate::bytes::TooLarge;
use crate::candle::{Candle, Leaf, Outcome};
use crate::config::ModelConfig;
use crate::dtype::DType;
use crate::timeline::{Category, Phase, Scope, Timeline};
use crate::workload::{Code, Workload};
use device::Device;
use layout::dims;
use op::{Binary, Unary};
use std::convert::Infallible;
use tensor::Tensor;

/// The interpreter.
#[derive(Clone, Debug)]
pub struct Shadow(Device);

/// A tensor of the shadow.
#[derive(Clone, Debug)]
pub struct ShadowTensor(Tensor);

/// The gradients of a shadow backward pass.
pub struct ShadowGrads(backprop::GradStore);

/// An optimizer of the shadow.
pub struct ShadowOptimizer(nn::Optimizer);

/// Why a run has no timeline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// A size does not fit in 64 bits.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// A stock model that is not followed.
    #[error("of the stock models of candle-transformers only BertModel is predicted, not {0}")]
    NotFollowed(&'static str),
}

/// Runs `steps` steps of a workload in the shadow.
///
/// # Errors
/// A size that does not fit in 64 bits, or a stock model that is not followed.
pub fn run(
    config: &ModelConfig,
    workload: &Workload,
    flavour: Flavour,
    steps: u32,
) -> Result<(Timeline, Outcome), RunError> {
    let shadow = Shadow(Device::new(flavour));
    let outcome = match workload.code {
        Code::Vramcast => match crate::candle::run(&shadow, config, workload, steps) {
            Ok(outcome) => outcome,
            Err(never) => match never {},
        },
        Code::CandleTransformers => match config {
            ModelConfig::Bert(config) => {
                stock_bert::run(&shadow.0, config, workload.batch, workload.seq, steps)
            }
            ModelConfig::Roberta(_) | ModelConfig::DistilBert(_) => {
                return Err(RunError::NotFollowed(config.model_type()));
            }
        },
    };
    Ok((shadow.0.tape().finish()?, outcome))
}

type Made = Result<ShadowTensor, Infallible>;

fn made(tensor: Tensor) -> Made {
    Ok(ShadowTensor(tensor))
}

impl Candle for Shadow {
    type Tensor = ShadowTensor;
    type Grads = ShadowGrads;
    type Optimizer = ShadowOptimizer;
    type Error = Infallible;

    fn leaf(&self, shape: &[u64], init: Init, leaf: Leaf, dtype: DType) -> Made {
        let is_variable = leaf == Leaf::Variable;
        let named = |name| match leaf {
            Leaf::Variable => self.0.variable(dims(shape), dtype, name),
            Leaf::Constant => self.0.tensor(dims(shape), dtype, name),
        };
        made(match init {
            Init::Normal(_) => self.0.randn(dims(shape), dtype, is_variable),
            Init::Zeros => named("zeros"),
            Init::Ones => named("ones"),
        })
    }

    fn ids(&self, shape: &[u64], _: impl Fn(u64) -> u32) -> Made {
        made(self.0.tensor(dims(shape), DType::U32, "from_vec"))
    }

    fn dims(&self, x: &ShadowTensor) -> Vec<u64> {
        x.0.dims().to_vec()
    }

    fn dtype(&self, x: &ShadowTensor) -> DType {
        x.0.dtype()
    }

    fn reshape(&self, x: &ShadowTensor, shape: &[u64]) -> Made {
        made(x.0.reshape(shape))
    }

    fn transpose(&self, x: &ShadowTensor, a: usize, b: usize) -> Made {
        made(x.0.transpose(a, b))
    }

    fn contiguous(&self, x: &ShadowTensor) -> Made {
        made(x.0.contiguous())
    }

    fn unsqueeze(&self, x: &ShadowTensor, dim: usize) -> Made {
        made(x.0.unsqueeze(dim))
    }

    fn squeeze(&self, x: &ShadowTensor, dim: usize) -> Made {
        made(x.0.squeeze(dim))
    }

    fn narrow(&self, x: &ShadowTensor, dim: usize, start: u64, len: u64) -> Made {
        made(x.0.narrow(dim, start, len))
    }

    fn flatten_from(&self, x: &ShadowTensor, dim: usize) -> Made {
        made(x.0.flatten_from(dim))
    }

    fn to_dtype(&self, x: &ShadowTensor, dtype: DType) -> Made {
        made(x.0.to_dtype(dtype))
    }

    fn detach(&self, x: &ShadowTensor) -> ShadowTensor {
        ShadowTensor(x.0.detach())
    }

    fn variable(&self, x: &ShadowTensor) -> Made {
        made(x.0.make_var())
    }

    fn ne(&self, x: &ShadowTensor, _: u32) -> Made {
        let scalar = self.0.tensor(dims(&[]), x.0.dtype(), "scalar");
        made(x.0.cmp(&scalar.broadcast_as(x.0.dims())))
    }

    fn mul(&self, x: &ShadowTensor, y: &ShadowTensor) -> Made {
        made(x.0.mul(&y.0))
    }

    fn add(&self, x: &ShadowTensor, y: &ShadowTensor) -> Made {
        made(x.0.add(&y.0))
    }

    fn affine(&self, x: &ShadowTensor, _: f64, _: f64) -> Made {
        made(x.0.affine())
    }

    fn sqr(&self, x: &ShadowTensor) -> Made {
        made(x.0.unary(Unary::Sqr))
    }

    fn sum_all(&self, x: &ShadowTensor) -> Made {
        made(x.0.sum_all())
    }

    fn mean_all(&self, x: &ShadowTensor) -> Made {
        made(x.0.sum_all().affine())
    }

    fn activation(&self, x: &ShadowTensor, function: Activation) -> Made {
        made(x.0.unary(unary(function)))
    }

    fn broadcast_add(&self, x: &ShadowTensor, y: &ShadowTensor) -> Made {
        made(x.0.broadcast_binary(&y.0, Binary::Add))
    }

    fn matmul(&self, x: &ShadowTensor, y: &ShadowTensor) -> Made {
        made(x.0.matmul(&y.0))
    }

    fn embedding(&self, ids: &ShadowTensor, table: &ShadowTensor) -> Made {
        made(nn::embedding(&ids.0, &table.0))
    }

    fn linear(&self, x: &ShadowTensor, weight: &ShadowTensor, bias: &ShadowTensor) -> Made {
        made(nn::linear(&x.0, &weight.0, Some(&bias.0)))
    }

    fn layer_norm_slow(
        &self,
        x: &ShadowTensor,
        weight: &ShadowTensor,
        bias: &ShadowTensor,
        _: f64,
    ) -> Made {
        made(nn::layer_norm_slow(&x.0, &weight.0, &bias.0))
    }

    fn softmax(&self, x: &ShadowTensor) -> Made {
        made(nn::softmax(&x.0))
    }

    fn dropout(&self, x: &ShadowTensor, _: f64) -> Made {
        made(nn::dropout(&x.0))
    }

    fn kept(&self, shape: &[u64], _: f64) -> Made {
        made(nn::kept(&self.0, shape))
    }

    fn cross_entropy(&self, logits: &ShadowTensor, labels: &ShadowTensor) -> Made {
        made(nn::cross_entropy(&logits.0, &labels.0))
    }

    fn backward(&self, loss: &ShadowTensor) -> Result<ShadowGrads, Infallible> {
        Ok(ShadowGrads(backprop::backward(&loss.0)))
    }

    fn no_gradients(&self) -> ShadowGrads {
        ShadowGrads(backprop::GradStore::default())
    }

    fn has_gradient(&self, grads: &ShadowGrads, variable: &ShadowTensor) -> bool {
        grads.0.get(&variable.0).is_some()
    }

    fn take(&self, grads: &mut ShadowGrads, of: &ShadowTensor) -> Option<ShadowTensor> {
        grads.0.remove(&of.0).map(ShadowTensor)
    }

    fn put(&self, grads: &mut ShadowGrads, of: &ShadowTensor, gradient: ShadowTensor) {
        grads.0.insert(&of.0, gradient.0);
    }

    fn is_finite(&self, _: &ShadowTensor) -> Result<bool, Infallible> {
        self.0.tape().synchronize();
        Ok(true)
    }

    fn adamw(&self, variables: &[ShadowTensor]) -> Result<ShadowOptimizer, Infallible> {
        let variables = variables.iter().map(|v| v.0.clone()).collect();
        Ok(ShadowOptimizer(nn::Optimizer::adamw(&self.0, variables)))
    }

    fn sgd(&self, variables: &[ShadowTensor]) -> Result<ShadowOptimizer, Infallible> {
        Ok(ShadowOptimizer(nn::Optimizer::sgd(
            variables.iter().map(|v| v.0.clone()).collect(),
        )))
    }

    fn step(&self, optimizer: &mut ShadowOptimizer, grads: &ShadowGrads) -> Result<(), Infallible> {
        optimizer.0.step(&grads.0);
        Ok(())
    }

    fn begin(&self, phase: Phase) -> Result<(), Infallible> {
        self.0.tape().begin(phase);
        Ok(())
    }

    fn synchronize(&self) -> Result<(), Infallible> {
        self.0.tape().synchronize();
        Ok(())
    }

    fn end(&self) {
        self.0.tape().end();
    }

    fn begin_operation(&self) {
        self.0.tape().begin_operation();
    }

    fn scope(&self) -> Scope {
        self.0.tape().named_scope()
    }

    fn enter(&self, scope: Scope) -> Scope {
        self.0.tape().enter(scope)
    }

    fn with_category<R>(&self, category: Category, make: impl FnOnce() -> R) -> R {
        self.0.tape().with_category(category, make)
    }
}

fn unary(function: Activation) -> Unary {
    match function {
        Activation::Gelu => Unary::GeluErf,
        Activation::GeluTanh | Activation::GeluNew | Activation::GeluFast => Unary::Gelu,
        Activation::Relu => Unary::Relu,
        Activation::Tanh => Unary::Tanh,
    }
}
