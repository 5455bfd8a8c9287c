//! Shapes and strides of PyTorch's tensors: what can be viewed, and what must be copied.

use arrayvec::ArrayVec;

/// Sizes of the dimensions, outermost first; BERT's attention has four.
pub(super) type Dims = ArrayVec<u64, 5>;

/// A view of a storage, in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) dims: Dims,
    strides: Dims,
}

/// The number of elements, saturating: a product that saturates is refused when it is allocated.
pub(super) fn elements(dims: &[u64]) -> u64 {
    dims.iter().fold(1, |product, &d| product.saturating_mul(d))
}

impl Layout {
    /// Row-major.
    pub(super) fn contiguous(dims: &[u64]) -> Self {
        let mut strides: Dims = dims.iter().copied().collect();
        let mut step = 1u64;
        for (stride, &dim) in strides.iter_mut().zip(dims).rev() {
            *stride = step;
            step = step.saturating_mul(dim);
        }
        Self {
            dims: dims.iter().copied().collect(),
            strides,
        }
    }

    /// Whether the elements lie in row-major order; strides of dimensions of size 1 do not matter.
    pub(super) fn is_contiguous(&self) -> bool {
        let row_major = Self::contiguous(&self.dims);
        let mut dims = self.dims.iter().zip(&self.strides).zip(&row_major.strides);
        dims.all(|((&dim, stride), expected)| dim == 1 || stride == expected)
    }

    /// The layout of what an element-wise operation makes of this one: its own where the elements
    /// lie without gaps or repetition, in whatever order (ATen, TensorIterator.cpp).
    pub(super) fn preserved(&self) -> Self {
        let wide = self
            .dims
            .iter()
            .zip(&self.strides)
            .filter(|(d, _)| **d != 1);
        let mut by_stride: ArrayVec<(u64, u64), 5> = wide.map(|(&d, &s)| (s, d)).collect();
        by_stride.sort_unstable();
        let mut step = 1u64;
        let dense = by_stride.iter().all(|&(stride, dim)| {
            let expected = step;
            step = step.saturating_mul(dim);
            stride == expected
        });
        if dense {
            self.clone()
        } else {
            Self::contiguous(&self.dims)
        }
    }

    pub(super) fn transpose(&self, a: usize, b: usize) -> Self {
        let mut turned = self.clone();
        turned.dims.swap(a, b);
        turned.strides.swap(a, b);
        turned
    }

    /// The first of `dim`, without the dimension.
    pub(super) fn select(&self, dim: usize) -> Self {
        let mut rest = self.clone();
        rest.dims.remove(dim);
        rest.strides.remove(dim);
        rest
    }

    /// Repeats dimensions of size 1 without moving in memory.
    pub(super) fn expand(&self, dims: &[u64]) -> Self {
        let mut wide = self.clone();
        for (i, &dim) in dims.iter().enumerate() {
            if wide.dims[i] != dim {
                wide.dims[i] = dim;
                wide.strides[i] = 0;
            }
        }
        wide
    }

    /// The same elements in other dimensions, if no copy is needed: every new dimension must lie
    /// within one run of old dimensions that are contiguous with each other (ATen,
    /// TensorUtils.cpp, `computeStride`).
    pub(super) fn view(&self, dims: &[u64]) -> Option<Self> {
        let mut runs: ArrayVec<(u64, u64), 5> = ArrayVec::new();
        let old = self.dims.iter().zip(&self.strides).rev();
        for (&dim, &stride) in old.filter(|(dim, _)| **dim != 1) {
            match runs.last_mut() {
                Some((size, base)) if stride == size.saturating_mul(*base) => {
                    *size = size.saturating_mul(dim);
                }
                _ => runs.push((dim, stride)),
            }
        }
        let mut view = Self::contiguous(dims);
        let mut runs = runs.into_iter();
        let (mut left, mut step) = (1, 1);
        for (&dim, stride) in dims.iter().zip(&mut view.strides).rev() {
            if dim != 1 && left == 1 {
                (left, step) = runs.next()?;
            }
            if left % dim != 0 {
                return None;
            }
            *stride = step;
            left /= dim;
            step = step.saturating_mul(dim);
        }
        (left == 1 && runs.next().is_none()).then_some(view)
    }
}
