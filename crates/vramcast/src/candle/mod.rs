//! The candle runtime: how the vocabulary is said in candle's own operations, and the training
//! loop.
//!
//! Both are written once, over [`Candle`], and given meaning twice: by the real crates
//! (`vramcast-candle`) and by the shadow ([`crate::shadow::candle`]). What decides the lifetimes is
//! therefore the same code.
//!
//! What candle has no helper for is here too: `checkpoint` runs layers again in the backward pass,
//! `gradients` adds them up over passes, `loss_scale` is for half precision.

mod api;
mod checkpoint;
mod gradients;
mod loss_scale;
mod step;
mod vocabulary;

pub use api::{Candle, Leaf};
pub use gradients::accumulate;
pub use loss_scale::LossScale;
pub use step::{Outcome, run};
pub use vocabulary::Vocabulary;

/// The version of candle whose allocations are followed.
pub const VERSION: &str = "0.11.1";
