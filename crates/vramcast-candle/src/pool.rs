//! Readings of a CUDA device's default memory pool: the high-water marks that candle's allocations
//! leave there.
//!
//! `CU_MEMPOOL_ATTR_USED_MEM_HIGH` counts requested bytes exactly; setting it to 0 starts it anew at
//! what is used now, which separates the phases.

use crate::real::Observer;
use candle_core::cuda_backend::cudarc::driver::{result, sys};
use candle_core::{Error, Result};
use std::cell::{Cell, RefCell};
use vramcast::bytes::Bytes;
use vramcast::timeline::Phase;

/// Reads the pool at the beginning of every phase.
#[derive(Debug)]
pub(crate) struct PoolMeter {
    pool: sys::CUmemoryPool,
    phase: Cell<Phase>,
    model: Cell<Bytes>,
    phases: RefCell<Vec<(Phase, Bytes, Bytes)>>,
}

/// What the pool said of a run.
pub(crate) struct Reading {
    /// Used bytes when the first forward pass began.
    pub(crate) model: Bytes,
    /// Phase, highest used bytes, highest reserved bytes, in order and for every step.
    pub(crate) phases: Vec<(Phase, Bytes, Bytes)>,
    /// Reserved bytes at the end.
    pub(crate) reserved: Bytes,
}

/// Free and total bytes by `cuMemGetInfo`.
pub(crate) fn memory_info() -> Result<(Bytes, Bytes)> {
    let (free, total) = result::mem_get_info().map_err(Error::wrap)?;
    Ok((Bytes(free as u64), Bytes(total as u64)))
}

#[allow(
    unsafe_code,
    reason = "the driver's pool attributes have no safe interface in cudarc"
)]
impl PoolMeter {
    /// A meter for the default pool of a device whose context exists and is current.
    pub(crate) fn new(ordinal: usize) -> Result<Self> {
        let device = result::device::get(ordinal as i32).map_err(Error::wrap)?;
        // SAFETY: the device was just obtained from the driver.
        let pool = unsafe { result::device::get_default_mem_pool(device) }.map_err(Error::wrap)?;
        Ok(Self {
            pool,
            phase: Cell::new(Phase::Load),
            model: Cell::new(Bytes(0)),
            phases: RefCell::default(),
        })
    }

    fn get(&self, attribute: sys::CUmemPool_attribute) -> Result<Bytes> {
        let mut value = 0u64;
        // SAFETY: the pool is a device's default pool, which is never destroyed, and the memory
        // attributes are 64-bit values.
        unsafe { result::mem_pool::get_attribute(self.pool, attribute, (&raw mut value).cast()) }
            .map_err(Error::wrap)?;
        Ok(Bytes(value))
    }

    fn reset(&self, attribute: sys::CUmemPool_attribute) -> Result<()> {
        let mut zero = 0u64;
        // SAFETY: as above; the high-water marks accept only 0.
        unsafe { result::mem_pool::set_attribute(self.pool, attribute, (&raw mut zero).cast()) }
            .map_err(Error::wrap)
    }

    /// The phase, and its highest used and reserved bytes so far: after an error, when everything
    /// is freed, they say how far the run had come.
    pub(crate) fn so_far(&self) -> Result<(Phase, Bytes, Bytes)> {
        use sys::CUmemPool_attribute::{
            CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH as RESERVED, CU_MEMPOOL_ATTR_USED_MEM_HIGH as USED,
        };
        Ok((self.phase.get(), self.get(USED)?, self.get(RESERVED)?))
    }

    fn close_phase(&self) -> Result<()> {
        use sys::CUmemPool_attribute::{
            CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH as RESERVED, CU_MEMPOOL_ATTR_USED_MEM_HIGH as USED,
        };
        let reading = (self.phase.get(), self.get(USED)?, self.get(RESERVED)?);
        self.phases.borrow_mut().push(reading);
        self.reset(USED)?;
        self.reset(RESERVED)
    }

    /// Ends the last phase.
    pub(crate) fn finish(&self) -> Result<Reading> {
        self.close_phase()?;
        Ok(Reading {
            model: self.model.get(),
            phases: self.phases.take(),
            reserved: self.get(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?,
        })
    }
}

impl Observer for PoolMeter {
    fn begin(&self, phase: Phase) -> Result<()> {
        if phase != Phase::Load {
            if self.phase.get() == Phase::Load {
                let used = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
                self.model.set(self.get(used)?);
            }
            self.close_phase()?;
        }
        self.phase.set(phase);
        Ok(())
    }

    /// The marks stay until [`PoolMeter::finish`] reads them: freeing the model raises none.
    fn end(&self) {}
}
