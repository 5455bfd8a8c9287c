//! What a question about records has for an answer.

use crate::audit::verdict::Traits;
use crate::output;
use std::fmt;
use vramcast::bytes::Bytes;

/// What an answer is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Elements(u64),
    /// May be negative, as a difference.
    Bytes(i128),
    Share(f64),
    Times(f64),
    /// Whether that happens, which nobody knows at the edge of a card, and what is taken.
    OnCard(Wanted, Option<bool>, Option<Taken>),
    /// Whether it runs without a change, and with it: only the second is what is claimed.
    Rescued([bool; 2]),
}

/// Which end of a run a claim says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Runs,
    Fails,
}

/// What a run takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Reserved(Bytes),
    Nvml(Bytes),
}

impl Taken {
    fn bytes(self) -> Bytes {
        match self {
            Self::Reserved(bytes) | Self::Nvml(bytes) => bytes,
        }
    }
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserved(bytes) => write!(f, "{bytes} reserved"),
            Self::Nvml(bytes) => write!(f, "{bytes} by NVML"),
        }
    }
}

/// What is known of a question.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) traits: Traits,
    /// What the value is of.
    pub(crate) figure: String,
    /// Or why there is none.
    pub(crate) predicted: Result<Value, String>,
    pub(crate) measured: Option<Value>,
    /// The ids of the records.
    pub(crate) records: Vec<String>,
}

impl Value {
    /// In the unit of claims: elements, bytes, shares, times, 1 for what happens. `None` where
    /// nobody knows.
    pub(crate) fn number(self) -> Option<f64> {
        let happens = |so: bool| f64::from(u8::from(so));
        match self {
            Self::Elements(n) => Some(n as f64),
            Self::Bytes(bytes) => Some(bytes as f64),
            Self::Share(x) | Self::Times(x) => Some(x),
            Self::OnCard(wanted, runs, _) => {
                runs.map(|runs| happens(runs == (wanted == Wanted::Runs)))
            }
            Self::Rescued(runs) => Some(happens(runs == [false, true])),
        }
    }

    /// How far a prediction is from this measured value: of what runs on a card, what it takes; of
    /// what does not, nothing is comparable.
    pub(crate) fn error(self, predicted: Self) -> String {
        if let (Self::OnCard(_, measured, Some(taken)), Self::OnCard(_, foreseen, Some(taken_then))) =
            (self, predicted)
            && measured == foreseen
        {
            return match measured {
                Some(false) => String::new(),
                Some(true) | None => {
                    let (then, now) = (taken_then.bytes().0 as f64, taken.bytes().0 as f64);
                    output::percent((then - now) / now)
                }
            };
        }
        let (Some(measured), Some(foreseen)) = (self.number(), predicted.number()) else {
            return String::new();
        };
        match self {
            _ if foreseen == measured => "0".to_owned(),
            Self::Share(_) => format!("{:.2} points", 100.0 * (foreseen - measured)),
            Self::OnCard(..) | Self::Rescued(_) => "otherwise".to_owned(),
            Self::Elements(_) | Self::Bytes(_) | Self::Times(_) => {
                output::percent((foreseen - measured) / measured)
            }
        }
    }
}

/// Bytes as people read them, and in the billions that a claim counts in.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Elements(n) => write!(f, "{:.1} M", n as f64 / 1e6),
            Self::Bytes(bytes) => {
                let sign = if bytes < 0 { "-" } else { "" };
                let size = bytes.unsigned_abs();
                let short = Bytes(u64::try_from(size).unwrap_or(u64::MAX));
                write!(f, "{sign}{short} ({sign}{:.3} × 10⁹)", size as f64 / 1e9)
            }
            Self::Share(share) => write!(f, "{:.1} %", 100.0 * share),
            Self::Times(times) => write!(f, "{times:.2} times"),
            Self::OnCard(_, runs, taken) => {
                f.write_str(match runs {
                    Some(true) => "runs",
                    Some(false) => "out of memory",
                    None => "on the edge",
                })?;
                match taken {
                    Some(taken) => write!(f, ", {taken}"),
                    None => Ok(()),
                }
            }
            Self::Rescued(runs) => f.write_str(match runs {
                [false, true] => "runs with it alone",
                [true, false] => "runs without it alone",
                [false, false] => "out of memory with it, too",
                [true, true] => "runs without it, too",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_told_in_the_units_of_people_and_of_claims() {
        let print = |value: Value| value.to_string();
        assert_eq!(print(Value::Bytes(1_340_575_752)), "1.25 GiB (1.341 × 10⁹)");
        assert_eq!(print(Value::Elements(109_483_778)), "109.5 M");
        assert_eq!(print(Value::Share(0.357)), "35.7 %");
        let taken = Some(Taken::Reserved(Bytes(3 << 30)));
        let runs = Value::OnCard(Wanted::Fails, Some(true), taken);
        assert_eq!(print(runs), "runs, 3.00 GiB reserved");
        assert_eq!(runs.number(), Some(0.0));
    }
}
