//! Runs the models of the core for real with candle, and measures what the run allocates.
//!
//! [`Real`] gives candle's own meaning to [`vramcast::candle::Candle`], so a probe runs the very
//! loop that the shadow imitates. On the CPU the oracle is a counting allocator ([`counting`]), on
//! CUDA the device's memory pool.

pub mod counting;
mod real;
mod stock;

pub use real::{Observer, Real, Silent};
pub use stock::run_stock;
