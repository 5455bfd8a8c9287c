//! Allocator simulators, and the replay of a timeline through one of them.
//!
//! Only this module knows how memory is carved; it knows nothing of models or runtimes.

mod bins;
pub mod caching;
mod cuda_pool;
mod replay;

pub use cuda_pool::{CHUNK, CudaPool, OutOfMemory};
pub use replay::{Module, Pace, Rates, Replay, replay};
