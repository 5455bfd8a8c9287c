//! `PYTORCH_CUDA_ALLOC_CONF`, in PyTorch's own syntax.
//!
//! Constraint: an option that changes sizes is simulated or refused, never ignored. The grammar and
//! the ranges are those of PyTorch's `c10/core/AllocatorConfig.cpp` (0ac7166).

use super::GRANULE;
use crate::bytes::MIB;

/// The smallest `max_split_size_mb`, and the default of `max_non_split_rounding_mb`.
const LARGE_SEGMENT_MB: u64 = 20;

/// Sizes up to 2 MiB, up to 4 MiB, ... share one number of divisions; the last class has no end.
const SIZE_CLASSES: usize = 16;

/// Options that are simulated.
const SIMULATED: [&str; 5] = [
    "max_split_size_mb",
    "max_non_split_rounding_mb",
    "roundup_power2_divisions",
    "garbage_collection_threshold",
    "expandable_segments",
];

/// Options about pinned host memory, locks and graph capture: no size depends on them.
const WITHOUT_EFFECT: [&str; 7] = [
    "release_lock_on_cudamalloc",
    "pinned_use_cuda_host_register",
    "pinned_num_register_threads",
    "pinned_use_background_threads",
    "pinned_reserve_segment_size_mb",
    "graph_capture_record_stream_reuse",
    "backend",
];

/// The allocator's options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conf {
    /// Bytes from which a request takes a block whole (`max_split_size_mb`); `u64::MAX` for never.
    pub max_split_size: u64,
    /// How many bytes such a block may exceed its request by (`max_non_split_rounding_mb`).
    pub max_non_split_rounding: u64,
    /// Steps between two powers of two to which sizes are rounded (`roundup_power2_divisions`): for
    /// sizes below 2 MiB, below 4 MiB, and so on; 0 and 1 round to 512 B.
    pub roundup_power2_divisions: [u64; SIZE_CLASSES],
    /// The part of the allowed memory above which cached segments are freed before a new one is
    /// made (`garbage_collection_threshold`).
    pub garbage_collection_threshold: Option<f64>,
    /// Whether one growing region a pool takes the place of segments (`expandable_segments`).
    pub expandable_segments: bool,
}

impl Default for Conf {
    fn default() -> Self {
        Self {
            max_split_size: u64::MAX,
            max_non_split_rounding: LARGE_SEGMENT_MB * MIB,
            roundup_power2_divisions: [0; SIZE_CLASSES],
            garbage_collection_threshold: None,
            expandable_segments: false,
        }
    }
}

/// Why an option string was refused, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfError {
    /// PyTorch knows no such option, or it is not simulated.
    #[error("unknown allocator option `{option}`; known are {}", SIMULATED.join(", "))]
    Unknown {
        /// The option as written.
        option: String,
    },
    /// The value of a known option.
    #[error("`{option}:{value}`: expected {expected}")]
    Value {
        /// The option's name.
        option: String,
        /// The value as written.
        value: String,
        /// What its value may be.
        expected: &'static str,
    },
}

impl Conf {
    /// Reads what the environment variable `PYTORCH_CUDA_ALLOC_CONF` (or `PYTORCH_ALLOC_CONF`)
    /// holds, such as `max_split_size_mb:128,expandable_segments:True`.
    ///
    /// # Errors
    /// The first option that is unknown or whose value PyTorch would refuse.
    pub fn parse(text: &str) -> Result<Self, ConfError> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let mut conf = Self::default();
        for option in options(&text) {
            let (name, value) = option.split_once(':').unwrap_or((option, ""));
            conf.set(name, value)?;
        }
        Ok(conf)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), ConfError> {
        let expected = match name {
            "max_split_size_mb" => {
                if let Some(bytes) = mebibytes(value) {
                    self.max_split_size = bytes;
                    return Ok(());
                }
                "whole MiB, at least 20"
            }
            "max_non_split_rounding_mb" => {
                if let Some(bytes) = mebibytes(value) {
                    self.max_non_split_rounding = bytes;
                    return Ok(());
                }
                "whole MiB, at least 20"
            }
            "roundup_power2_divisions" => {
                if let Some(divisions) = divisions(value) {
                    self.roundup_power2_divisions = divisions;
                    return Ok(());
                }
                "a power of two, or a list such as [256:1,512:2,>:4]"
            }
            "garbage_collection_threshold" => match value.parse::<f64>() {
                Ok(part) if part > 0.0 && part < 1.0 => {
                    self.garbage_collection_threshold = Some(part);
                    return Ok(());
                }
                _ => "a number between 0 and 1",
            },
            "expandable_segments" => match value {
                "True" | "False" => {
                    self.expandable_segments = value == "True";
                    return Ok(());
                }
                _ => "True or False",
            },
            "backend" if value != "native" => "native, the only one that is simulated",
            _ if WITHOUT_EFFECT.contains(&name) => return Ok(()),
            _ => {
                return Err(ConfError::Unknown {
                    option: name.to_owned(),
                });
            }
        };
        Err(ConfError::Value {
            option: name.to_owned(),
            value: value.to_owned(),
            expected,
        })
    }

    /// The bytes of the block that a request of `bytes` asks for.
    pub(super) fn round(&self, bytes: u64) -> u64 {
        if bytes <= GRANULE {
            return GRANULE;
        }
        let octave = u64::from(bytes.ilog2()).saturating_sub(20) as usize;
        let divisions = self.roundup_power2_divisions[octave.min(SIZE_CLASSES - 1)];
        if divisions > 1 && bytes > GRANULE.saturating_mul(divisions) {
            let step = (1 << bytes.ilog2()) / divisions;
            return bytes.next_multiple_of(step);
        }
        bytes.next_multiple_of(GRANULE)
    }
}

/// The options of a string: pieces between the commas that are not in brackets. PyTorch lets a comma
/// follow the last one.
fn options(text: &str) -> impl Iterator<Item = &str> {
    let text = text.strip_suffix(',').unwrap_or(text);
    let mut in_list = false;
    let pieces = text.split(move |c| {
        in_list = c == '[' || in_list && c != ']';
        c == ',' && !in_list
    });
    pieces.filter(|_| !text.is_empty())
}

fn mebibytes(value: &str) -> Option<u64> {
    let number: u64 = value.parse().ok()?;
    (number >= LARGE_SEGMENT_MB).then(|| number.min(u64::MAX / MIB) * MIB)
}

/// One number for all sizes, or a list of `boundary in MiB:number`, where `>` stands for all
/// sizes above the last boundary.
fn divisions(value: &str) -> Option<[u64; SIZE_CLASSES]> {
    let Some(list) = value.strip_prefix('[') else {
        let number: u64 = value.parse().ok()?;
        return number.is_power_of_two().then_some([number; SIZE_CLASSES]);
    };
    let mut divisions = [0; SIZE_CLASSES];
    let mut last = None;
    for entry in list.strip_suffix(']')?.split(',') {
        let (boundary, number) = entry.split_once(':')?;
        let number: u64 = number.parse().ok()?;
        if number != 0 && !number.is_power_of_two() {
            return None;
        }
        if boundary == ">" {
            // Alone, it leaves out the first class, as in PyTorch.
            divisions[last.unwrap_or(0) + 1..].fill(number);
            continue;
        }
        let boundary: u64 = boundary.parse().ok()?;
        if !boundary.is_power_of_two() {
            return None;
        }
        let class = (boundary.ilog2() as usize).min(SIZE_CLASSES - 1);
        if last.is_none() {
            divisions[..class].fill(number);
        }
        divisions[class] = number;
        last = Some(class);
    }
    Some(divisions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Conf) {
        assert_eq!(Conf::parse(text), Ok(expected), "{text}");
    }

    fn refused(text: &str, expected: &str) {
        let message = Conf::parse(text).map_err(|error| error.to_string());
        assert_eq!(message, Err(expected.to_owned()), "{text}");
    }

    /// The divisions of the first four classes and of the last one.
    fn check_divisions(text: &str, first: [u64; 4], last: u64) {
        let text = format!("roundup_power2_divisions:{text}");
        let divisions = Conf::parse(&text).expect(&text).roundup_power2_divisions;
        assert_eq!(
            (&divisions[..4], divisions[15]),
            (&first[..], last),
            "{text}"
        );
    }

    #[test]
    fn options_are_read_as_pytorch_reads_them() {
        let default = Conf::default();
        let split = Conf {
            max_split_size: 128 * MIB,
            ..default
        };
        let expandable = Conf {
            expandable_segments: true,
            ..default
        };
        let collecting = Conf {
            garbage_collection_threshold: Some(0.8),
            ..default
        };
        let rounding = Conf {
            max_non_split_rounding: 64 * MIB,
            ..default
        };
        check("", default);
        check("max_split_size_mb:128", split);
        check(" max_split_size_mb : 128 ,", split);
        check("max_split_size_mb:64,max_split_size_mb:128", split);
        check("expandable_segments:True", expandable);
        check(
            "expandable_segments:True,expandable_segments:False",
            default,
        );
        check("garbage_collection_threshold:0.8", collecting);
        check("max_non_split_rounding_mb:64", rounding);
        check("backend:native,pinned_num_register_threads:8", default);
        check(
            "roundup_power2_divisions:[1:4,>:4],max_split_size_mb:128,expandable_segments:True",
            Conf {
                roundup_power2_divisions: [4; SIZE_CLASSES],
                expandable_segments: true,
                ..split
            },
        );
    }

    #[test]
    fn divisions_are_one_number_or_a_list() {
        check_divisions("8", [8, 8, 8, 8], 8);
        check_divisions("[1:2,2:4,4:8,>:16]", [2, 4, 8, 16], 16);
        check_divisions("[4:8]", [8, 8, 8, 0], 0);
        check_divisions("[2:0,4:8,>:1]", [0, 0, 8, 1], 1);
        check_divisions("[>:2]", [0, 2, 2, 2], 2);
        check_divisions("[65536:2]", [2, 2, 2, 2], 2);
    }

    #[test]
    fn what_pytorch_would_refuse_is_refused_in_one_line() {
        let known = "max_split_size_mb, max_non_split_rounding_mb, roundup_power2_divisions, \
                     garbage_collection_threshold, expandable_segments";
        let unknown = |option| format!("unknown allocator option `{option}`; known are {known}");
        refused("max_split_size:128", &unknown("max_split_size"));
        refused("expandable_segments:True,,", &unknown(""));
        refused(
            "large_segment_size_mb:32",
            &unknown("large_segment_size_mb"),
        );
        let mebibytes = |option| format!("`{option}`: expected whole MiB, at least 20");
        for option in [
            "max_split_size_mb:19",
            "max_split_size_mb:1.5",
            "max_split_size_mb:",
            "max_non_split_rounding_mb:-1",
        ] {
            refused(option, &mebibytes(option));
        }
        for option in ["3", "[256:3]", "[3:2]", "[256:1", "[256]"] {
            let option = format!("roundup_power2_divisions:{option}");
            let expected = "a power of two, or a list such as [256:1,512:2,>:4]";
            refused(&option, &format!("`{option}`: expected {expected}"));
        }
        refused(
            "garbage_collection_threshold:1.0",
            "`garbage_collection_threshold:1.0`: expected a number between 0 and 1",
        );
        refused(
            "expandable_segments:true",
            "`expandable_segments:true`: expected True or False",
        );
        refused(
            "backend:cudaMallocAsync",
            "`backend:cudaMallocAsync`: expected native, the only one that is simulated",
        );
    }

    #[test]
    fn sizes_are_rounded_to_512_bytes_or_to_a_part_of_a_power_of_two() {
        let conf = |text: &str| Conf::parse(text).expect(text);
        let plain = Conf::default();
        for (bytes, expected) in [(1, 512), (512, 512), (513, 1024), (MIB + 1, MIB + 512)] {
            assert_eq!(plain.round(bytes), expected, "{bytes}");
        }
        let quarters = conf("roundup_power2_divisions:4");
        for (bytes, expected) in [
            (1, 512),
            (2048, 2048),
            (2049, 2560),
            (MIB, MIB),
            (MIB + 1, MIB + MIB / 4),
            (2 * MIB - 1, 2 * MIB),
        ] {
            assert_eq!(quarters.round(bytes), expected, "{bytes}");
        }
        let large_only = conf("roundup_power2_divisions:[1:0,2:1,4:2,>:2]");
        assert_eq!(large_only.round(3 * MIB + 1), 3 * MIB + 512);
        assert_eq!(large_only.round(4 * MIB + 1), 6 * MIB);
    }
}
