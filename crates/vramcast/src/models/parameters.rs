//! The parameters that encoders are made of, weight before bias.

use crate::backend::{Backend, Init, LayerNorm, Linear};

/// Makes parameters of one model.
pub(super) struct Maker<'a, B> {
    pub(super) backend: &'a B,
    /// Width of tables and norms.
    pub(super) hidden: u64,
    /// Standard deviation of fresh weights.
    pub(super) deviation: f64,
    /// What norms add to variances.
    pub(super) eps: f64,
}

impl<B: Backend> Maker<'_, B> {
    /// An embedding table, `[rows, H]`.
    pub(super) fn table(&self, name: &str, rows: u64) -> Result<B::Tensor, B::Error> {
        let init = Init::Normal(self.deviation);
        let name = format!("{name}.weight");
        self.backend.parameter(&name, &[rows, self.hidden], init)
    }

    pub(super) fn linear(
        &self,
        name: &str,
        from: u64,
        to: u64,
    ) -> Result<Linear<B::Tensor>, B::Error> {
        let init = Init::Normal(self.deviation);
        Ok(Linear {
            weight: self
                .backend
                .parameter(&format!("{name}.weight"), &[to, from], init)?,
            bias: self
                .backend
                .parameter(&format!("{name}.bias"), &[to], Init::Zeros)?,
        })
    }

    pub(super) fn norm(&self, name: &str) -> Result<LayerNorm<B::Tensor>, B::Error> {
        let shape = [self.hidden];
        Ok(LayerNorm {
            weight: self
                .backend
                .parameter(&format!("{name}.weight"), &shape, Init::Ones)?,
            bias: self
                .backend
                .parameter(&format!("{name}.bias"), &shape, Init::Zeros)?,
            eps: self.eps,
        })
    }
}
