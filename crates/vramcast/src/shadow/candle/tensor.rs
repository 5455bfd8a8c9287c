//! candle's tensors without their values: shared storages, views, and the graph that keeps them.
//!
//! Every method allocates and frees what candle-core 0.11.1's method of the same name does, in the
//! same order. Rules that are not visible in a signature:
//!
//! * a result keeps its arguments alive, through its op, if any of them is tracked
//!   (candle-core, op.rs, `BackpropOp`);
//! * a tensor dies in the order storage, then the arguments of its op (tensor.rs, `Tensor_`).

use super::device::{Device, Flavour, Reads, Storage};
use super::layout::{Dims, Layout, broadcast, dims, elements};
use super::op::{Binary, Op, Reduce, Unary};
use crate::dtype::DType;
use crate::timeline::ScopeId;
use std::rc::Rc;

/// A shadow of candle's `Tensor`.
#[derive(Clone, Debug)]
pub(crate) struct Tensor(Rc<Node>);

// The order of the fields is the order in which they are dropped, as in candle.
#[derive(Debug)]
struct Node {
    id: u32,
    storage: Storage,
    layout: Layout,
    op: Option<Op>,
    is_variable: bool,
    dtype: DType,
    scope: ScopeId,
}

impl Device {
    /// A fresh contiguous tensor of `dims`.
    pub(crate) fn tensor(&self, shape: Dims, dtype: DType, op: &'static str) -> Tensor {
        self.fresh(shape, dtype, op, Reads::NOTHING, None, false)
    }

    /// A fresh variable: a leaf that gradients are computed for.
    pub(crate) fn variable(&self, shape: Dims, dtype: DType, op: &'static str) -> Tensor {
        self.fresh(shape, dtype, op, Reads::NOTHING, None, true)
    }

    /// Normal random values. The CUDA generator makes an even number of them
    /// (cuda_backend/device.rs, `rand_normal`), and those of half precision from single precision
    /// (device.rs, `rand_normal_f64`).
    pub(crate) fn randn(&self, shape: Dims, dtype: DType, is_variable: bool) -> Tensor {
        let n = elements(&shape);
        let storage = match self.flavour() {
            Flavour::Cpu => self.storage(n, dtype, "randn", Reads::NOTHING),
            Flavour::Cuda => {
                let even = n.next_multiple_of(2);
                let made = self.storage(even, DType::F32, "randn", Reads::NOTHING);
                if dtype == DType::F32 {
                    made
                } else {
                    let read = Reads::InOrder(n.saturating_mul(DType::F32.bits()) / 8);
                    self.storage(n, dtype, "to_dtype", read)
                }
            }
        };
        self.node(storage, Layout::contiguous(shape), dtype, None, is_variable)
    }

    fn fresh(
        &self,
        shape: Dims,
        dtype: DType,
        name: &'static str,
        reads: Reads,
        op: Option<Op>,
        is_variable: bool,
    ) -> Tensor {
        let storage = self.storage(elements(&shape), dtype, name, reads);
        self.node(storage, Layout::contiguous(shape), dtype, op, is_variable)
    }

    fn node(
        &self,
        storage: Storage,
        layout: Layout,
        dtype: DType,
        op: Option<Op>,
        is_variable: bool,
    ) -> Tensor {
        let id = self.next_id();
        let scope = self.tape().scope();
        Tensor(Rc::new(Node {
            id,
            storage,
            layout,
            op,
            is_variable,
            dtype,
            scope,
        }))
    }
}

impl Tensor {
    pub(crate) fn id(&self) -> u32 {
        self.0.id
    }
    pub(crate) fn dims(&self) -> &[u64] {
        &self.0.layout.dims
    }
    pub(crate) fn rank(&self) -> usize {
        self.0.layout.rank()
    }
    pub(crate) fn dim_from_end(&self, back: usize) -> u64 {
        self.dims()[self.rank() - back]
    }
    pub(crate) fn dtype(&self) -> DType {
        self.0.dtype
    }
    pub(crate) fn op(&self) -> Option<&Op> {
        self.0.op.as_ref()
    }
    pub(crate) fn is_variable(&self) -> bool {
        self.0.is_variable
    }
    pub(crate) fn scope(&self) -> ScopeId {
        self.0.scope
    }
    pub(crate) fn device(&self) -> &Device {
        &self.0.storage.device
    }
    pub(crate) fn is_contiguous(&self) -> bool {
        self.0.layout.is_contiguous()
    }

    fn tracked(&self) -> bool {
        self.0.is_variable || self.0.op.is_some()
    }

    fn op1(&self, op: impl FnOnce(Tensor) -> Op) -> Option<Op> {
        self.tracked().then(|| op(self.clone()))
    }

    fn op2(&self, other: &Self, op: impl FnOnce(Tensor, Tensor) -> Op) -> Option<Op> {
        (self.tracked() || other.tracked()).then(|| op(self.clone(), other.clone()))
    }

    /// A result whose kernel reads all of `self`.
    fn result(&self, shape: Dims, dtype: DType, name: &'static str, op: Option<Op>) -> Tensor {
        self.result_of(shape, dtype, name, self.reads(), op)
    }

    fn result_of(
        &self,
        shape: Dims,
        dtype: DType,
        name: &'static str,
        reads: Reads,
        op: Option<Op>,
    ) -> Tensor {
        self.device().fresh(shape, dtype, name, reads, op, false)
    }

    fn bytes(&self) -> u64 {
        self.0.layout.elements().saturating_mul(self.dtype().bits()) / 8
    }

    fn reads(&self) -> Reads {
        if self.is_contiguous() {
            Reads::InOrder(self.bytes())
        } else {
            Reads::Indexed(self.bytes())
        }
    }

    fn reads_with(&self, other: &Tensor) -> Reads {
        let bytes = self.bytes().saturating_add(other.bytes());
        if self.is_contiguous() && other.is_contiguous() {
            Reads::InOrder(bytes)
        } else {
            Reads::Indexed(bytes)
        }
    }

    fn view(&self, layout: Layout, op: Option<Op>) -> Tensor {
        self.device()
            .node(self.0.storage.clone(), layout, self.0.dtype, op, false)
    }

    /// The upload of this view's dims and strides, if it is strided.
    fn params_if_strided(&self) -> Option<Storage> {
        if self.is_contiguous() {
            None
        } else {
            self.device().params(2 * self.rank())
        }
    }

    fn same_dims(&self) -> Dims {
        self.0.layout.dims.clone()
    }

    pub(crate) fn zeros_like(&self) -> Tensor {
        self.result_of(
            self.same_dims(),
            self.dtype(),
            "zeros",
            Reads::NOTHING,
            None,
        )
    }

    pub(crate) fn ones_like(&self) -> Tensor {
        self.result_of(self.same_dims(), self.dtype(), "ones", Reads::NOTHING, None)
    }

    /// A tensor outside the graph that shares the storage.
    pub(crate) fn detach(&self) -> Tensor {
        if self.tracked() {
            self.view(self.0.layout.clone(), None)
        } else {
            self.clone()
        }
    }

    pub(crate) fn unary(&self, op: Unary) -> Tensor {
        let _params = self.params_if_strided();
        let kept = self.op1(|t| Op::Unary(t, op));
        self.result(self.same_dims(), self.dtype(), op.into(), kept)
    }

    /// `self * mul + add`.
    pub(crate) fn affine(&self) -> Tensor {
        let _params = self.params_if_strided();
        self.result(
            self.same_dims(),
            self.dtype(),
            "affine",
            self.op1(Op::Affine),
        )
    }

    pub(crate) fn powf(&self) -> Tensor {
        let _params = self.params_if_strided();
        self.result(self.same_dims(), self.dtype(), "powf", self.op1(Op::Powf))
    }

    fn params_of_two(&self, rhs: &Tensor) -> Option<Storage> {
        if self.is_contiguous() && rhs.is_contiguous() {
            None
        } else {
            self.device().params(3 * self.rank())
        }
    }

    pub(crate) fn binary(&self, rhs: &Tensor, op: Binary) -> Tensor {
        debug_assert_eq!(self.dims(), rhs.dims(), "{op:?}");
        let _params = self.params_of_two(rhs);
        let kept = self.op2(rhs, |a, b| Op::Binary(a, b, op));
        let reads = self.reads_with(rhs);
        self.result_of(self.same_dims(), self.dtype(), op.into(), reads, kept)
    }

    pub(crate) fn add(&self, rhs: &Tensor) -> Tensor {
        self.binary(rhs, Binary::Add)
    }
    pub(crate) fn sub(&self, rhs: &Tensor) -> Tensor {
        self.binary(rhs, Binary::Sub)
    }
    pub(crate) fn mul(&self, rhs: &Tensor) -> Tensor {
        self.binary(rhs, Binary::Mul)
    }
    pub(crate) fn div(&self, rhs: &Tensor) -> Tensor {
        self.binary(rhs, Binary::Div)
    }

    /// A binary operation whose operands are views expanded to a common shape, where they differ.
    pub(crate) fn broadcast_binary(&self, rhs: &Tensor, op: Binary) -> Tensor {
        let shape = broadcast(self.dims(), rhs.dims());
        match (self.dims() != &shape[..], rhs.dims() != &shape[..]) {
            (false, false) => self.binary(rhs, op),
            (false, true) => self.binary(&rhs.broadcast_as(&shape), op),
            (true, false) => self.broadcast_as(&shape).binary(rhs, op),
            (true, true) => self
                .broadcast_as(&shape)
                .binary(&rhs.broadcast_as(&shape), op),
        }
    }

    /// An element-wise comparison: a tensor of bytes.
    pub(crate) fn cmp(&self, rhs: &Tensor) -> Tensor {
        let _params = self.params_of_two(rhs);
        let reads = self.reads_with(rhs);
        self.result_of(self.same_dims(), DType::U8, "cmp", reads, self.op1(Op::Cmp))
    }

    pub(crate) fn to_dtype(&self, dtype: DType) -> Tensor {
        if self.dtype() == dtype {
            return self.clone();
        }
        let _params = self.params_if_strided();
        self.result(self.same_dims(), dtype, "to_dtype", self.op1(Op::ToDType))
    }

    pub(crate) fn reduce_keepdim(&self, over: &[usize], op: Reduce) -> Tensor {
        let _params = self.device().params(2 * self.rank());
        let mut shape = self.same_dims();
        for &dim in over {
            shape[dim] = 1;
        }
        let kept = self.op1(|t| Op::Reduce(t, op));
        let reads = Reads::Indexed(self.bytes());
        self.result_of(shape, self.dtype(), op.into(), reads, kept)
    }

    /// The sum over everything: a scalar.
    pub(crate) fn sum_all(&self) -> Tensor {
        let over: ArrayVecUsize = (0..self.rank()).collect();
        let sum = self.reduce_keepdim(&over, Reduce::Sum);
        match self.rank() {
            0 => sum,
            1 => sum.squeeze(0),
            _ => sum.reshape(&[]),
        }
    }

    pub(crate) fn matmul(&self, rhs: &Tensor) -> Tensor {
        debug_assert_eq!(self.dim_from_end(1), rhs.dim_from_end(2), "matmul");
        let mut shape = self.same_dims();
        *shape.last_mut().expect("matmul of a matrix") = rhs.dim_from_end(1);
        let inner = self.dim_from_end(1).saturating_mul(2);
        let flops = elements(&shape).saturating_mul(inner);
        let reads = match self.dtype() {
            DType::F32 => Reads::Product(flops),
            _ => Reads::HalfProduct(flops),
        };
        self.result_of(
            shape,
            self.dtype(),
            "matmul",
            reads,
            self.op2(rhs, Op::Matmul),
        )
    }

    pub(crate) fn broadcast_as(&self, shape: &[u64]) -> Tensor {
        self.view(self.0.layout.broadcast_as(shape), self.op1(Op::Broadcast))
    }

    pub(crate) fn transpose(&self, a: usize, b: usize) -> Tensor {
        self.view(
            self.0.layout.transpose(a, b),
            self.op1(|t| Op::Transpose(t, a as u8, b as u8)),
        )
    }

    pub(crate) fn t(&self) -> Tensor {
        self.transpose(self.rank() - 2, self.rank() - 1)
    }

    pub(crate) fn unsqueeze(&self, dim: usize) -> Tensor {
        self.view(self.0.layout.unsqueeze(dim), self.op1(Op::Reshape))
    }

    pub(crate) fn squeeze(&self, dim: usize) -> Tensor {
        if self.dims()[dim] != 1 {
            return self.clone();
        }
        self.view(self.0.layout.squeeze(dim), self.op1(Op::Reshape))
    }

    pub(crate) fn narrow(&self, dim: usize, start: u64, len: u64) -> Tensor {
        if start == 0 && len == self.dims()[dim] {
            return self.clone();
        }
        let op = self.op1(|arg| Op::Narrow {
            arg,
            dim: dim as u8,
            start: start as u32,
            len: len as u32,
        });
        self.view(self.0.layout.narrow(dim, len), op)
    }

    /// A copy of a strided view: the output is made before the strides are uploaded.
    fn copy_into(&self, shape: Dims, name: &'static str, op: Option<Op>) -> Tensor {
        let out = self.result(shape, self.dtype(), name, op);
        drop(self.params_if_strided());
        out
    }

    /// A variable with the same values.
    pub(crate) fn make_var(&self) -> Tensor {
        let shape = self.same_dims();
        let device = self.device();
        let out = device.fresh(shape, self.dtype(), "copy", self.reads(), None, true);
        drop(self.params_if_strided());
        out
    }

    pub(crate) fn contiguous(&self) -> Tensor {
        if self.is_contiguous() {
            return self.clone();
        }
        self.copy_into(self.same_dims(), "contiguous", self.op1(Op::Copy))
    }

    pub(crate) fn reshape(&self, shape: &[u64]) -> Tensor {
        debug_assert_eq!(
            elements(shape),
            self.0.layout.elements(),
            "reshape to {shape:?}"
        );
        let op = self.op1(Op::Reshape);
        if self.is_contiguous() {
            self.view(Layout::contiguous(dims(shape)), op)
        } else {
            self.copy_into(dims(shape), "reshape", op)
        }
    }

    /// Merges the dimensions from `start` to the last.
    pub(crate) fn flatten_from(&self, start: usize) -> Tensor {
        if start + 1 >= self.rank() {
            return self.clone();
        }
        let mut shape = dims(&self.dims()[..start]);
        shape.push(elements(&self.dims()[start..]));
        self.reshape(&shape)
    }

    /// Rows of `self` along dimension 0, for rank-1 `ids`.
    pub(crate) fn index_select(&self, ids: &Tensor) -> Tensor {
        let _params = self.device().params(2 * ids.rank());
        let mut shape = self.same_dims();
        shape[0] = ids.dims()[0];
        // As many bytes are read as are written.
        let bytes = elements(&shape).saturating_mul(self.dtype().bits()) / 8;
        let kept = self.op2(ids, Op::IndexSelect);
        let reads = Reads::Indexed(bytes);
        self.result_of(shape, self.dtype(), "index_select", reads, kept)
    }

    pub(crate) fn gather(&self, ids: &Tensor) -> Tensor {
        let kept = self.op2(ids, Op::Gather);
        self.result_of(ids.same_dims(), self.dtype(), "gather", ids.reads(), kept)
    }

    /// A copy of `self` with the rows of `source` added.
    pub(crate) fn index_add(&self, ids: &Tensor, source: &Tensor) -> Tensor {
        let any = self.tracked() || ids.tracked() || source.tracked();
        let op = any.then(|| Op::IndexAdd(self.clone(), ids.clone(), source.clone()));
        self.copy_into(self.same_dims(), "index_add", op)
    }

    /// A copy of `self` with the elements of `source` added.
    pub(crate) fn scatter_add(&self, ids: &Tensor, source: &Tensor) -> Tensor {
        let any = self.tracked() || ids.tracked() || source.tracked();
        let op = any.then(|| Op::ScatterAdd(self.clone(), ids.clone(), source.clone()));
        self.copy_into(self.same_dims(), "scatter_add", op)
    }

    /// Concatenation along `dim` (candle-core, tensor_cat.rs): block copies where every argument
    /// allows them, else strided copies, of the transposed arguments unless `dim` is 0. Only
    /// gradients are concatenated so far, and those are not tracked.
    pub(crate) fn cat(args: &[&Tensor], dim: usize) -> Tensor {
        let blocks = args.iter().all(|t| t.0.layout.copies_in_blocks(dim));
        if !blocks && dim != 0 {
            let turned: Vec<Tensor> = args.iter().map(|t| t.transpose(0, dim)).collect();
            let turned: Vec<&Tensor> = turned.iter().collect();
            return Self::cat_rows(&turned).transpose(0, dim);
        }
        if blocks {
            Self::cat_blocks(args, dim)
        } else {
            Self::cat_rows(args)
        }
    }

    fn cat_blocks(args: &[&Tensor], dim: usize) -> Tensor {
        let mut shape = args[0].same_dims();
        shape[dim] = args.iter().map(|t| t.dims()[dim]).sum();
        debug_assert!(
            !args.iter().any(|t| t.tracked()),
            "a tracked concatenation has no rule yet"
        );
        args[0].result(shape, args[0].dtype(), "cat", None)
    }

    fn cat_rows(args: &[&Tensor]) -> Tensor {
        let out = Self::cat_blocks(args, 0);
        for arg in args {
            drop(arg.params_if_strided());
        }
        out
    }
}

type ArrayVecUsize = arrayvec::ArrayVec<usize, 6>;
