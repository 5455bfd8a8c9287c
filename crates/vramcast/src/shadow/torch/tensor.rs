//! Tensors without values: shared storages that free themselves, views of them, and the edge into
//! the graph.

use super::autograd::{Edge, Graph, Saving};
use super::layout::{Dims, Layout, elements};
use super::process::LT_WORKSPACE;
use super::profile::Profile;
use crate::dtype::DType;
use crate::shadow::Tape;
use crate::timeline::{Category, Work};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a run shares: the tape, the graph of the forward pass, and what is allocated once.
#[derive(Clone)]
pub(super) struct Device(pub(super) Rc<State>);

pub(super) struct State {
    pub(super) tape: Tape,
    pub(super) profile: Profile,
    pub(super) graph: RefCell<Graph>,
    /// Whether operations are recorded for a backward pass.
    pub(super) records: Cell<bool>,
    /// What becomes of what operations save.
    pub(super) saving: Cell<Saving>,
    /// The type that autocast lowers products to.
    pub(super) autocast: Cell<Option<DType>>,
    /// Lowered parameters, by number, kept until autocast ends.
    pub(super) casts: RefCell<BTreeMap<u32, Tensor>>,
    /// Whether the running thread is autograd's.
    pub(super) in_backward: Cell<bool>,
    forward_workspaces: Workspaces,
    backward_workspaces: Workspaces,
}

/// What cuBLAS and cuBLASLt hold for a thread (as traced). Never given back.
#[derive(Default)]
struct Workspaces {
    cublas: RefCell<Option<Storage>>,
    lt: RefCell<Option<Storage>>,
}

/// A share of a buffer, given back when the last one dies.
pub(super) struct Storage {
    device: std::rc::Weak<State>,
    buffer: u32,
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Some(device) = self.device.upgrade() {
            device.tape.release(self.buffer);
        }
    }
}

/// A tensor; clones are references to the same one.
#[derive(Clone)]
pub(crate) struct Tensor(Rc<Value>);

struct Value {
    storage: Rc<Storage>,
    layout: Layout,
    dtype: DType,
    is_view: bool,
    edge: Option<Edge>,
}

impl Device {
    pub(super) fn new(profile: Profile, records: bool) -> Self {
        Self(Rc::new(State {
            tape: Tape::default(),
            profile,
            graph: RefCell::default(),
            records: Cell::new(records),
            saving: Cell::new(Saving::Keep),
            autocast: Cell::new(None),
            casts: RefCell::default(),
            in_backward: Cell::new(false),
            forward_workspaces: Workspaces::default(),
            backward_workspaces: Workspaces::default(),
        }))
    }

    pub(super) fn bytes(&self, bytes: u64, op: &'static str) -> Storage {
        self.storage(self.0.tape.alloc(bytes, 8, op, Work::InOrder(bytes)))
    }

    /// So many bytes that nothing reads.
    pub(super) fn bytes_tensor(&self, bytes: u64, op: &'static str) -> Tensor {
        self.tensor(&[bytes], DType::U8, op)
    }

    /// A fresh contiguous tensor.
    pub(super) fn tensor(&self, dims: &[u64], dtype: DType, op: &'static str) -> Tensor {
        self.strided(Layout::contiguous(dims), dtype, op)
    }

    /// A fresh tensor whose elements lie as `layout` says, without gaps.
    pub(super) fn strided(&self, layout: Layout, dtype: DType, op: &'static str) -> Tensor {
        let n = elements(&layout.dims);
        let bytes = n.saturating_mul(dtype.bits()) / 8;
        let buffer = self.0.tape.alloc(n, dtype.bits(), op, Work::InOrder(bytes));
        Tensor::whole(self.storage(buffer), layout, dtype)
    }

    fn storage(&self, buffer: u32) -> Storage {
        Storage {
            device: Rc::downgrade(&self.0),
            buffer,
        }
    }

    /// What is left of a tensor whose memory is gone: nothing reads it any more.
    pub(super) fn ghost(&self, layout: Layout, dtype: DType) -> Tensor {
        let storage = Storage {
            device: std::rc::Weak::new(),
            buffer: 0,
        };
        Tensor::whole(storage, layout, dtype)
    }

    /// A matrix product's first use of cuBLAS on a thread takes a workspace, after the product's
    /// output; its first addition of a bias one for cuBLASLt.
    pub(super) fn cublas(&self, with_bias: bool) {
        let of_thread = if self.0.in_backward.get() {
            &self.0.backward_workspaces
        } else {
            &self.0.forward_workspaces
        };
        let take = |slot: &RefCell<Option<Storage>>, bytes, op| {
            if slot.borrow().is_none() {
                let make = || self.bytes(bytes, op);
                let tape = &self.0.tape;
                *slot.borrow_mut() = Some(tape.with_category(Category::Workspaces, make));
            }
        };
        take(
            &of_thread.cublas,
            self.0.profile.card.cublas_workspace(),
            "cublas workspace",
        );
        if with_bias {
            take(&of_thread.lt, LT_WORKSPACE, "cublaslt workspace");
        }
    }
}

impl Tensor {
    /// The only tensor of a storage, which is no view and has no edge.
    fn whole(storage: Storage, layout: Layout, dtype: DType) -> Self {
        Self(Rc::new(Value {
            storage: Rc::new(storage),
            layout,
            dtype,
            is_view: false,
            edge: None,
        }))
    }

    pub(super) fn dims(&self) -> &[u64] {
        &self.0.layout.dims
    }

    pub(super) fn owned_dims(&self) -> Dims {
        self.0.layout.dims.clone()
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.0.layout
    }

    pub(super) fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// The number of its storage's buffer.
    pub(super) fn buffer(&self) -> u32 {
        self.0.storage.buffer
    }

    pub(super) fn elements(&self) -> u64 {
        elements(self.dims())
    }

    pub(super) fn edge(&self) -> Option<Edge> {
        self.0.edge
    }

    pub(super) fn is_contiguous(&self) -> bool {
        self.0.layout.is_contiguous()
    }

    /// The same tensor with an edge: only for one that nothing else refers to yet.
    pub(super) fn with_edge(self, edge: Option<Edge>) -> Self {
        let value = Rc::try_unwrap(self.0).unwrap_or_else(|shared| Value {
            storage: shared.storage.clone(),
            layout: shared.layout.clone(),
            ..*shared
        });
        Self(Rc::new(Value { edge, ..value }))
    }

    /// Another layout of the same storage, without an edge.
    pub(super) fn viewed(&self, layout: Layout) -> Self {
        Self(Rc::new(Value {
            storage: self.0.storage.clone(),
            layout,
            dtype: self.0.dtype,
            is_view: true,
            edge: None,
        }))
    }

    /// Whether something may be added to it in place: a gradient of its own, seen by nobody else
    /// (torch/csrc/autograd/input_buffer.cpp; as traced).
    pub(super) fn may_be_written(&self) -> bool {
        !self.0.is_view && Rc::strong_count(&self.0) == 1 && Rc::strong_count(&self.0.storage) == 1
    }

    /// Whether nothing else refers to this tensor.
    pub(super) fn is_unshared(&self) -> bool {
        Rc::strong_count(&self.0) == 1
    }
}
