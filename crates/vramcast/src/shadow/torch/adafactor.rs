//! `torch.optim.Adafactor` (torch/optim/_adafactor.py, `_single_tensor_adafactor`; as traced).

use super::reduction::Over;
use super::tensor::{Device, Tensor};

/// A mean of squares for each row and each column of the last two dimensions; of a vector, for each
/// element.
pub(super) fn moments(device: &Device, parameter: &Tensor) -> Vec<Tensor> {
    let of = |dims: &[u64]| device.tensor(dims, parameter.dtype(), "zeros");
    match parameter.dims() {
        [.., rows, columns] => {
            let elements = parameter.elements();
            let sizes = [elements / columns.max(&1), elements / rows.max(&1)];
            sizes.map(|size| of(&[size])).to_vec()
        }
        vector => vec![of(vector)],
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
        let variance = match parameter.dims() {
            [outer @ .., rows, columns] => {
                let (elements, matrices) = (parameter.elements(), outer.iter().product());
                let row_mean = of(&[elements / columns.max(&1)], "norm");
                device.stage(Over::Columns, *columns, row_mean.elements(), "norm");
                drop(locals.row_mean.replace(row_mean));
                let column_mean = of(&[elements / rows.max(&1)], "norm");
                device.stage(Over::Rows, *rows, column_mean.elements(), "norm");
                drop(locals.column_mean.replace(column_mean));
                let outer_product = of(parameter.dims(), "matmul");
                device.cublas(false);
                drop(locals.variance.replace(outer_product.clone()));
                let mean = of(&[matrices], "mean");
                device.stage(Over::Columns, *rows, matrices, "mean");
                drop(mean);
                outer_product
            }
            vector => {
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
