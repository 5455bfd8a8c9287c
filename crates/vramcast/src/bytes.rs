//! Sizes in bytes: checked arithmetic, and the only place where a size is turned into text.
//!
//! A sum that does not fit is an error, never a small number, and nothing becomes a float before it
//! is printed. People see GiB and MiB (2^30, 2^20); machines see bytes.

use serde::{Deserialize, Serialize};
use std::fmt;

/// 2^10 bytes.
pub const KIB: u64 = 1 << 10;
/// 2^20 bytes.
pub const MIB: u64 = 1 << 20;
/// 2^30 bytes.
pub const GIB: u64 = 1 << 30;

/// A number of bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A size that no machine could hold: the question is malformed, not the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sizes of this model and workload overflow 64 bits: too large to ask")]
pub struct TooLarge;

impl Bytes {
    /// The bytes of `elements` values of `bits` bits each, rounded up to whole bytes once.
    ///
    /// # Errors
    /// [`TooLarge`] if the product does not fit in 64 bits.
    pub fn of(elements: u64, bits: u64) -> Result<Self, TooLarge> {
        let bits = elements.checked_mul(bits).ok_or(TooLarge)?;
        Ok(Self(bits.div_ceil(8)))
    }

    /// The sum of two sizes.
    ///
    /// # Errors
    /// [`TooLarge`] if it does not fit in 64 bits.
    pub fn plus(self, other: Self) -> Result<Self, TooLarge> {
        self.0.checked_add(other.0).map(Self).ok_or(TooLarge)
    }

    /// How far `self` lies from `other`: positive when `self` is larger.
    pub fn minus(self, other: Self) -> i128 {
        i128::from(self.0) - i128::from(other.0)
    }

    /// Reads a size as people write it: `15GiB`, `14.75 GiB`, `512MiB`, `1073741824`.
    /// `GB` and `MB` are refused, since half the world means 10^9 and half 2^30.
    ///
    /// # Errors
    /// One line that says which forms are understood.
    pub fn parse(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let split = trimmed
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let unit_bytes = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" | "bytes" => 1,
            "kib" => KIB,
            "mib" => MIB,
            "gib" => GIB,
            "tib" => GIB * KIB,
            "kb" | "mb" | "gb" | "tb" | "k" | "m" | "g" => {
                return Err(format!(
                    "`{text}`: write MiB (2^20) or GiB (2^30); {} is ambiguous",
                    unit.trim()
                ));
            }
            _ => {
                return Err(format!(
                    "`{text}` is not a size; write 16GiB, 512MiB or bytes"
                ));
            }
        };
        let not_a_size = || format!("`{text}` is not a size; write 16GiB, 512MiB or bytes");
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.len() > 9 {
            return Err(not_a_size());
        }
        let parse = |digits: &str| -> Result<u64, String> {
            if digits.is_empty() {
                Ok(0)
            } else {
                digits.parse().map_err(|_| not_a_size())
            }
        };
        let scale = 10u64.pow(fraction.len() as u32);
        let fraction = u128::from(parse(fraction)?) * u128::from(unit_bytes) / u128::from(scale);
        let total = u128::from(parse(whole)?) * u128::from(unit_bytes) + fraction;
        u64::try_from(total)
            .map(Self)
            .map_err(|_| format!("`{text}` does not fit in 64 bits"))
    }
}

/// `4.71 GiB`, `23.5 MiB`, `512 B`: at most four digits, and the unit that keeps them readable.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            b if b >= 1000 * GIB => format!("{:.1} TiB", b as f64 / (GIB * KIB) as f64),
            b if b >= 100 * GIB => format!("{:.1} GiB", b as f64 / GIB as f64),
            b if b >= GIB => format!("{:.2} GiB", b as f64 / GIB as f64),
            b if b >= 100 * MIB => format!("{:.0} MiB", b as f64 / MIB as f64),
            b if b >= MIB => format!("{:.1} MiB", b as f64 / MIB as f64),
            b if b >= KIB => format!("{:.1} KiB", b as f64 / KIB as f64),
            b => format!("{b} B"),
        };
        f.pad(&text)
    }
}

/// `5,054,284,472`: every digit, for tables in which bytes are compared with bytes.
pub fn grouped(number: i128) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number < 0 { format!("-{text}") } else { text }
}

/// `+769 MiB`, `-12.0 KiB`: how far one size lies from another.
pub fn signed(difference: i128) -> String {
    let size = Bytes(u64::try_from(difference.unsigned_abs()).unwrap_or(u64::MAX));
    match difference {
        0 => "0".to_owned(),
        1.. => format!("+{size}"),
        _ => format!("-{size}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_parse(text: &str, expected: Option<u64>) {
        assert_eq!(Bytes::parse(text).ok().map(|b| b.0), expected, "{text}");
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        check_parse("16GiB", Some(16 * GIB));
        check_parse("14.75 GiB", Some(14 * GIB + 3 * GIB / 4));
        check_parse("512mib", Some(512 * MIB));
        check_parse("1073741824", Some(GIB));
        check_parse("16GB", None);
        check_parse("lots", None);
        check_parse("", None);
        check_parse("99999999999999GiB", None);
    }

    #[test]
    fn a_size_is_printed_with_the_unit_that_keeps_it_readable() {
        let print = |b: u64| Bytes(b).to_string();
        assert_eq!(print(512), "512 B");
        assert_eq!(print(3 * MIB / 2), "1.5 MiB");
        assert_eq!(print(5_054_284_472), "4.71 GiB");
        assert_eq!(grouped(5_054_284_472), "5,054,284,472");
        assert_eq!(grouped(-1_000), "-1,000");
        assert_eq!(signed(-1_536), "-1.5 KiB");
        assert_eq!(signed(0), "0");
    }

    #[test]
    fn a_product_that_does_not_fit_is_an_error() {
        assert_eq!(Bytes::of(u64::MAX / 2, 32), Err(TooLarge));
        assert_eq!(Bytes::of(3, 4), Ok(Bytes(2)));
    }
}
