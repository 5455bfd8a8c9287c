//! Element types, sized in bits: sub-byte types round up once per tensor, never per element.

use serde::{Deserialize, Serialize};

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// Masks and comparisons.
    U8,
    /// Truth values, as PyTorch stores them.
    Bool,
    /// Token ids, as PyTorch takes them.
    I64,
    /// What PyTorch counts positions in.
    I32,
    /// Half of single precision's bits with its exponent.
    Bf16,
    /// IEEE half precision.
    F16,
    /// Token ids, as candle takes them.
    U32,
    /// IEEE single precision.
    F32,
}

impl DType {
    /// Bits of one element.
    pub const fn bits(self) -> u64 {
        match self {
            Self::U8 | Self::Bool => 8,
            Self::Bf16 | Self::F16 => 16,
            Self::I64 => 64,
            Self::I32 | Self::U32 | Self::F32 => 32,
        }
    }

    /// Whether gradients can be of this type.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::Bf16 | Self::F16 | Self::F32)
    }

    /// The lowest finite value; 0 for types without a sign.
    pub const fn lowest(self) -> f64 {
        match self {
            Self::U8 | Self::Bool | Self::U32 => 0.0,
            Self::I64 => i64::MIN as f64,
            Self::I32 => i32::MIN as f64,
            // 8 bits of significand, exponents to 127.
            Self::Bf16 => -3.389_531_389_251_535_5e38,
            Self::F16 => -65_504.0,
            Self::F32 => f32::MIN as f64,
        }
    }
}
