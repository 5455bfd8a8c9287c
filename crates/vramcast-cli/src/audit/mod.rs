//! Common advice on GPU memory, held against predictions and measurements.
//!
//! A claim is data (`claims`): what it says, of which jobs, and the values that it gives. `evidence`
//! finds the records of those jobs and predicts them, `ask` makes values of both, `verdict` judges
//! the measured ones by rules, and `page` writes all of it down.

pub(crate) mod ask;
mod claims;
pub(crate) mod evidence;
mod job;
pub(crate) mod page;
mod quantity;
mod steps;
mod verdict;
