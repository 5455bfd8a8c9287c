//! Interpreters that compute nothing: they allocate and free what a runtime would, in its order.
//!
//! What an operation costs is written down in one folder per runtime and nowhere else; no shadow
//! knows an allocator.

pub mod candle;
mod tape;
pub mod torch;

pub use tape::Tape;

/// The passes of a step that are followed. From the third on each allocates and frees what the
/// second does, but for the Trainer's inputs, which it moves to the device beforehand. Allocators
/// settle, too: on PyTorch, in 54 of 54 workloads 4 passes and 16 had the same peaks and need.
pub const MOST_PASSES: u32 = 4;
