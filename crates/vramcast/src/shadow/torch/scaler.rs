//! `GradScaler` (torch/amp/grad_scaler.py; as traced), for gradients without an infinity.
//!
//! The fused optimizer scales for itself, which makes other scalars; that is not followed.

use super::tensor::{Device, Tensor};
use crate::dtype::DType;

/// The scale and how long it held, which the first loss makes.
#[derive(Default)]
pub(super) struct Scaler {
    state: Option<[Tensor; 2]>,
}

impl Scaler {
    pub(super) fn scale(&mut self, device: &Device, loss: &Tensor) -> Tensor {
        let scalar = || device.tensor(&[], DType::F32, "grad scaler");
        self.state.get_or_insert_with(|| [scalar(), scalar()]);
        device.scale(loss)
    }

    /// Before the optimizer's step; what it returns dies in `update`.
    pub(super) fn unscale(&self, device: &Device) -> Tensor {
        let of = |dtype| device.tensor(&[], dtype, "grad scaler");
        let double = of(DType::I64);
        let reciprocal = of(DType::I64);
        drop(double);
        let inverse = of(DType::F32);
        drop(reciprocal);
        let found = of(DType::F32);
        let found_here = of(DType::F32);
        drop(of(DType::F32));
        drop((inverse, found));
        found_here
    }
}
