//! Interpreters that compute nothing: they allocate and free what a runtime would, in its order.
//!
//! What an operation costs is written down in one folder per runtime and nowhere else; no shadow
//! knows an allocator.

pub mod candle;
mod tape;
pub mod torch;

pub use tape::Tape;
