//! Shares as people write them, in whole hundredths of a percent: no growth is judged with a float.

use crate::bytes::Bytes;
use crate::diff::Change;
use serde::{Deserialize, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// A share, in hundredths of a percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(pub u32);

impl Share {
    /// The whole.
    const WHOLE: u128 = 10_000;

    /// Whether something grew by more than this share.
    pub fn is_exceeded(self, change: Change) -> bool {
        let growth = u128::try_from(change.growth()).unwrap_or(0);
        growth * Self::WHOLE > u128::from(change.before.0) * u128::from(self.0)
    }

    /// This share of a size, rounded up.
    pub fn of(self, bytes: Bytes) -> Bytes {
        let share = (u128::from(bytes.0) * u128::from(self.0)).div_ceil(Self::WHOLE);
        Bytes(u64::try_from(share).unwrap_or(u64::MAX))
    }
}

impl FromStr for Share {
    type Err = String;

    /// `1 %`, `0.5%`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no share; write `1 %` or `0.25 %`");
        let number = text.trim().strip_suffix('%').ok_or_else(wrong)?.trim();
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || fraction.len() > 2 {
            return Err(wrong());
        }
        let whole: u32 = whole.parse().map_err(|_| wrong())?;
        let fraction: u32 = format!("{fraction:0<2}").parse().map_err(|_| wrong())?;
        let share = whole.checked_mul(100).and_then(|w| w.checked_add(fraction));
        share.map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 / 100, self.0 % 100) {
            (whole, 0) => write!(f, "{whole} %"),
            (whole, part) if part % 10 == 0 => write!(f, "{whole}.{} %", part / 10),
            (whole, part) => write!(f, "{whole}.{part:02} %"),
        }
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: de::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check_share(text: &str, expected: Option<u32>) {
        assert_eq!(text.parse().ok(), expected.map(Share), "{text}");
    }

    #[test]
    fn shares_are_read_as_people_write_them() {
        check_share("1 %", Some(100));
        check_share("0.25%", Some(25));
        check_share("2.5 %", Some(250));
        check_share("1", None);
        check_share("-1 %", None);
        check_share("1. %", None);
        check_share("0.125 %", None);
        check_share("99999999 %", None);
    }

    proptest! {
        #[test]
        fn a_share_is_read_as_it_is_written(share in any::<u32>()) {
            prop_assert_eq!(Share(share).to_string().parse(), Ok(Share(share)));
        }
    }
}
