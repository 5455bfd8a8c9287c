//! The candle runtime: how the vocabulary is said in candle's own operations, and the training
//! loop.
//!
//! Both are written once, over [`Candle`], and given meaning twice: by the real crates
//! (`vramcast-candle`) and by the shadow ([`crate::shadow::candle`]). What decides the lifetimes is
//! therefore the same code.

mod api;
mod step;
mod vocabulary;

pub use api::{Candle, Leaf};
pub use step::{Outcome, run};
pub use vocabulary::Vocabulary;

/// The version of candle whose allocations are followed.
pub const VERSION: &str = "0.11.1";
