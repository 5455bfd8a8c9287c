//! The vocabulary in which models are written: one method an operation, generic over who runs it.
//!
//! What runtimes do differently (composing a norm, building the mask, choosing an attention kernel)
//! is one operation here and never an `if` in a model file. No method has a default: a new
//! operation fails to compile until every interpreter has said what it does.
//!
//! Values that a method takes by value may die inside it; values taken by reference outlive it.

use crate::timeline::Scope;
use serde::{Deserialize, Serialize};

/// How a parameter starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// Normal, with this standard deviation.
    Normal(f64),
    /// All zeros.
    Zeros,
    /// All ones.
    Ones,
}

/// An element-wise function between layers, by the names of transformers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// Gaussian error linear unit by the error function.
    Gelu,
    /// Gaussian error linear unit by its tanh approximation.
    #[serde(rename = "gelu_pytorch_tanh")]
    GeluTanh,
    /// The same function, which transformers composes of element-wise operations.
    GeluNew,
    /// The same function, composed in another way.
    GeluFast,
    /// Rectified linear unit.
    Relu,
    /// Hyperbolic tangent.
    Tanh,
}

/// Weight `[out, in]` and bias `[out]` of `y = x W^T + b`.
#[derive(Clone, Debug)]
pub struct Linear<T> {
    /// `[out, in]`.
    pub weight: T,
    /// `[out]`.
    pub bias: T,
}

/// Scale and shift, both `[hidden]`, of a layer norm.
#[derive(Clone, Debug)]
pub struct LayerNorm<T> {
    /// `[hidden]`.
    pub weight: T,
    /// `[hidden]`.
    pub bias: T,
    /// Added to the variance.
    pub eps: f64,
}

/// Whose parameter the bias of a decoder is that is tied to the word table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BiasOf {
    /// The head's, before those of its layers.
    Head,
    /// The decoder's own, after those of the head's other layers.
    Decoder,
}

/// Queries, keys and values of one attention, as [`Backend::project`] gave them.
#[derive(Clone, Debug)]
pub struct Heads<T> {
    /// Queries.
    pub query: T,
    /// Keys.
    pub key: T,
    /// Values.
    pub value: T,
    /// How many heads the last dimension is split into.
    pub heads: u64,
}

/// What attention gives.
#[derive(Debug)]
pub struct Attended<T> {
    /// `[B, S, H]`.
    pub context: T,
    /// The weights, where the runtime hands them to the layer, which then holds them to its end.
    pub weights: Option<T>,
}

/// Who runs a model. Shapes: `B` batch, `S` sequence, `H` hidden, `V` vocabulary, `N` rows.
pub trait Backend: Sized {
    /// A value, cheap to clone; its memory is given back when the last clone dies.
    type Tensor: Clone + 'static;
    /// What attention adds to its scores; nothing, where the runtime leaves it out.
    type Mask: Clone + 'static;
    /// What can go wrong.
    type Error;

    /// A new parameter. Names are the hub's, shapes outermost dimension first.
    ///
    /// # Errors
    /// Whatever making a tensor of that shape can cause.
    fn parameter(&self, name: &str, shape: &[u64], init: Init)
    -> Result<Self::Tensor, Self::Error>;

    /// Ids `0..len`, or that many zeros, that the model keeps beside its parameters; `None` where
    /// the runtime's model keeps none.
    ///
    /// # Errors
    /// The runtime's.
    fn ids_buffer(&self, name: &str, len: u64) -> Result<Option<Self::Tensor>, Self::Error>;

    /// Says that an encoder, whose buffer of positions is given, is built and initializes itself.
    ///
    /// # Errors
    /// The runtime's.
    fn encoder_built(&self, positions: Option<&Self::Tensor>) -> Result<(), Self::Error>;

    /// The decoder of a language model, whose weight is the word table, and the transform before it.
    /// When the bias is made is the runtime's to say.
    ///
    /// # Errors
    /// The runtime's, and those of `transform`.
    fn tied_decoder<R>(
        &self,
        table: &Self::Tensor,
        bias: &str,
        bias_of: BiasOf,
        transform: impl FnOnce() -> Result<R, Self::Error>,
    ) -> Result<(R, Linear<Self::Tensor>), Self::Error>;

    /// A local that the Hugging Face code still holds where a model file drops it, for runtimes
    /// that follow the one; `None` for those that follow the other.
    fn held<V: Clone>(&self, local: &V) -> Option<V>;

    /// Runs a part of the model, naming it for the timeline.
    ///
    /// # Errors
    /// Those of `part`.
    fn within<R>(
        &self,
        scope: Scope,
        part: impl FnOnce() -> Result<R, Self::Error>,
    ) -> Result<R, Self::Error>;

    /// Runs a layer, which the runtime may run again in the backward pass instead of keeping what
    /// it saved.
    ///
    /// # Errors
    /// Those of `layer`.
    fn layer(
        &self,
        hidden: &Self::Tensor,
        layer: impl Fn(&Self, &Self::Tensor) -> Result<Self::Tensor, Self::Error> + 'static,
    ) -> Result<Self::Tensor, Self::Error>;

    /// `[B, S]` token types: those given, else zeros, which `kept` may hold already, one for each
    /// position. `positions` are `[B, S]` where sequences have positions of their own.
    ///
    /// # Errors
    /// The runtime's.
    fn token_types(
        &self,
        ids: &Self::Tensor,
        positions: Option<&Self::Tensor>,
        given: Option<&Self::Tensor>,
        kept: Option<&Self::Tensor>,
    ) -> Result<Self::Tensor, Self::Error>;

    /// `[B, S]` ids, `[V, H]` table: `[B, S, H]`.
    ///
    /// # Errors
    /// The runtime's.
    fn embedding(
        &self,
        ids: &Self::Tensor,
        table: &Self::Tensor,
    ) -> Result<Self::Tensor, Self::Error>;

    /// The rows of a learned position table for positions `0..seq`, to be added to `[B, S, H]`.
    ///
    /// # Errors
    /// The runtime's.
    fn position_embedding(
        &self,
        table: &Self::Tensor,
        seq: u64,
    ) -> Result<Self::Tensor, Self::Error>;

    /// `[B, S]` ids: `[B, S]` positions from `padding + 1` on, counted without the tokens that are
    /// `padding`, whose position is `padding`.
    ///
    /// # Errors
    /// The runtime's.
    fn padded_positions(
        &self,
        ids: &Self::Tensor,
        padding: u64,
    ) -> Result<Self::Tensor, Self::Error>;

    /// `[B, S]` of ones and zeros: what attention adds to its scores to ignore the zeros.
    ///
    /// # Errors
    /// The runtime's.
    fn padding_mask(&self, mask: &Self::Tensor) -> Result<Self::Mask, Self::Error>;

    /// `[B, S, H]`: a linear layer whose output is split into heads, as attention takes it.
    ///
    /// # Errors
    /// The runtime's.
    fn project(
        &self,
        x: &Self::Tensor,
        layer: &Linear<Self::Tensor>,
        heads: u64,
    ) -> Result<Self::Tensor, Self::Error>;

    /// `[.., in]`: `[.., out]`.
    ///
    /// # Errors
    /// The runtime's.
    fn linear(
        &self,
        x: &Self::Tensor,
        layer: &Linear<Self::Tensor>,
    ) -> Result<Self::Tensor, Self::Error>;

    /// Normalizes the last dimension.
    ///
    /// # Errors
    /// The runtime's.
    fn layer_norm(
        &self,
        x: &Self::Tensor,
        norm: &LayerNorm<Self::Tensor>,
    ) -> Result<Self::Tensor, Self::Error>;

    /// The sum of two tensors, the second broadcast to the first if it has fewer dimensions.
    ///
    /// # Errors
    /// The runtime's.
    fn add(&self, x: &Self::Tensor, y: &Self::Tensor) -> Result<Self::Tensor, Self::Error>;

    /// Drops elements with probability `p` in training; elsewhere the input itself.
    ///
    /// # Errors
    /// The runtime's.
    fn dropout(&self, x: Self::Tensor, p: f64) -> Result<Self::Tensor, Self::Error>;

    /// An element-wise function.
    ///
    /// # Errors
    /// The runtime's.
    fn activation(
        &self,
        x: &Self::Tensor,
        function: Activation,
    ) -> Result<Self::Tensor, Self::Error>;

    /// Attention of every position to every position that `mask` leaves.
    ///
    /// # Errors
    /// The runtime's.
    fn attention(
        &self,
        heads: Heads<Self::Tensor>,
        mask: &Self::Mask,
        dropout: f64,
    ) -> Result<Attended<Self::Tensor>, Self::Error>;

    /// `[B, S, H]`: `[B, H]` of the first position.
    ///
    /// # Errors
    /// The runtime's.
    fn first_token(&self, x: &Self::Tensor) -> Result<Self::Tensor, Self::Error>;

    /// Logits `[.., C]`, labels of as many rows: the mean cross entropy, a scalar.
    ///
    /// # Errors
    /// The runtime's.
    fn cross_entropy(
        &self,
        logits: &Self::Tensor,
        labels: &Self::Tensor,
    ) -> Result<Self::Tensor, Self::Error>;

    /// The mean of the squares, a scalar: the loss where a task has none.
    ///
    /// # Errors
    /// The runtime's.
    fn mean_square(&self, x: &Self::Tensor) -> Result<Self::Tensor, Self::Error>;
}
