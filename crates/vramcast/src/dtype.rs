//! Element types, sized in bits: sub-byte types round up once per tensor, never per element.

use serde::{Deserialize, Serialize};

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// Masks and comparisons.
    U8,
    /// Token ids, as candle takes them.
    U32,
    /// IEEE single precision.
    F32,
}

impl DType {
    /// Bits of one element.
    pub const fn bits(self) -> u64 {
        match self {
            Self::U8 => 8,
            Self::U32 | Self::F32 => 32,
        }
    }
}
