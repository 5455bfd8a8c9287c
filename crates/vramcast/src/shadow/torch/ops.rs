//! The operations of the forward pass (as traced).

use super::autograd::Edge;
use super::backward::Kind;
use super::layout::Layout;
use super::reduction::{self, Over};
use super::tensor::{Device, Tensor};
use crate::dtype::DType;

impl Device {
    /// `Tensor::view` and the like: no copy.
    fn view(&self, x: &Tensor, layout: Layout, kind: Kind) -> Tensor {
        self.record(x.viewed(layout), kind, &[x], vec![])
    }

    pub(super) fn to(&self, x: &Tensor, dtype: DType) -> Tensor {
        if x.dtype() == dtype {
            return x.clone();
        }
        let copy = self.strided(x.layout().preserved(), dtype, "to");
        self.record(copy, Kind::ToCopy, &[x], vec![])
    }

    /// What autocast makes of an argument of a product. Copies of parameters are kept until it ends
    /// (ATen, autocast_mode.cpp, `cached_cast`).
    pub(super) fn lowered(&self, x: &Tensor) -> Tensor {
        let Some(dtype) = self.0.autocast.get() else {
            return x.clone();
        };
        let Some(Edge::Leaf(number)) = x.edge() else {
            return self.to(x, dtype);
        };
        if let Some(copy) = self.0.casts.borrow().get(&number) {
            return copy.clone();
        }
        let copy = self.to(x, dtype);
        self.0.casts.borrow_mut().insert(number, copy.clone());
        copy
    }

    /// What autocast makes of an argument of an operation that runs in single precision.
    pub(super) fn raised(&self, x: &Tensor) -> Tensor {
        match self.0.autocast.get() {
            Some(_) => self.to(x, DType::F32),
            None => x.clone(),
        }
    }

    /// Ends autocast, which gives its copies back; in no order that means anything, since they lie
    /// in a hash map.
    pub(super) fn end_autocast(&self) {
        self.0.autocast.set(None);
        let copies = std::mem::take(&mut *self.0.casts.borrow_mut());
        drop(copies);
    }

    pub(super) fn transpose(&self, x: &Tensor, a: usize, b: usize) -> Tensor {
        self.view(x, x.layout().transpose(a, b), Kind::Transpose(a, b))
    }

    /// The first of dimension `dim`.
    pub(super) fn select(&self, x: &Tensor, dim: usize) -> Tensor {
        self.view(x, x.layout().select(dim), Kind::Select)
    }

    pub(super) fn contiguous(&self, x: &Tensor) -> Tensor {
        if x.is_contiguous() {
            return x.clone();
        }
        let copy = self.tensor(x.dims(), x.dtype(), "clone");
        self.record(copy, Kind::Clone, &[x], vec![])
    }

    /// A view where the layout allows one, else of a copy.
    pub(super) fn reshape(&self, x: &Tensor, dims: &[u64]) -> Tensor {
        if let Some(layout) = x.layout().view(dims) {
            return self.view(x, layout, Kind::View);
        }
        let copy = self.contiguous(x);
        self.view(&copy, Layout::contiguous(dims), Kind::View)
    }

    /// [`Self::reshape`] of a gradient: nothing is recorded.
    pub(super) fn reshaped(&self, x: &Tensor, dims: &[u64]) -> Tensor {
        match x.layout().view(dims) {
            Some(layout) => x.viewed(layout),
            None => self
                .tensor(x.dims(), x.dtype(), "clone")
                .viewed(Layout::contiguous(dims)),
        }
    }

    /// The sum over what `dims` does not have, with its staging buffers.
    pub(super) fn sum_to(&self, x: &Tensor, dims: &[u64]) -> Tensor {
        let out = self.tensor(dims, x.dtype(), "sum");
        let columns = out.elements();
        let rows = x.elements() / columns.max(1);
        let over = if columns == 1 {
            Over::Columns
        } else {
            Over::Rows
        };
        self.stage(over, rows, columns, "sum");
        out
    }

    pub(super) fn embedding(&self, ids: &Tensor, table: &Tensor) -> Tensor {
        let copy = (!ids.is_contiguous()).then(|| self.tensor(ids.dims(), ids.dtype(), "clone"));
        let mut dims = ids.owned_dims();
        dims.push(table.dims()[1]);
        let out = self.tensor(&dims, table.dtype(), "embedding");
        drop(copy);
        self.record(out, Kind::Embedding, &[table], vec![ids.clone()])
    }

    /// `create_position_ids_from_input_ids` of transformers.
    pub(super) fn padded_positions(&self, ids: &Tensor) -> Tensor {
        let of = |dtype| self.tensor(ids.dims(), dtype, "positions");
        let not_padding = of(DType::Bool);
        let tokens = of(DType::I32);
        drop(not_padding);
        let sums = of(DType::I64);
        let wide = of(DType::I64);
        // A single sequence is summed by cub (ATen, cuda/ScanUtils.cuh, `scan_dim`).
        if ids.dims()[0] == 1 {
            let bytes = reduction::scan(ids.elements(), reduction::IDS_TILE);
            drop(self.bytes(bytes, "scan"));
        }
        drop(wide);
        let narrowed = of(DType::I32);
        drop(sums);
        let shifted = of(DType::I32);
        drop(narrowed);
        let numbers = of(DType::I32);
        drop(shifted);
        let widened = of(DType::I64);
        let positions = of(DType::I64);
        drop(widened);
        drop((tokens, numbers));
        positions
    }

    /// `linear`: more than two dimensions are folded by views (ATen, Linear.cpp,
    /// `_flatten_nd_linear`).
    pub(super) fn linear(&self, x: &Tensor, weight: &Tensor, bias: &Tensor) -> Tensor {
        // Arguments are cast from the last to the first (as traced).
        let bias = self.lowered(bias);
        let weight = self.lowered(weight);
        let x = self.lowered(x);
        let (out_width, in_width) = (weight.dims()[0], weight.dims()[1]);
        self.over_rows(&x, out_width, |mat1, rows| {
            let mat2 = self.transpose(&weight, 0, 1);
            let out = self.tensor(&[rows, out_width], x.dtype(), "addmm");
            self.cublas(out_width > 1 && in_width > 1);
            let saved = factors(mat1, &mat2).into_iter().flatten().collect();
            self.record(out, Kind::Addmm, &[&bias, mat1, &mat2], saved)
        })
    }

    /// `linear` of no bias.
    pub(super) fn linear_without_bias(&self, x: &Tensor, weight: &Tensor) -> Tensor {
        let weight = self.lowered(weight);
        let x = self.lowered(x);
        let out_width = weight.dims()[0];
        self.over_rows(&x, out_width, |mat1, rows| {
            let mat2 = self.transpose(&weight, 0, 1);
            let out = self.tensor(&[rows, out_width], x.dtype(), "mm");
            self.cublas(false);
            // By name, and the first factor is `self`.
            let saved = factors(mat1, &mat2).into_iter().rev().flatten().collect();
            self.record(out, Kind::Mm, &[mat1, &mat2], saved)
        })
    }

    /// A product of the rows of a tensor, whatever dimensions they have.
    fn over_rows(
        &self,
        x: &Tensor,
        out_width: u64,
        product: impl FnOnce(&Tensor, u64) -> Tensor,
    ) -> Tensor {
        let mut dims = x.owned_dims();
        let width = dims.pop().unwrap_or(1);
        let rows = dims.iter().product();
        dims.push(out_width);
        if dims.len() <= 2 {
            return product(x, rows);
        }
        let folded = self.reshape(x, &[rows, width]);
        let out = product(&folded, rows);
        self.view(&out, Layout::contiguous(&dims), Kind::View)
    }

    /// A batched product of matrices; operands that cannot be viewed as one batch are copied.
    pub(super) fn matmul(&self, x: &Tensor, y: &Tensor) -> Tensor {
        let y = self.lowered(y);
        let x = self.lowered(x);
        let [batch, heads, rows, inner] = x.dims()[..] else {
            unreachable!("attention multiplies tensors of four dimensions")
        };
        let columns = y.dims()[3];
        let mat1 = self.reshape(&x, &[batch * heads, rows, inner]);
        let mat2 = self.reshape(&y, &[batch * heads, inner, columns]);
        let out = self.tensor(&[batch * heads, rows, columns], x.dtype(), "bmm");
        self.cublas(false);
        // By name, and the first factor is `self`.
        let saved = factors(&mat1, &mat2).into_iter().rev().flatten().collect();
        let out = self.record(out, Kind::Bmm, &[&mat1, &mat2], saved);
        drop((mat2, mat1));
        self.view(
            &out,
            Layout::contiguous(&[batch, heads, rows, columns]),
            Kind::View,
        )
    }

    pub(super) fn layer_norm(&self, x: &Tensor, weight: &Tensor, bias: &Tensor) -> Tensor {
        let x = &self.raised(x);
        let out = self.tensor(x.dims(), x.dtype(), "layer_norm");
        let rows = &x.dims()[..x.dims().len() - 1];
        let mean = self.tensor(rows, DType::F32, "layer_norm");
        let deviation = self.tensor(rows, DType::F32, "layer_norm");
        let saved = vec![bias.clone(), x.clone(), weight.clone(), mean, deviation];
        self.record(out, Kind::LayerNorm, &[x, weight, bias], saved)
    }

    pub(super) fn add(&self, x: &Tensor, y: &Tensor) -> Tensor {
        let out = self.tensor(x.dims(), promoted(x, y), "add");
        self.record(out, Kind::Add, &[x, y], vec![])
    }

    pub(super) fn scale(&self, x: &Tensor) -> Tensor {
        let out = self.strided(x.layout().preserved(), x.dtype(), "mul");
        self.record(out, Kind::Scale, &[x], vec![])
    }

    /// [`Self::scale`] without a copy.
    pub(super) fn scale_in_place(&self, x: &Tensor) -> Tensor {
        self.view(x, x.layout().clone(), Kind::Scale)
    }

    pub(super) fn dropout(&self, x: &Tensor) -> Tensor {
        let mask = self.tensor(x.dims(), DType::Bool, "dropout");
        let out = self.tensor(x.dims(), x.dtype(), "dropout");
        self.record(out, Kind::Dropout, &[x], vec![mask])
    }

    /// A function that saves its input.
    pub(super) fn of_input(&self, x: &Tensor, op: &'static str) -> Tensor {
        let out = self.tensor(x.dims(), x.dtype(), op);
        self.record(out, Kind::Elementwise, &[x], vec![x.clone()])
    }

    /// A function that saves its result.
    pub(super) fn of_result(&self, x: &Tensor, op: &'static str, kind: Kind) -> Tensor {
        let out = self.tensor(x.dims(), x.dtype(), op);
        let saved = vec![out.clone()];
        self.record(out, kind, &[x], saved)
    }

    /// `x ** k`, which autocast runs in single precision.
    fn power(&self, x: &Tensor) -> Tensor {
        let x = &self.raised(x);
        let out = self.tensor(x.dims(), x.dtype(), "pow");
        self.record(out, Kind::Power, &[x], vec![x.clone()])
    }

    /// A number added to each element.
    fn shift(&self, x: &Tensor) -> Tensor {
        let out = self.tensor(x.dims(), x.dtype(), "add");
        self.record(out, Kind::Clone, &[x], vec![])
    }

    /// The product of the elements of two tensors.
    fn times(&self, x: &Tensor, y: &Tensor) -> Tensor {
        let out = self.tensor(x.dims(), promoted(x, y), "mul");
        self.record(out, Kind::Mul, &[x, y], vec![y.clone(), x.clone()])
    }

    /// `NewGELUActivation` of transformers.
    pub(super) fn gelu_new(&self, x: &Tensor) -> Tensor {
        let half = self.scale(x);
        let cube = self.power(x);
        let scaled = self.scale(&cube);
        drop(cube);
        let sum = self.add(x, &scaled);
        drop(scaled);
        let inner = self.scale(&sum);
        drop(sum);
        self.gate(half, inner)
    }

    /// `FastGELUActivation` of transformers.
    pub(super) fn gelu_fast(&self, x: &Tensor) -> Tensor {
        let half = self.scale(x);
        let scaled = self.scale(x);
        let narrow = self.scale(x);
        let square = self.times(&narrow, x);
        drop(narrow);
        let above_one = self.shift(&square);
        drop(square);
        let inner = self.times(&scaled, &above_one);
        drop((above_one, scaled));
        self.gate(half, inner)
    }

    /// `half * (1 + tanh(inner))`.
    fn gate(&self, half: Tensor, inner: Tensor) -> Tensor {
        let tanh = self.of_result(&inner, "tanh", Kind::Elementwise);
        drop(inner);
        let above_zero = self.shift(&tanh);
        drop(tanh);
        let out = self.times(&half, &above_zero);
        drop((above_zero, half));
        out
    }

    /// `softmax`, which autocast runs in single precision: half precision is read by the same
    /// kernel, bfloat16 is cast first (ATen, SoftMax.cpp, `softmax` with a dtype).
    pub(super) fn softmax(&self, x: &Tensor) -> Tensor {
        let reads_half = self.0.autocast.get().is_some() && x.dtype() == DType::F16;
        if !reads_half {
            return self.of_result(&self.raised(x), "softmax", Kind::Softmax);
        }
        let out = self.tensor(x.dims(), DType::F32, "softmax");
        let saved = vec![out.clone()];
        self.record(out, Kind::Softmax, &[x], saved)
    }

    /// `_safe_softmax`: rows that the mask leaves nothing of become zeros.
    pub(super) fn safe_softmax(&self, x: &Tensor) -> Tensor {
        let out = self.of_result(x, "_safe_softmax", Kind::Softmax);
        let masked = self.tensor(x.dims(), DType::Bool, "_safe_softmax");
        let mut rows = x.owned_dims();
        if let Some(last) = rows.last_mut() {
            *last = 1;
        }
        let rows = self.tensor(&rows, DType::Bool, "_safe_softmax");
        drop(self.tensor(&[], DType::F32, "_safe_softmax"));
        drop(rows);
        drop(masked);
        out
    }

    /// `cross_entropy` of `[.., C]` logits.
    pub(super) fn cross_entropy(&self, logits: &Tensor, labels: &Tensor) -> Tensor {
        let classes = logits.dims().last().copied().unwrap_or(1);
        let rows = logits.elements() / classes.max(1);
        let logits = self.reshape(logits, &[rows, classes]);
        let log_probabilities = self.of_result(&logits, "log_softmax", Kind::LogSoftmax);
        let log_probabilities = self.raised(&log_probabilities);
        let scalar = || self.tensor(&[], log_probabilities.dtype(), "nll_loss");
        let (loss, total_weight) = (scalar(), scalar());
        let saved = vec![log_probabilities.clone(), labels.clone(), total_weight];
        self.record(loss, Kind::NllLoss, &[&log_probabilities], saved)
    }

    pub(super) fn mean_square(&self, x: &Tensor) -> Tensor {
        let square = self.power(x);
        let mean = self.sum_to(&square, &[]);
        self.record(mean, Kind::Mean, &[&square], vec![])
    }
}

/// What a product saves: each factor for the gradient of the other.
fn factors(first: &Tensor, second: &Tensor) -> [Option<Tensor>; 2] {
    let needed = |other: &Tensor| other.edge().is_some();
    [
        needed(second).then(|| first.clone()),
        needed(first).then(|| second.clone()),
    ]
}

/// The type of what two tensors make together.
fn promoted(x: &Tensor, y: &Tensor) -> DType {
    if y.dtype() == DType::F32 {
        DType::F32
    } else {
        x.dtype()
    }
}
