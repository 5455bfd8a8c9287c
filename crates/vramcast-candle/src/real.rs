//! candle's own meaning of the operations that models use.

use candle_core::backprop::GradStore;
use candle_core::{D, DType, Device, Error, Module, Result, Tensor, Var};
use candle_nn::Optimizer as _;
use vramcast::backend::{Activation, Init};
use vramcast::candle::{Candle, Leaf};
use vramcast::dtype::DType as Type;
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

fn candle_dtype(dtype: Type) -> Result<DType> {
    match dtype {
        Type::U8 => Ok(DType::U8),
        Type::U32 => Ok(DType::U32),
        Type::I32 => Ok(DType::I32),
        Type::I64 => Ok(DType::I64),
        Type::F16 => Ok(DType::F16),
        Type::Bf16 => Ok(DType::BF16),
        Type::F32 => Ok(DType::F32),
        Type::Bool => Err(Error::Msg("candle has no truth values".to_owned())),
    }
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

    fn leaf(&self, shape: &[u64], init: Init, leaf: Leaf, dtype: Type) -> Result<Tensor> {
        let (shape, device, dtype) = (dims(shape), &self.device, candle_dtype(dtype)?);
        let variable = match init {
            // A tensor of random values has no function of its own for half precision.
            Init::Normal(std) => Var::randn_f64(0.0, std, shape, dtype, device)?,
            Init::Zeros => Var::zeros(shape, dtype, device)?,
            Init::Ones => Var::ones(shape, dtype, device)?,
        };
        Ok(match leaf {
            Leaf::Variable => variable.into_inner(),
            Leaf::Constant => variable.as_detached_tensor(),
        })
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

    fn dtype(&self, x: &Tensor) -> Type {
        match x.dtype() {
            DType::F16 => Type::F16,
            DType::BF16 => Type::Bf16,
            DType::U8 => Type::U8,
            DType::U32 => Type::U32,
            DType::I32 => Type::I32,
            DType::I64 => Type::I64,
            _ => Type::F32,
        }
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

    fn to_dtype(&self, x: &Tensor, dtype: Type) -> Result<Tensor> {
        x.to_dtype(candle_dtype(dtype)?)
    }

    fn detach(&self, x: &Tensor) -> Tensor {
        x.detach()
    }

    fn variable(&self, x: &Tensor) -> Result<Tensor> {
        Var::from_tensor(x).map(Var::into_inner)
    }

    fn ne(&self, x: &Tensor, value: u32) -> Result<Tensor> {
        x.ne(value)
    }

    fn mul(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        x.mul(y)
    }

    fn add(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        x.add(y)
    }

    fn affine(&self, x: &Tensor, mul: f64, add: f64) -> Result<Tensor> {
        x.affine(mul, add)
    }

    fn sqr(&self, x: &Tensor) -> Result<Tensor> {
        x.sqr()
    }

    fn sum_all(&self, x: &Tensor) -> Result<Tensor> {
        x.sum_all()
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

    fn kept(&self, shape: &[u64], p: f64) -> Result<Tensor> {
        Tensor::rand(0f32, 1f32, dims(shape), &self.device)?.ge(p as f32)
    }

    fn cross_entropy(&self, logits: &Tensor, labels: &Tensor) -> Result<Tensor> {
        candle_nn::loss::cross_entropy(logits, labels)
    }

    fn backward(&self, loss: &Tensor) -> Result<GradStore> {
        loss.backward()
    }

    fn no_gradients(&self) -> GradStore {
        GradStore::default()
    }

    fn has_gradient(&self, grads: &GradStore, variable: &Tensor) -> bool {
        grads.get(variable).is_some()
    }

    fn take(&self, grads: &mut GradStore, of: &Tensor) -> Option<Tensor> {
        grads.remove(of)
    }

    fn put(&self, grads: &mut GradStore, of: &Tensor, gradient: Tensor) {
        grads.insert(of, gradient);
    }

    fn is_finite(&self, x: &Tensor) -> Result<bool> {
        Ok(x.to_scalar::<f32>()?.is_finite())
    }

    fn adamw(&self, variables: &[Tensor]) -> Result<Optimizer> {
        let mut params = candle_nn::ParamsAdamW::default();
        if variables.iter().any(|v| v.dtype() == DType::F16) {
            // The default is 0 in half precision, and 0 / 0 where a gradient is 0.
            params.eps = 1e-4;
        }
        candle_nn::AdamW::new(self.variables(variables)?, params).map(Optimizer::AdamW)
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

    fn scope(&self) -> Scope {
        Scope::NONE
    }

    fn enter(&self, _: Scope) -> Scope {
        Scope::NONE
    }

    fn with_category<R>(&self, _: Category, make: impl FnOnce() -> R) -> R {
        make()
    }
}
