//! Shapes and strides of candle's tensors: just enough to know which views are contiguous, since
//! that decides what is copied and which kernels upload their strides.

use arrayvec::ArrayVec;

/// The most dimensions a tensor has here; candle's models use up to five.
const MAX_RANK: usize = 6;

/// Sizes of the dimensions, outermost first.
pub(crate) type Dims = ArrayVec<u64, MAX_RANK>;

/// A view of a storage, in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) dims: Dims,
    strides: Dims,
}

/// `dims` as the fixed-capacity list that layouts hold.
pub(crate) fn dims(dims: &[u64]) -> Dims {
    dims.iter().copied().collect()
}

/// The number of elements, saturating: a product that saturates is refused when it is allocated.
pub(crate) fn elements(dims: &[u64]) -> u64 {
    dims.iter().fold(1, |product, &d| product.saturating_mul(d))
}

impl Layout {
    /// Row-major.
    pub(crate) fn contiguous(dims: Dims) -> Self {
        let mut strides = dims.clone();
        let mut step = 1u64;
        for (stride, &dim) in strides.iter_mut().zip(&dims).rev() {
            *stride = step;
            step = step.saturating_mul(dim);
        }
        Self { dims, strides }
    }

    pub(crate) fn rank(&self) -> usize {
        self.dims.len()
    }

    pub(crate) fn elements(&self) -> u64 {
        elements(&self.dims)
    }

    /// Whether the elements lie in row-major order; the strides of dimensions of size 1 do not
    /// matter (candle-core, shape.rs, `is_contiguous`).
    pub(crate) fn is_contiguous(&self) -> bool {
        let mut step = 1u64;
        for (&stride, &dim) in self.strides.iter().zip(&self.dims).rev() {
            if dim > 1 && stride != step {
                return false;
            }
            step = step.saturating_mul(dim);
        }
        true
    }

    pub(crate) fn transpose(&self, a: usize, b: usize) -> Self {
        let mut layout = self.clone();
        layout.dims.swap(a, b);
        layout.strides.swap(a, b);
        layout
    }

    pub(crate) fn narrow(&self, dim: usize, len: u64) -> Self {
        let mut layout = self.clone();
        layout.dims[dim] = len;
        layout
    }

    /// Inserts a dimension of size 1, with the stride that candle gives it.
    pub(crate) fn unsqueeze(&self, dim: usize) -> Self {
        let mut layout = self.clone();
        let stride = layout.strides.get(dim).copied().unwrap_or(1);
        layout.dims.insert(dim, 1);
        layout.strides.insert(dim, stride);
        layout
    }

    /// Removes a dimension of size 1.
    pub(crate) fn squeeze(&self, dim: usize) -> Self {
        let mut layout = self.clone();
        layout.dims.remove(dim);
        layout.strides.remove(dim);
        layout
    }

    /// Repeats dimensions of size 1, and adds dimensions on the left, by strides of 0.
    pub(crate) fn broadcast_as(&self, target: &[u64]) -> Self {
        let added = target.len() - self.rank();
        let mut strides: Dims = std::iter::repeat_n(0, added).collect();
        for ((&to, &from), &stride) in target[added..].iter().zip(&self.dims).zip(&self.strides) {
            strides.push(if to == from { stride } else { 0 });
        }
        Self {
            dims: dims(target),
            strides,
        }
    }

    /// Whether a strided block copy along `dim` can read this view: contiguous from `dim` inwards,
    /// and one stride for everything outside (candle-core, layout.rs, `outer_stride_for_dim`).
    pub(crate) fn copies_in_blocks(&self, dim: usize) -> bool {
        if self.is_contiguous() {
            return true;
        }
        let mut step = 1;
        for i in (dim..self.rank()).rev() {
            if self.strides[i] != step {
                return false;
            }
            step *= self.dims[i];
        }
        (1..dim).all(|i| self.strides[i - 1] == self.dims[i] * self.strides[i])
    }
}

/// The shape that two tensors broadcast to.
pub(crate) fn broadcast(a: &[u64], b: &[u64]) -> Dims {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let added = long.len() - short.len();
    let mut shape = dims(long);
    for (to, &other) in shape[added..].iter_mut().zip(short) {
        debug_assert!(
            *to == other || *to == 1 || other == 1,
            "{a:?} and {b:?} do not broadcast"
        );
        *to = (*to).max(other);
    }
    shape
}
