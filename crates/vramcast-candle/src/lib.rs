//! Runs the models of the core for real with candle, and measures what the run allocates.
//!
//! [`Real`] gives candle's own meaning to [`vramcast::candle::Candle`], so a probe runs the very
//! loop that the shadow imitates. On the CPU the oracle is a counting allocator ([`counting`]), on
//! CUDA the device's memory pool.

pub mod counting;
#[cfg(feature = "cuda")]
mod pool;
mod probe;
mod real;
mod stock;

pub use probe::{Job, ProbeError, probe};
pub use real::{Observer, Real};
pub use stock::{run_stock, stock_config};

/// Whether this build can run on CUDA.
pub const HAS_CUDA: bool = cfg!(feature = "cuda");
