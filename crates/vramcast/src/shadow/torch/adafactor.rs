//! `torch.optim.Adafactor` (torch/optim/_adafactor.py, `_single_tensor_adafactor`; as traced).

use super::reduction::Over;
use super::tensor::{Device, Tensor};

/// A mean of squares for each row and each column of a matrix; of a vector, for each element.
pub(super) fn moments(device: &Device, parameter: &Tensor) -> Vec<Tensor> {
    let of = |dims: &[u64]| device.tensor(dims, parameter.dtype(), "zeros");
    match *parameter.dims() {
        [rows, columns] => vec![of(&[rows]), of(&[columns])],
        ref vector => vec![of(vector)],
    }
}

/// What the loop over the parameters holds from one to the next, in the order of its locals.
#[derive(Default)]
struct Locals {
    row_mean: Option<Tensor>,
    column_mean: Option<Tensor>,
    variance: Option<Tensor>,
    squares: Option<Tensor>,
    /// The variance of the last parameter, made into its update in place.
    update: Option<Tensor>,
}

/// A step over parameters, all of which have gradients.
pub(super) fn step(device: &Device, parameters: &[Tensor]) {
    let mut locals = Locals::default();
    for parameter in parameters {
        let dtype = parameter.dtype();
        let of = |dims: &[u64], op| device.tensor(dims, dtype, op);
        norm(device, parameter);
        let variance = match *parameter.dims() {
            [rows, columns] => {
                let row_mean = of(&[rows], "norm");
                device.stage(Over::Columns, columns, rows, "norm");
                drop(locals.row_mean.replace(row_mean));
                let column_mean = of(&[columns], "norm");
                device.stage(Over::Rows, rows, columns, "norm");
                drop(locals.column_mean.replace(column_mean));
                let outer = of(&[rows, columns], "mm");
                device.cublas(false);
                drop(locals.variance.replace(outer.clone()));
                let mean = of(&[], "mean");
                device.stage(Over::Columns, rows, 1, "mean");
                drop(mean);
                outer
            }
            ref vector => {
                drop(locals.squares.replace(of(vector, "mul")));
                let copy = of(vector, "clone");
                drop(locals.variance.replace(copy.clone()));
                copy
            }
        };
        drop(locals.update.replace(variance));
        norm(device, parameter);
    }
    drop(locals);
}

/// The norm of a parameter, or of what looks like it, read by the host.
fn norm(device: &Device, of: &Tensor) {
    let norm = device.tensor(&[], of.dtype(), "norm");
    device.stage(Over::Columns, of.elements(), 1, "norm");
    drop(norm);
}
