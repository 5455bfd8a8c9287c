//! `GradScaler` (torch/amp/grad_scaler.py; as traced), for gradients without an infinity.

use super::tensor::{Device, Tensor};
use crate::dtype::DType;

/// The scale and how long it held, which the first loss makes.
#[derive(Default)]
pub(super) struct Scaler {
    state: Option<[Tensor; 2]>,
}

/// The loss that a backward pass begins with.
pub(super) fn scaled(device: &Device, scaler: &mut Option<Scaler>, loss: &Tensor) -> Tensor {
    match scaler {
        Some(scaler) => scaler.scale(device, loss),
        None => loss.clone(),
    }
}

impl Scaler {
    fn scale(&mut self, device: &Device, loss: &Tensor) -> Tensor {
        let scalar = || device.tensor(&[], DType::F32, "grad scaler");
        self.state.get_or_insert_with(|| [scalar(), scalar()]);
        device.scale(loss)
    }

    /// `unscale_`, before the optimizer's step; what it returns dies in `update`.
    pub(super) fn unscale(&self, device: &Device) -> Tensor {
        let of = |dtype| device.tensor(&[], dtype, "grad scaler");
        let double = of(DType::I64);
        let reciprocal = of(DType::I64);
        drop(double);
        let inverse = of(DType::F32);
        drop(reciprocal);
        self.look_for_infinity(device, inverse)
    }

    /// A fused optimizer scales for itself, so the gradients are only looked at; what this returns
    /// dies in `update`.
    pub(super) fn check(&self, device: &Device) -> Tensor {
        let one = device.tensor(&[], DType::F32, "grad scaler");
        self.look_for_infinity(device, one)
    }

    fn look_for_infinity(&self, device: &Device, scale: Tensor) -> Tensor {
        let scalar = || device.tensor(&[], DType::F32, "grad scaler");
        let found = scalar();
        let found_here = scalar();
        drop(scalar());
        drop((scale, found));
        found_here
    }

    /// What a fused optimizer is given for its step: the sum of what was found, and the scale
    /// unless the gradients are unscaled already.
    pub(super) fn lend(&self, device: &Device, unscaled: bool) -> (Option<Tensor>, Tensor) {
        let scalar = || device.tensor(&[], DType::F32, "grad scaler");
        let found = scalar();
        let scale = (!unscaled).then(scalar);
        (scale, found)
    }
}
