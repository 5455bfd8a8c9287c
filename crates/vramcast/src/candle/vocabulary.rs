//! The vocabulary in candle's operations, chosen so that every parameter receives a gradient: the
//! fused kernels, which sever the graph silently, are not used.

use super::api::{Candle, Leaf};
use super::checkpoint::Checkpoints;
use crate::backend::{Activation, Attended, Backend, BiasOf, Heads, Init, LayerNorm, Linear};
use crate::dtype::DType;
use crate::timeline::{Category, Scope};
use crate::workload::{Mode, Precision, Workload};
use std::cell::RefCell;

/// A backend over any interpretation of candle, and the parameters made through it.
///
/// Under autocast, products run in half precision and what comes of them stays so; norms, softmax,
/// sums of residuals and the loss are computed in the type of the weights, as PyTorch does it.
pub struct Vocabulary<'a, C: Candle> {
    pub(super) candle: &'a C,
    mode: Mode,
    precision: Precision,
    parameters: RefCell<Vec<(String, C::Tensor)>>,
    /// Where layers run again in the backward pass.
    checkpoints: Option<Checkpoints<'a, C>>,
}

impl<'a, C: Candle> Vocabulary<'a, C> {
    /// A backend that makes variables and drops elements where the workload trains.
    pub fn new(candle: &'a C, workload: &Workload) -> Self {
        let Workload {
            mode, precision, ..
        } = *workload;
        let checkpoints = mode == Mode::Train && workload.checkpointing;
        Self {
            candle,
            mode,
            precision,
            parameters: RefCell::default(),
            checkpoints: checkpoints.then(Checkpoints::default),
        }
    }

    /// Differentiates a loss: the gradients of `variables`, and others where nothing is
    /// checkpointed, and the loss, then without its graph where layers run again.
    ///
    /// # Errors
    /// What candle returns.
    pub fn backward(
        &self,
        loss: C::Tensor,
        variables: &[C::Tensor],
    ) -> Result<(C::Grads, C::Tensor), C::Error> {
        let c = self.candle;
        let grads = c.backward(&loss)?;
        let Some(checkpoints) = &self.checkpoints else {
            return Ok((grads, loss));
        };
        let value = c.detach(&loss);
        drop(loss);
        let grads = checkpoints.backward(self, variables, grads)?;
        Ok((grads, value))
    }

    /// The parameters made so far, by the hub's names, in the order of their making.
    pub fn parameters(&self) -> Vec<(String, C::Tensor)> {
        self.parameters.borrow().clone()
    }

    fn begin(&self) -> &'a C {
        self.candle.begin_operation();
        self.candle
    }

    /// A parameter as an operation takes it.
    fn taken(&self, parameter: &C::Tensor) -> C::Tensor {
        match &self.checkpoints {
            Some(checkpoints) => checkpoints.parameter(self.candle, parameter),
            None => parameter.clone(),
        }
    }

    /// In the type of products.
    fn lowered(&self, x: &C::Tensor) -> Result<C::Tensor, C::Error> {
        self.candle.to_dtype(x, self.precision.products())
    }

    /// In the type of weights.
    fn raised(&self, x: &C::Tensor) -> Result<C::Tensor, C::Error> {
        self.candle.to_dtype(x, self.precision.weights())
    }

    /// `[B, S, H]`: a contiguous `[B, heads, S, H / heads]`.
    fn split_heads(&self, x: C::Tensor, heads: u64) -> Result<C::Tensor, C::Error> {
        let c = self.candle;
        let mut shape = c.dims(&x);
        let hidden = shape.pop().unwrap_or_default();
        shape.extend([heads, hidden / heads]);
        let split = c.transpose(&c.reshape(&x, &shape)?, 1, 2)?;
        c.contiguous(&split)
    }
}

impl<C: Candle> Backend for Vocabulary<'_, C> {
    type Tensor = C::Tensor;
    type Mask = C::Tensor;
    type Error = C::Error;

    fn parameter(&self, name: &str, shape: &[u64], init: Init) -> Result<C::Tensor, C::Error> {
        let leaf = match self.mode {
            Mode::Train => Leaf::Variable,
            Mode::Infer => Leaf::Constant,
        };
        let c = self.begin();
        let made = c.with_category(Category::Parameters, || {
            c.leaf(shape, init, leaf, self.precision.weights())
        })?;
        self.parameters
            .borrow_mut()
            .push((name.to_owned(), made.clone()));
        Ok(made)
    }

    fn ids_buffer(&self, _: &str, _: u64) -> Result<Option<C::Tensor>, C::Error> {
        Ok(None)
    }

    fn encoder_built(&self, _: Option<&C::Tensor>) -> Result<(), C::Error> {
        Ok(())
    }

    fn tied_decoder<R>(
        &self,
        table: &C::Tensor,
        bias: &str,
        bias_of: BiasOf,
        transform: impl FnOnce() -> Result<R, C::Error>,
    ) -> Result<(R, Linear<C::Tensor>), C::Error> {
        let rows = self.candle.dims(table).first().copied().unwrap_or_default();
        let make_bias = || self.parameter(bias, &[rows], Init::Zeros);
        let (transform, bias) = match bias_of {
            BiasOf::Head => {
                let bias = make_bias()?;
                (transform()?, bias)
            }
            BiasOf::Decoder => (transform()?, make_bias()?),
        };
        let decoder = Linear {
            weight: table.clone(),
            bias,
        };
        Ok((transform, decoder))
    }

    fn held<V: Clone>(&self, _: &V) -> Option<V> {
        None
    }

    fn within<R>(
        &self,
        scope: Scope,
        part: impl FnOnce() -> Result<R, C::Error>,
    ) -> Result<R, C::Error> {
        let before = self.candle.enter(scope);
        let result = part();
        self.candle.enter(before);
        result
    }

    fn layer(
        &self,
        hidden: &C::Tensor,
        layer: impl Fn(&Self, &C::Tensor) -> Result<C::Tensor, C::Error> + 'static,
    ) -> Result<C::Tensor, C::Error> {
        match &self.checkpoints {
            Some(checkpoints) => checkpoints.first(self, hidden, Box::new(layer)),
            None => layer(self, hidden),
        }
    }

    fn token_types(
        &self,
        ids: &C::Tensor,
        _: Option<&C::Tensor>,
        given: Option<&C::Tensor>,
        _: Option<&C::Tensor>,
    ) -> Result<C::Tensor, C::Error> {
        match given {
            Some(given) => Ok(given.clone()),
            None => self.candle.ids(&self.candle.dims(ids), |_| 0),
        }
    }

    fn embedding(&self, ids: &C::Tensor, table: &C::Tensor) -> Result<C::Tensor, C::Error> {
        self.begin().embedding(ids, table)
    }

    fn position_embedding(&self, table: &C::Tensor, seq: u64) -> Result<C::Tensor, C::Error> {
        let c = self.begin();
        let positions = c.ids(&[seq], |i| i as u32)?;
        c.embedding(&positions, table)
    }

    /// The running sum is a product with a triangle of ones. It is exact: single precision counts
    /// further than any sequence is long.
    fn padded_positions(&self, ids: &C::Tensor, padding: u64) -> Result<C::Tensor, C::Error> {
        let c = self.begin();
        let seq = c.dims(ids).last().copied().unwrap_or(1);
        let tokens = c.to_dtype(&c.ne(ids, padding as u32)?, DType::F32)?;
        let triangle = c.ids(&[seq, seq], |i| u32::from(i / seq <= i % seq))?;
        let numbers = c.matmul(&tokens, &c.to_dtype(&triangle, DType::F32)?)?;
        let numbers = c.mul(&numbers, &tokens)?;
        c.to_dtype(&c.affine(&numbers, 1.0, padding as f64)?, DType::U32)
    }

    fn padding_mask(&self, mask: &C::Tensor) -> Result<C::Tensor, C::Error> {
        let c = self.begin();
        let mask = self.raised(&c.unsqueeze(&c.unsqueeze(mask, 1)?, 1)?)?;
        // 1 becomes 0, 0 becomes the lowest value.
        let lowest = self.precision.weights().lowest();
        c.affine(&mask, -lowest, lowest)
    }

    fn linear(&self, x: &C::Tensor, layer: &Linear<C::Tensor>) -> Result<C::Tensor, C::Error> {
        let c = self.begin();
        let weight = self.lowered(&self.taken(&layer.weight))?;
        let bias = self.lowered(&self.taken(&layer.bias))?;
        c.linear(&self.lowered(x)?, &weight, &bias)
    }

    fn project(
        &self,
        x: &C::Tensor,
        layer: &Linear<C::Tensor>,
        _: u64,
    ) -> Result<C::Tensor, C::Error> {
        self.linear(x, layer)
    }

    fn layer_norm(
        &self,
        x: &C::Tensor,
        norm: &LayerNorm<C::Tensor>,
    ) -> Result<C::Tensor, C::Error> {
        let c = self.begin();
        let (weight, bias) = (self.taken(&norm.weight), self.taken(&norm.bias));
        c.layer_norm_slow(&self.raised(x)?, &weight, &bias, norm.eps)
    }

    fn add(&self, x: &C::Tensor, y: &C::Tensor) -> Result<C::Tensor, C::Error> {
        self.begin()
            .broadcast_add(&self.raised(x)?, &self.raised(y)?)
    }

    fn dropout(&self, x: C::Tensor, p: f64) -> Result<C::Tensor, C::Error> {
        let c = self.begin();
        if self.mode == Mode::Infer || p == 0.0 {
            return Ok(x);
        }
        match &self.checkpoints {
            Some(checkpoints) => checkpoints.dropout(c, &x, p),
            None => c.dropout(&x, p),
        }
    }

    fn activation(&self, x: &C::Tensor, function: Activation) -> Result<C::Tensor, C::Error> {
        self.begin().activation(x, function)
    }

    fn attention(
        &self,
        heads: Heads<C::Tensor>,
        mask: &C::Tensor,
        dropout: f64,
    ) -> Result<Attended<C::Tensor>, C::Error> {
        let c = self.begin();
        let query = self.split_heads(heads.query, heads.heads)?;
        let key = self.split_heads(heads.key, heads.heads)?;
        let value = self.split_heads(heads.value, heads.heads)?;
        let width = c.dims(&query).last().copied().unwrap_or(1);
        let mut scores = c.matmul(&query, &c.transpose(&key, 2, 3)?)?;
        drop((query, key));
        scores = c.affine(&scores, 1.0 / (width as f64).sqrt(), 0.0)?;
        scores = c.broadcast_add(&self.raised(&scores)?, mask)?;
        let mut weights = c.softmax(&scores)?;
        drop(scores);
        weights = self.lowered(&self.dropout(weights, dropout)?)?;
        let context = c.matmul(&weights, &value)?;
        drop((weights, value));
        let context = c.contiguous(&c.transpose(&context, 1, 2)?)?;
        let context = c.flatten_from(&context, 2)?;
        Ok(Attended {
            context,
            weights: None,
        })
    }

    fn first_token(&self, x: &C::Tensor) -> Result<C::Tensor, C::Error> {
        let c = self.begin();
        // CUDA's matrix product refuses the strided row, so it is copied.
        c.contiguous(&c.squeeze(&c.narrow(x, 1, 0, 1)?, 1)?)
    }

    fn cross_entropy(&self, logits: &C::Tensor, labels: &C::Tensor) -> Result<C::Tensor, C::Error> {
        let c = self.begin();
        let shape = c.dims(logits);
        let (classes, rows) = shape
            .split_last()
            .map_or((1, &[][..]), |(c, rest)| (*c, rest));
        let rows = rows.iter().product();
        let logits = self.raised(&c.reshape(logits, &[rows, classes])?)?;
        c.cross_entropy(&logits, labels)
    }

    fn mean_square(&self, x: &C::Tensor) -> Result<C::Tensor, C::Error> {
        let c = self.begin();
        c.mean_all(&c.sqr(&self.raised(x)?)?)
    }
}
