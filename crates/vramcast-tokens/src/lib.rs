//! Reads documents and counts their tokens, exactly as Hugging Face's tokenizers does.
//!
//! [`Documents`] streams texts out of plain text, JSON lines or CSV; a [`Counter`] says how many
//! tokens each has. Counting is several times faster than tokenizing, since texts are cut where the
//! tokenizer cuts them too ([`Cut`]) and a piece that was seen before is not tokenized again.
//!
//! Constraint: no file is opened here, and memory does not grow with the input: a reader comes in,
//! one document at a time is held, and the cache is bounded.

mod count;
mod cut;
mod documents;
mod plain;

pub use count::{Counter, TokenizerError};
pub use cut::Cut;
pub use documents::{Documents, Format, LONGEST, ReadError};
