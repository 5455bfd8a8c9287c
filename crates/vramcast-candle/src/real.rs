//! candle's own meaning of the operations that models use.

use candle_core::backprop::GradStore;
use candle_core::{D, DType, Device, Module, Result, Tensor, Var};
use candle_nn::Optimizer as _;
use vramcast::backend::{Activation, Init};
use vramcast::candle::{Candle, Leaf};
use vramcast::timeline::{Category, Phase, Scope};

/// Who is told what a run is doing, to read counters at the right moments.
pub trait Observer {
    /// A phase begins.
    ///
    /// # Errors
    /// Whatever reading the counters can cause.
    fn begin(&self, phase: Phase) -> Result<()>;

    /// The last step is over.
    fn end(&self);
}

/// candle on a device.
#[derive(Debug)]
pub struct Real<O> {
    /// Where tensors live.
    pub device: Device,
    /// Who is told of phases.
    pub observer: O,
}

/// One of candle's optimizers.
pub enum Optimizer {
    /// Two moments a variable.
    AdamW(candle_nn::AdamW),
    /// No state.
    Sgd(candle_nn::SGD),
}

/// candle's dimensions are `usize`.
fn dims(shape: &[u64]) -> Vec<usize> {
    shape.iter().map(|&d| d as usize).collect()
}

impl<O: Observer> Real<O> {
    fn variables(&self, tensors: &[Tensor]) -> Result<Vec<Var>> {
        // A tensor that is a variable is wrapped, not copied.
        tensors.iter().map(Var::from_tensor).collect()
    }
}

impl<O: Observer> Candle for Real<O> {
    type Tensor = Tensor;
    type Grads = GradStore;
    type Optimizer = Optimizer;
    type Error = candle_core::Error;

    fn leaf(&self, shape: &[u64], init: Init, leaf: Leaf) -> Result<Tensor> {
        let (shape, device) = (dims(shape), &self.device);
        match (leaf, init) {
            (Leaf::Constant, Init::Normal(std)) => Tensor::randn(0f32, std as f32, shape, device),
            (Leaf::Constant, Init::Zeros) => Tensor::zeros(shape, DType::F32, device),
            (Leaf::Constant, Init::Ones) => Tensor::ones(shape, DType::F32, device),
            (Leaf::Variable, init) => {
                let variable = match init {
                    Init::Normal(std) => Var::randn(0f32, std as f32, shape, device)?,
                    Init::Zeros => Var::zeros(shape, DType::F32, device)?,
                    Init::Ones => Var::ones(shape, DType::F32, device)?,
                };
                Ok(variable.into_inner())
            }
        }
    }

    fn ids(&self, shape: &[u64], value: impl Fn(u64) -> u32) -> Result<Tensor> {
        let count: u64 = shape.iter().product();
        // Exactly as long as the tensor: on the CPU it becomes the tensor.
        let mut values = Vec::with_capacity(count as usize);
        values.extend((0..count).map(value));
        Tensor::from_vec(values, dims(shape), &self.device)
    }

    fn dims(&self, x: &Tensor) -> Vec<u64> {
        x.dims().iter().map(|&d| d as u64).collect()
    }

    fn reshape(&self, x: &Tensor, shape: &[u64]) -> Result<Tensor> {
        x.reshape(dims(shape))
    }

    fn transpose(&self, x: &Tensor, a: usize, b: usize) -> Result<Tensor> {
        x.transpose(a, b)
    }

    fn contiguous(&self, x: &Tensor) -> Result<Tensor> {
        x.contiguous()
    }

    fn unsqueeze(&self, x: &Tensor, dim: usize) -> Result<Tensor> {
        x.unsqueeze(dim)
    }

    fn squeeze(&self, x: &Tensor, dim: usize) -> Result<Tensor> {
        x.squeeze(dim)
    }

    fn narrow(&self, x: &Tensor, dim: usize, start: u64, len: u64) -> Result<Tensor> {
        x.narrow(dim, start as usize, len as usize)
    }

    fn flatten_from(&self, x: &Tensor, dim: usize) -> Result<Tensor> {
        x.flatten_from(dim)
    }

    fn to_f32(&self, x: &Tensor) -> Result<Tensor> {
        x.to_dtype(DType::F32)
    }

    fn to_u32(&self, x: &Tensor) -> Result<Tensor> {
        x.to_dtype(DType::U32)
    }

    fn ne(&self, x: &Tensor, value: u32) -> Result<Tensor> {
        x.ne(value)
    }

    fn mul(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        x.mul(y)
    }

    fn affine(&self, x: &Tensor, mul: f64, add: f64) -> Result<Tensor> {
        x.affine(mul, add)
    }

    fn sqr(&self, x: &Tensor) -> Result<Tensor> {
        x.sqr()
    }

    fn mean_all(&self, x: &Tensor) -> Result<Tensor> {
        x.mean_all()
    }

    fn activation(&self, x: &Tensor, function: Activation) -> Result<Tensor> {
        match function {
            Activation::Gelu => x.gelu_erf(),
            Activation::GeluTanh | Activation::GeluNew | Activation::GeluFast => x.gelu(),
            Activation::Relu => x.relu(),
            Activation::Tanh => x.tanh(),
        }
    }

    fn broadcast_add(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        x.broadcast_add(y)
    }

    fn matmul(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        x.matmul(y)
    }

    fn embedding(&self, ids: &Tensor, table: &Tensor) -> Result<Tensor> {
        candle_nn::Embedding::new(table.clone(), table.dim(D::Minus1)?).forward(ids)
    }

    fn linear(&self, x: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor> {
        candle_nn::Linear::new(weight.clone(), Some(bias.clone())).forward(x)
    }

    fn layer_norm_slow(
        &self,
        x: &Tensor,
        weight: &Tensor,
        bias: &Tensor,
        eps: f64,
    ) -> Result<Tensor> {
        candle_nn::ops::layer_norm_slow(x, weight, bias, eps as f32)
    }

    fn softmax(&self, x: &Tensor) -> Result<Tensor> {
        candle_nn::ops::softmax(x, D::Minus1)
    }

    fn dropout(&self, x: &Tensor, p: f64) -> Result<Tensor> {
        candle_nn::ops::dropout(x, p as f32)
    }

    fn cross_entropy(&self, logits: &Tensor, labels: &Tensor) -> Result<Tensor> {
        candle_nn::loss::cross_entropy(logits, labels)
    }

    fn backward(&self, loss: &Tensor) -> Result<GradStore> {
        loss.backward()
    }

    fn has_gradient(&self, grads: &GradStore, variable: &Tensor) -> bool {
        grads.get(variable).is_some()
    }

    fn adamw(&self, variables: &[Tensor]) -> Result<Optimizer> {
        let variables = self.variables(variables)?;
        candle_nn::AdamW::new(variables, candle_nn::ParamsAdamW::default()).map(Optimizer::AdamW)
    }

    fn sgd(&self, variables: &[Tensor]) -> Result<Optimizer> {
        candle_nn::SGD::new(self.variables(variables)?, 1e-3).map(Optimizer::Sgd)
    }

    fn step(&self, optimizer: &mut Optimizer, grads: &GradStore) -> Result<()> {
        match optimizer {
            Optimizer::AdamW(adamw) => adamw.step(grads),
            Optimizer::Sgd(sgd) => sgd.step(grads),
        }
    }

    fn begin(&self, phase: Phase) -> Result<()> {
        self.observer.begin(phase)
    }

    fn synchronize(&self) -> Result<()> {
        self.device.synchronize()
    }

    fn end(&self) {
        self.observer.end();
    }

    fn begin_operation(&self) {}

    fn enter(&self, _: Scope) -> Scope {
        Scope::NONE
    }

    fn with_category<R>(&self, _: Category, make: impl FnOnce() -> R) -> R {
        make()
    }
}
