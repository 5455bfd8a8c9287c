//! `clip_grad_norm_` (torch/nn/utils/clip_grad.py; as traced).

use super::tensor::{Device, Tensor};
use crate::dtype::DType;

/// Elements that one block of `_foreach_norm` reduces (ATen, cuda/MultiTensorApply.cuh).
const CHUNK: u64 = 65_536;

/// Clips the gradients of parameters in place, and returns their norm.
pub(super) fn clip_grad_norm(device: &Device, parameters: &[Tensor]) -> Tensor {
    let dtype = parameters.first().map_or(DType::F32, Tensor::dtype);
    let scalar = |op| device.tensor(&[], dtype, op);
    let count = parameters.len() as u64;
    let chunks = parameters.iter().map(|p| p.elements().div_ceil(CHUNK));
    let most = chunks.max().unwrap_or(0);
    let partial = device.tensor(&[count, most], DType::F32, "_foreach_norm");
    let mut norms: Vec<Tensor> = parameters.iter().map(|_| scalar("_foreach_norm")).collect();
    drop(partial);
    let stacked = device.tensor(&[count], dtype, "stack");
    let total = scalar("norm");
    drop(stacked);
    // A list gives up its last entry first.
    while let Some(norm) = norms.pop() {
        drop(norm);
    }
    let above_zero = scalar("add");
    let reciprocal = scalar("reciprocal");
    let coefficient = scalar("mul");
    drop((reciprocal, above_zero));
    let clamped = scalar("clamp");
    drop((coefficient, clamped));
    total
}
