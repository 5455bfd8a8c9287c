//! The head of masked language models: a linear layer, an activation, a norm, and the word table.

use super::parameters::Maker;
use crate::backend::{Activation, Backend, BiasOf, LayerNorm, Linear};

/// The head.
#[derive(Debug)]
pub(super) struct MaskedLm<T> {
    transform: Linear<T>,
    activation: Activation,
    norm: LayerNorm<T>,
    decoder: Linear<T>,
}

/// What a model calls the parameters of its head.
pub(super) struct Names {
    pub(super) transform: &'static str,
    pub(super) norm: &'static str,
    pub(super) bias: &'static str,
    pub(super) bias_of: BiasOf,
}

impl<T: Clone + 'static> MaskedLm<T> {
    pub(super) fn build<B: Backend<Tensor = T>>(
        make: &Maker<'_, B>,
        table: &T,
        activation: Activation,
        names: &Names,
    ) -> Result<Self, B::Error> {
        let h = make.hidden;
        let ((transform, norm), decoder) =
            make.backend
                .tied_decoder(table, names.bias, names.bias_of, || {
                    Ok((make.linear(names.transform, h, h)?, make.norm(names.norm)?))
                })?;
        Ok(Self {
            transform,
            activation,
            norm,
            decoder,
        })
    }

    /// `[B, S, H]`: logits `[B, S, V]`.
    pub(super) fn forward<B: Backend<Tensor = T>>(
        &self,
        backend: &B,
        sequence: &T,
    ) -> Result<T, B::Error> {
        let mut hidden = backend.linear(sequence, &self.transform)?;
        hidden = backend.activation(&hidden, self.activation)?;
        hidden = backend.layer_norm(&hidden, &self.norm)?;
        backend.linear(&hidden, &self.decoder)
    }
}
