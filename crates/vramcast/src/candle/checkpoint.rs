//! Activation checkpointing: a layer keeps its input alone, and runs again in the backward pass
//! (Chen et al. 2016, arXiv:1604.06174).
//!
//! candle has no hook in its backward pass and cannot start one from a gradient. So a checkpointed
//! layer runs on detached parameters, which leaves no graph; its output is a variable of its own, at
//! which the graph of what comes next ends. The backward pass of the loss then leaves a gradient
//! there, and for each layer from the last to the first
//!
//! * the layer runs again, now with a graph;
//! * the sum of `output * gradient` is differentiated, which is what the layer had to pass on.
//!
//! Dropout must drop the same elements twice. The generator of candle's CPU cannot be seeded, so the
//! masks are kept, a byte an element.

use super::api::Candle;
use super::gradients;
use super::vocabulary::Vocabulary;
use crate::timeline::Scope;
use std::cell::RefCell;

/// A layer as a function of its input.
pub(super) type Layer<'a, C> = Box<
    dyn Fn(
        &Vocabulary<'a, C>,
        &<C as Candle>::Tensor,
    ) -> Result<<C as Candle>::Tensor, <C as Candle>::Error>,
>;

/// What a layer needs to run again.
struct Checkpoint<'a, C: Candle> {
    layer: Layer<'a, C>,
    /// A variable, but for the first layer, whose input has a graph.
    input: C::Tensor,
    /// A variable with the values of the output.
    output: C::Tensor,
    /// What dropout kept, in order.
    masks: Vec<C::Tensor>,
    scope: Scope,
}

/// How a layer runs now.
enum Run<T> {
    /// With a graph, if its parameters are variables.
    Plain,
    /// For its output; the masks so far.
    First(Vec<T>),
    /// For its graph; the masks still to be used.
    Again(std::vec::IntoIter<T>),
}

/// The layers of one forward pass that run again in its backward pass.
pub(super) struct Checkpoints<'a, C: Candle> {
    layers: RefCell<Vec<Checkpoint<'a, C>>>,
    run: RefCell<Run<C::Tensor>>,
}

impl<C: Candle> Default for Checkpoints<'_, C> {
    fn default() -> Self {
        Self {
            layers: RefCell::default(),
            run: RefCell::new(Run::Plain),
        }
    }
}

impl<'a, C: Candle> Checkpoints<'a, C> {
    /// Runs a layer without a graph and keeps what it needs to run again.
    ///
    /// # Errors
    /// What `candle` returns.
    pub(super) fn first(
        &self,
        vocabulary: &Vocabulary<'a, C>,
        input: &C::Tensor,
        layer: Layer<'a, C>,
    ) -> Result<C::Tensor, C::Error> {
        let candle = vocabulary.candle;
        *self.run.borrow_mut() = Run::First(vec![]);
        let output = layer(vocabulary, &candle.detach(input))?;
        let Run::First(masks) = self.run.replace(Run::Plain) else {
            unreachable!("layers do not nest")
        };
        let output = candle.variable(&output)?;
        self.layers.borrow_mut().push(Checkpoint {
            layer,
            input: input.clone(),
            output: output.clone(),
            masks,
            scope: candle.scope(),
        });
        Ok(output)
    }

    /// The gradients of `variables`, given those that end at the last layer.
    ///
    /// # Errors
    /// What `candle` returns.
    pub(super) fn backward(
        &self,
        vocabulary: &Vocabulary<'a, C>,
        variables: &[C::Tensor],
        mut grads: C::Grads,
    ) -> Result<C::Grads, C::Error> {
        let candle = vocabulary.candle;
        let mut layers = self.layers.take();
        let mut all = candle.no_gradients();
        let before = candle.scope();
        while let Some(checkpoint) = layers.pop() {
            let gradient = candle.take(&mut grads, &checkpoint.output);
            gradients::accumulate(candle, variables, &mut all, grads)?;
            candle.enter(checkpoint.scope);
            grads = match gradient {
                Some(gradient) => {
                    let seeded = self.again(vocabulary, checkpoint, gradient)?;
                    candle.backward(&seeded)?
                }
                // Nothing depends on this layer.
                None => candle.no_gradients(),
            };
        }
        candle.enter(before);
        gradients::accumulate(candle, variables, &mut all, grads)?;
        Ok(all)
    }

    /// Runs a layer again: a scalar whose gradients are those that the layer passes on.
    fn again(
        &self,
        vocabulary: &Vocabulary<'a, C>,
        checkpoint: Checkpoint<'a, C>,
        gradient: C::Tensor,
    ) -> Result<C::Tensor, C::Error> {
        let Checkpoint {
            layer,
            input,
            output,
            masks,
            ..
        } = checkpoint;
        // The values of the output come a second time.
        drop(output);
        *self.run.borrow_mut() = Run::Again(masks.into_iter());
        let output = layer(vocabulary, &input)?;
        *self.run.borrow_mut() = Run::Plain;
        let candle = vocabulary.candle;
        candle.sum_all(&candle.mul(&output, &gradient)?)
    }

    /// A parameter as the layer that runs now takes it: without a graph in its first run.
    pub(super) fn parameter(&self, candle: &C, parameter: &C::Tensor) -> C::Tensor {
        match *self.run.borrow() {
            Run::First(_) => candle.detach(parameter),
            Run::Plain | Run::Again(_) => parameter.clone(),
        }
    }

    /// Drops elements with probability `p`, the same ones in both runs of a layer.
    ///
    /// # Errors
    /// What `candle` returns.
    pub(super) fn dropout(&self, candle: &C, x: &C::Tensor, p: f64) -> Result<C::Tensor, C::Error> {
        let mask = match &mut *self.run.borrow_mut() {
            Run::Plain => return candle.dropout(x, p),
            Run::First(masks) => {
                let mask = candle.kept(&candle.dims(x), p)?;
                masks.push(mask.clone());
                mask
            }
            Run::Again(masks) => masks.next().expect("a layer drops as often as before"),
        };
        let scale = candle.affine(
            &candle.to_dtype(&mask, candle.dtype(x))?,
            1.0 / (1.0 - p),
            0.0,
        )?;
        drop(mask);
        candle.mul(x, &scale)
    }
}
