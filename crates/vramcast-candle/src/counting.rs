//! A global allocator that logs what candle's CPU tensors allocate and free.
//!
//! Tensor storages are plain vectors made on the thread that runs the model, so they can be told
//! from everything else by that thread and their alignment: 4 for `f32` and `u32`, 2 for half
//! types, 1 for `u8` masks. The matrix product's scratch is aligned to 128, shapes and strides to 8.
//! Strings have alignment 1 too. While the model is built there are no masks, and later a mask is
//! made to be read by another operation, whose result is allocated before the mask dies; the
//! strings of a step (the number of threads is looked up for every product) and the product's flag
//! vectors die before any tensor is made.
//!
//! The log has a fixed room, made before it starts: an allocator must not allocate.

use crate::real::Observer;
use candle_core::{DType, Device, Tensor};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use vramcast::timeline::Phase;

/// Install with `#[global_allocator]` in a binary or test that records.
#[derive(Debug)]
pub struct Counting;

/// One event, as the allocator sees it.
#[derive(Clone, Copy, Debug)]
enum Raw {
    Alloc {
        address: usize,
        bytes: u64,
        align: usize,
    },
    Free {
        address: usize,
    },
    Begin(Phase),
}

/// One event of tensor memory. Buffers are numbered in the order of their allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logged {
    /// A buffer of this many bytes.
    Alloc(u32, u64),
    /// The buffer was given back.
    Free(u32),
    /// A phase began.
    Begin(Phase),
}

thread_local! {
    static RECORDING: Cell<bool> = const { Cell::new(false) };
    static OVERFLOWED: Cell<bool> = const { Cell::new(false) };
    static MASKS: Cell<bool> = const { Cell::new(false) };
    static LOG: RefCell<Vec<Raw>> = const { RefCell::new(Vec::new()) };
}

fn push(event: Raw) {
    LOG.with(|log| {
        let mut log = log.borrow_mut();
        if log.len() == log.capacity() {
            OVERFLOWED.set(true);
        } else {
            log.push(event);
        }
    });
}

fn recording() -> bool {
    RECORDING.try_with(Cell::get).unwrap_or(false)
}

fn may_be_storage(layout: Layout) -> bool {
    match layout.align() {
        2 | 4 => true,
        1 => MASKS.get(),
        _ => false,
    }
}

fn log_alloc(pointer: *mut u8, layout: Layout) {
    if recording() && may_be_storage(layout) {
        let (bytes, align) = (layout.size() as u64, layout.align());
        push(Raw::Alloc {
            address: pointer.addr(),
            bytes,
            align,
        });
    }
}

#[allow(unsafe_code, reason = "a global allocator cannot be written without")]
// SAFETY: every call is passed to the system allocator unchanged; the log is only a side effect.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is the system allocator's.
        let pointer = unsafe { System.alloc(layout) };
        log_alloc(pointer, layout);
        pointer
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let pointer = unsafe { System.alloc_zeroed(layout) };
        log_alloc(pointer, layout);
        pointer
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        let moved = unsafe { System.realloc(pointer, layout, size) };
        if recording() && may_be_storage(layout) {
            let (bytes, align) = (size as u64, layout.align());
            push(Raw::Free {
                address: pointer.addr(),
            });
            push(Raw::Alloc {
                address: moved.addr(),
                bytes,
                align,
            });
        }
        moved
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if recording() && may_be_storage(layout) {
            push(Raw::Free {
                address: pointer.addr(),
            });
        }
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Says in the log of this thread that a phase begins.
pub fn begin(phase: Phase) {
    MASKS.set(phase != Phase::Load);
    if recording() {
        push(Raw::Begin(phase));
    }
}

/// Room for the events of two training steps of a model of thousands of layers; what is not used is
/// never touched.
const ROOM: usize = 1 << 23;

/// Ends the log of this thread before [`record`] does: what is freed now is the model.
pub fn end() {
    RECORDING.set(false);
}

/// Tells the log of this thread what a run is doing.
#[derive(Clone, Copy, Debug)]
pub struct Marks;

impl Observer for Marks {
    fn begin(&self, phase: Phase) -> candle_core::Result<()> {
        begin(phase);
        Ok(())
    }

    fn end(&self) {
        end();
    }
}

/// Does once what sets things up on first use, so that it is not logged: a product (cache sizes
/// read from the system, scratch) and an element-wise function of many values (candle's pool of
/// threads).
fn warm_up() -> candle_core::Result<()> {
    let square = Tensor::ones((1024, 1024), DType::F32, &Device::Cpu)?;
    square.matmul(&square)?.gelu_erf().map(drop)
}

/// Runs `run` and returns what it returns with the tensor memory events of this thread.
///
/// # Errors
/// If the log overflowed, or [`Counting`] is not the global allocator: the count would be wrong.
pub fn record<R>(run: impl FnOnce() -> R) -> Result<(R, Vec<Logged>), NotCounted> {
    warm_up()?;
    LOG.with(|log| *log.borrow_mut() = Vec::with_capacity(ROOM));
    OVERFLOWED.set(false);
    MASKS.set(false);
    RECORDING.set(true);
    // A vector aligned to 4 shows whether anybody counts.
    drop(std::hint::black_box(Vec::<u32>::with_capacity(7)));
    let result = run();
    RECORDING.set(false);
    let raw = LOG.with(|log| std::mem::take(&mut *log.borrow_mut()));
    if OVERFLOWED.get() {
        return Err(NotCounted::Overflowed);
    }
    if raw.len() < 2 {
        return Err(NotCounted::NotInstalled);
    }
    Ok((result, number(&raw[2..])))
}

/// Why a count cannot be trusted.
#[derive(Debug, thiserror::Error)]
pub enum NotCounted {
    /// The warm-up failed.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
    /// More events than there is room for.
    #[error("the run made more than {ROOM} allocations and frees, more than the log holds")]
    Overflowed,
    /// Another allocator is in use.
    #[error("the counting allocator is not this program's global allocator")]
    NotInstalled,
}

/// Replaces addresses by numbers and leaves out what was no tensor.
fn number(raw: &[Raw]) -> Vec<Logged> {
    let strings = strings(raw);
    let mut live = HashMap::new();
    let mut next = 0;
    let mut log = Vec::with_capacity(raw.len());
    for (i, &event) in raw.iter().enumerate() {
        match event {
            Raw::Alloc { .. } if strings[i] => {}
            Raw::Alloc { address, bytes, .. } => {
                live.insert(address, next);
                log.push(Logged::Alloc(next, bytes));
                next += 1;
            }
            Raw::Free { address } => log.extend(live.remove(&address).map(Logged::Free)),
            Raw::Begin(phase) => log.push(Logged::Begin(phase)),
        }
    }
    log
}

/// Which allocations are byte vectors that died before another tensor was made.
fn strings(raw: &[Raw]) -> Vec<bool> {
    let mut strings = vec![false; raw.len()];
    let mut live: HashMap<usize, (usize, u64)> = HashMap::new();
    let mut tensors_made = 0;
    for (i, event) in raw.iter().enumerate() {
        match *event {
            Raw::Alloc {
                address, align: 1, ..
            } => {
                live.insert(address, (i, tensors_made));
            }
            Raw::Alloc { .. } => tensors_made += 1,
            Raw::Free { address } => {
                if let Some((made, before)) = live.remove(&address) {
                    strings[made] = before == tensors_made;
                }
            }
            Raw::Begin(_) => {}
        }
    }
    strings
}
