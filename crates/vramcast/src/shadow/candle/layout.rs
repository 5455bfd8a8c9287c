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
    /// `None` where the elements lie in row-major order. Most do, and tensors are made by the
    /// ten thousand, so strides are stored only where they say something.
    strides: Option<Box<Dims>>,
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
        Self {
            dims,
            strides: None,
        }
    }

    /// With these strides. Row-major order is recognised: the strides of dimensions of size 1 do
    /// not matter (candle-core, shape.rs, `is_contiguous`).
    fn strided(dims: Dims, strides: Dims) -> Self {
        let mut step = 1u64;
        for (&stride, &dim) in strides.iter().zip(&dims).rev() {
            if dim > 1 && stride != step {
                return Self {
                    dims,
                    strides: Some(Box::new(strides)),
                };
            }
            step = step.saturating_mul(dim);
        }
        Self {
            dims,
            strides: None,
        }
    }

    fn strides(&self) -> Dims {
        self.strides.as_deref().cloned().unwrap_or_else(|| {
            let mut strides = self.dims.clone();
            let mut step = 1u64;
            for (stride, &dim) in strides.iter_mut().zip(&self.dims).rev() {
                *stride = step;
                step = step.saturating_mul(dim);
            }
            strides
        })
    }

    pub(crate) fn rank(&self) -> usize {
        self.dims.len()
    }

    pub(crate) fn elements(&self) -> u64 {
        elements(&self.dims)
    }

    pub(crate) fn is_contiguous(&self) -> bool {
        self.strides.is_none()
    }

    pub(crate) fn transpose(&self, a: usize, b: usize) -> Self {
        let (mut dims, mut strides) = (self.dims.clone(), self.strides());
        dims.swap(a, b);
        strides.swap(a, b);
        Self::strided(dims, strides)
    }

    pub(crate) fn narrow(&self, dim: usize, len: u64) -> Self {
        let (mut dims, strides) = (self.dims.clone(), self.strides());
        dims[dim] = len;
        Self::strided(dims, strides)
    }

    /// Inserts a dimension of size 1.
    pub(crate) fn unsqueeze(&self, dim: usize) -> Self {
        let (mut dims, mut strides) = (self.dims.clone(), self.strides());
        let stride = strides.get(dim).copied().unwrap_or(1);
        dims.insert(dim, 1);
        strides.insert(dim, stride);
        Self::strided(dims, strides)
    }

    /// Removes a dimension of size 1.
    pub(crate) fn squeeze(&self, dim: usize) -> Self {
        let (mut dims, mut strides) = (self.dims.clone(), self.strides());
        dims.remove(dim);
        strides.remove(dim);
        Self::strided(dims, strides)
    }

    /// Repeats dimensions of size 1, and adds dimensions on the left, by strides of 0.
    pub(crate) fn broadcast_as(&self, target: &[u64]) -> Self {
        let added = target.len() - self.rank();
        let mut strides: Dims = std::iter::repeat_n(0, added).collect();
        let own = self.strides();
        for ((&to, &from), &stride) in target[added..].iter().zip(&self.dims).zip(&own) {
            strides.push(if to == from { stride } else { 0 });
        }
        Self::strided(dims(target), strides)
    }

    /// Whether a strided block copy along `dim` can read this view: contiguous from `dim` inwards,
    /// and one stride for everything outside (candle-core, layout.rs, `outer_stride_for_dim`).
    pub(crate) fn copies_in_blocks(&self, dim: usize) -> bool {
        if self.is_contiguous() {
            return true;
        }
        let strides = self.strides();
        let mut step = 1;
        for i in (dim..self.rank()).rev() {
            if strides[i] != step {
                return false;
            }
            step *= self.dims[i];
        }
        (1..dim).all(|i| strides[i - 1] == self.dims[i] * strides[i])
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
