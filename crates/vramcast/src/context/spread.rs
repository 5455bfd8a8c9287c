//! What the contexts of some cards say of another's.
//!
//! A context grows with the threads that the card can hold at once, for each of which the driver keeps
//! local memory (CUDA driver API, `CU_LIMIT_STACK_SIZE` and `CU_CTX_LMEM_RESIZE_TO_MAX`). The medians of
//! cards lie within a factor of seven; per resident thread within one of two, from a laptop's 20
//! multiprocessors to 170 and from Pascal to Blackwell. So a card is given its threads times the lowest
//! and highest median per thread of all cards, and its own median as the expected figure, or the median
//! of all where it has none. Intervals of a card's own readings alone would be worse: two or three
//! readings hold too little, and one process with other libraries, as the 2.15 GiB on an RTX 4090, too
//! much.

use super::{MEASURED, READINGS, Runtime};
use crate::bytes::Bytes;
use crate::gpu::{GPUS, Gpu};
use std::sync::LazyLock;

/// What is known of one card's contexts under PyTorch.
#[derive(Clone, Debug)]
pub struct CardContexts {
    /// The card.
    pub gpu: &'static Gpu,
    /// The contexts in bytes, from the lowest.
    pub contexts: Vec<u64>,
    /// Whether they were measured by this project; others were read in public reports.
    pub ours: bool,
}

impl CardContexts {
    /// The middle one.
    pub fn median(&self) -> u64 {
        median(&self.contexts)
    }

    /// How many others read.
    pub fn readings(&self) -> usize {
        if self.ours { 0 } else { self.contexts.len() }
    }
}

/// An interval of contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The lowest.
    pub low: Bytes,
    /// The expected one.
    pub bytes: Bytes,
    /// The highest.
    pub high: Bytes,
}

impl Interval {
    /// The lowest, middle and highest of medians; nothing where there are none.
    fn of(mut medians: Vec<u64>) -> Self {
        medians.sort_unstable();
        let end = |median: Option<&u64>| Bytes(median.copied().unwrap_or(0));
        Self {
            low: end(medians.first()),
            bytes: Bytes(median(&medians)),
            high: end(medians.last()),
        }
    }

    /// Whether a context lies in it.
    pub fn holds(&self, context: u64) -> bool {
        (self.low.0..=self.high.0).contains(&context)
    }
}

/// Every card of which something is known, in the order of [`GPUS`].
pub fn cards() -> &'static [CardContexts] {
    static CARDS: LazyLock<Vec<CardContexts>> = LazyLock::new(|| {
        let of = |gpu: &'static Gpu| {
            let mut contexts: Vec<u64> = MEASURED
                .iter()
                .filter(|row| row.gpu == gpu.name && row.loaded.runtime() == Runtime::Torch)
                .map(|row| row.bytes)
                .collect();
            let ours = !contexts.is_empty();
            if !ours {
                let read = READINGS.iter().filter(|r| r.gpu == gpu.name && !r.ranks);
                contexts.extend(read.map(|r| r.context()));
            }
            contexts.sort_unstable();
            CardContexts {
                gpu,
                contexts,
                ours,
            }
        };
        GPUS.iter()
            .map(of)
            .filter(|card| !card.contexts.is_empty())
            .collect()
    });
    &CARDS
}

/// What a card's context may be.
pub(super) fn on(gpu: &Gpu) -> Interval {
    let interval = by_threads(gpu, cards().iter());
    match cards().iter().find(|card| card.gpu.name == gpu.name) {
        Some(own) => Interval {
            bytes: Bytes(own.median()),
            ..interval
        },
        None => interval,
    }
}

/// What a context may be on any card.
pub(super) fn anywhere() -> Interval {
    Interval::of(cards().iter().map(CardContexts::median).collect())
}

/// What other cards say of this one.
pub fn of_others(gpu: &Gpu) -> Interval {
    by_threads(gpu, cards().iter().filter(|card| card.gpu.name != gpu.name))
}

fn by_threads<'a>(gpu: &Gpu, cards: impl Iterator<Item = &'a CardContexts>) -> Interval {
    let scaled = |card: &CardContexts| {
        let context = u128::from(card.median()) * u128::from(gpu.resident_threads());
        (context / u128::from(card.gpu.resident_threads())) as u64
    };
    Interval::of(cards.map(scaled).collect())
}

/// Of sorted sizes; the mean of the two in the middle where there are such.
fn median(sorted: &[u64]) -> u64 {
    match sorted.len() {
        0 => 0,
        n if n % 2 == 1 => sorted[n / 2],
        n => sorted[n / 2 - 1].midpoint(sorted[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::MIB;
    use crate::gpu;

    #[test]
    fn every_reading_is_of_a_known_card_and_greater_than_its_rounding() {
        for reading in READINGS {
            let known = GPUS.iter().any(|gpu| gpu.name == reading.gpu);
            assert!(known, "{}", reading.source);
            assert!(
                reading.context() > 4 * reading.rounding(),
                "{}",
                reading.source
            );
            assert!(reading.source.contains('#'), "{}", reading.source);
        }
    }

    #[test]
    fn no_report_is_read_twice() {
        for (i, reading) in READINGS.iter().enumerate() {
            let again = READINGS[..i].iter().find(|r| r.source == reading.source);
            assert_eq!(again, None, "{}", reading.source);
        }
    }

    #[test]
    fn the_readings_are_as_many_as_the_page_says() {
        let cards = cards().iter().filter(|card| !card.ours).count();
        let alone = READINGS.iter().filter(|r| !r.ranks).count();
        assert!(alone >= 36 && cards >= 20, "{alone} of {cards} cards");
    }

    /// The rule is worth having only if it is right of cards that it has not seen.
    #[test]
    fn with_each_card_left_out_the_others_hold_nine_in_ten_readings() {
        let (mut held, mut all) = (0, 0);
        for card in cards() {
            let others = of_others(card.gpu);
            all += card.contexts.len();
            held += card.contexts.iter().filter(|&&c| others.holds(c)).count();
        }
        assert!(10 * held >= 9 * all, "{held} of {all}");
    }

    #[test]
    fn the_threads_of_a_card_say_more_than_the_range_of_all() {
        let everywhere = anywhere();
        for card in GPUS {
            let here = on(card);
            assert!(
                here.high.0 * everywhere.low.0 < everywhere.high.0 * here.low.0,
                "{}",
                card.name
            );
            assert!(here.holds(here.bytes.0), "{}", card.name);
        }
    }

    #[test]
    fn a_card_that_was_read_expects_its_own_median() {
        let t4 = gpu::find("t4").unwrap();
        let own = cards().iter().find(|card| card.gpu.name == "t4").unwrap();
        assert_eq!(on(t4).bytes.0, own.median());
        assert!((100 * MIB..150 * MIB).contains(&own.median()));
    }

    #[test]
    fn the_middle_of_an_even_number_is_between_two() {
        assert_eq!(median(&[]), 0);
        assert_eq!(median(&[3]), 3);
        assert_eq!(median(&[1, 4]), 2);
        assert_eq!(median(&[1, 2, 9]), 2);
    }
}
