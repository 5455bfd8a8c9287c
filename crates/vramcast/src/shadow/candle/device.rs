//! Where shadow tensors are made, and the buffers that they share.
//!
//! On CUDA, strided kernels upload dimensions and strides as a buffer of 8 bytes each that lives
//! from just before the output until the call returns (cuda_backend/mod.rs, `SlicePtrOrNull`).

use crate::dtype::DType;
use crate::shadow::Tape;
use crate::timeline::Work;
use std::cell::Cell;
use std::rc::Rc;

/// Which of candle's backends is followed. They differ in the uploads that strided kernels need and
/// in the rounding of normal random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// `Device::Cpu`.
    Cpu,
    /// `Device::Cuda`.
    Cuda,
}

/// Where shadow tensors are made: the tape, and the flavour of the device.
#[derive(Clone, Debug)]
pub(crate) struct Device(Rc<DeviceState>);

#[derive(Debug)]
struct DeviceState {
    tape: Tape,
    flavour: Flavour,
    next_id: Cell<u32>,
}

/// A share of a buffer, which is freed with the last share. Counting on the tape saves an
/// allocation for every tensor.
#[derive(Debug)]
pub(super) struct Storage {
    pub(super) device: Device,
    buffer: u32,
}

impl Clone for Storage {
    fn clone(&self) -> Self {
        self.device.tape().share(self.buffer);
        Self {
            device: self.device.clone(),
            buffer: self.buffer,
        }
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        self.device.tape().release(self.buffer);
    }
}

/// A host vector, alive until it is dropped.
pub(crate) struct HostVec {
    _storage: Storage,
}
/// What a kernel reads to make its result, in bytes, and how.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reads {
    /// In the order in which it writes.
    InOrder(u64),
    /// At computed indices.
    Indexed(u64),
    /// A matrix product with so many operations.
    Product(u64),
    /// The same in half precision.
    HalfProduct(u64),
}

impl Reads {
    pub(super) const NOTHING: Self = Self::InOrder(0);

    /// The work of a kernel that reads this and writes `bytes`.
    fn writing(self, bytes: u64) -> Work {
        match self {
            Self::InOrder(read) => Work::InOrder(read.saturating_add(bytes)),
            Self::Indexed(read) => Work::Indexed(read.saturating_add(bytes)),
            Self::Product(flops) => Work::Product(flops),
            Self::HalfProduct(flops) => Work::HalfProduct(flops),
        }
    }
}

impl Device {
    pub(crate) fn new(flavour: Flavour) -> Self {
        Self(Rc::new(DeviceState {
            tape: Tape::default(),
            flavour,
            next_id: Cell::new(0),
        }))
    }

    /// What is written here.
    pub(crate) fn tape(&self) -> &Tape {
        &self.0.tape
    }

    pub(super) fn storage(
        &self,
        elements: u64,
        dtype: DType,
        op: &'static str,
        reads: Reads,
    ) -> Storage {
        let work = reads.writing(elements.saturating_mul(dtype.bits()) / 8);
        let buffer = self.tape().alloc(elements, dtype.bits(), op, work);
        Storage {
            device: self.clone(),
            buffer,
        }
    }

    /// A vector on the host that a tensor is copied from. On the CPU it is memory of the same kind
    /// as a tensor's; on CUDA it is not on the device.
    pub(crate) fn host_vec(&self, elements: u64, dtype: DType) -> Option<HostVec> {
        (self.0.flavour == Flavour::Cpu).then(|| HostVec {
            _storage: self.storage(elements, dtype, "vec", Reads::NOTHING),
        })
    }

    /// The upload that a strided CUDA kernel makes, alive until it is dropped.
    pub(super) fn params(&self, words: usize) -> Option<Storage> {
        match self.0.flavour {
            Flavour::Cpu => None,
            Flavour::Cuda => {
                let buffer = self.tape().alloc(words as u64, 64, "params", Work::Upload);
                Some(Storage {
                    device: self.clone(),
                    buffer,
                })
            }
        }
    }

    /// The number of the next tensor.
    pub(super) fn next_id(&self) -> u32 {
        let id = self.0.next_id.get();
        self.0.next_id.set(id + 1);
        id
    }

    /// How many tensors were made so far: ids are below it.
    pub(crate) fn tensors(&self) -> usize {
        self.0.next_id.get() as usize
    }

    pub(super) fn flavour(&self) -> Flavour {
        self.0.flavour
    }
}
