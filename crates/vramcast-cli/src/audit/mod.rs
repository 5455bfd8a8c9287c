//! Common advice on GPU memory, held against predictions and measurements.
//!
//! A claim is data (`claims`): what it says, of which jobs, and the values that it gives. `evidence`
//! finds the records of those jobs and predicts them, `ask` makes values of both, `verdict` judges
//! the measured ones by rules, and `page` writes all of it down.

mod ask;
mod claims;
mod emptied;
pub(crate) mod evidence;
mod figures;
mod job;
mod on_card;
pub(crate) mod page;
mod quantity;
mod steps;
mod t4;
mod value;
mod verdict;
