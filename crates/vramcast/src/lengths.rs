//! How long texts are in tokens: their distribution, what a `max_length` cuts off, sliding windows,
//! and how long the batches become that are made of them.
//!
//! All lengths include the tokens that a tokenizer adds, as `max_length` does.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use strum::VariantArray;

/// The lengths that are usual for `max_length`, in tokens.
pub const MAX_LENGTHS: [u64; 8] = [64, 128, 256, 512, 1024, 2048, 4096, 8192];

/// How many texts there are of every length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    counts: BTreeMap<u64, u64>,
    count: u64,
    tokens: u64,
}

/// What a `max_length` cuts off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncation {
    /// The longest that a text may be, in tokens.
    pub max_length: u64,
    /// Texts that are longer.
    pub texts: u64,
    /// Tokens that are lost.
    pub tokens: u64,
}

/// A window that slides over a text, as `return_overflowing_tokens` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The most tokens of a window.
    pub length: u64,
    /// Tokens at the end of one window that the next begins with: transformers' `stride`.
    pub stride: u64,
    /// Tokens that the tokenizer adds to every window.
    pub special: u64,
}

/// A window that does not advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a window of {} tokens does not advance: {} of them are special tokens and {} those of the window before",
    .0.length, .0.special, .0.stride
)]
pub struct NoAdvance(Window);

/// To what length the texts of a batch are padded.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display, VariantArray,
)]
#[serde(rename_all = "kebab-case")]
pub enum Padding {
    /// To `max_length`, however long they are.
    #[strum(to_string = "to max_length")]
    MaxLength,
    /// To the longest of the batch, which is drawn at random.
    #[strum(to_string = "to the longest of a batch")]
    Longest,
    /// To the longest of the batch, which is made of texts of like lengths.
    #[strum(to_string = "bucketed by length")]
    Bucketed,
}

/// How long the batches of an epoch are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Batches {
    /// The sequence that half of the batches do not exceed, in tokens.
    pub typical: u64,
    /// The sequence of the longest batch, in tokens.
    pub worst: u64,
    /// The share of padding in all tokens of an epoch, from 0 to 1; expected where batches are
    /// drawn at random.
    pub padding: f64,
}

impl Distribution {
    /// Adds a text of so many tokens.
    pub fn add(&mut self, length: u64) {
        self.add_all(length, 1);
    }

    fn add_all(&mut self, length: u64, count: u64) {
        *self.counts.entry(length).or_default() += count;
        self.count += count;
        self.tokens += length * count;
    }

    /// How many texts there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The tokens of all texts.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Every length that occurs and its number of texts, the shortest first.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        self.counts.iter().map(|(&length, &count)| (length, count))
    }

    /// The longest text; 0 if there is none.
    pub fn longest(&self) -> u64 {
        self.counts.keys().next_back().copied().unwrap_or(0)
    }

    /// The shortest length that so many percent of the texts do not exceed; 0 if there is none.
    pub fn quantile(&self, percent: u64) -> u64 {
        let rank = (u128::from(self.count) * u128::from(percent)).div_ceil(100);
        self.at(u64::try_from(rank).unwrap_or(u64::MAX).max(1))
    }

    /// The length of the text at a place in their order, from 1, the shortest first.
    fn at(&self, rank: u64) -> u64 {
        let mut seen = 0;
        let found = self.counts().find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        found.map_or(0, |(length, _)| length)
    }

    /// What is cut off at `max_length`.
    pub fn truncation(&self, max_length: u64) -> Truncation {
        let longer = || self.counts.range(max_length.saturating_add(1)..);
        Truncation {
            max_length,
            texts: longer().map(|(_, count)| count).sum(),
            tokens: longer()
                .map(|(length, count)| (length - max_length) * count)
                .sum(),
        }
    }

    /// What is left at `max_length`.
    fn truncated(&self, max_length: u64) -> Self {
        let mut left = Self::default();
        for (length, count) in self.counts() {
            left.add_all(length.min(max_length), count);
        }
        left
    }

    /// The windows that slide over the texts, each a text of its own.
    ///
    /// # Errors
    /// A window that does not advance.
    pub fn windows(&self, window: Window) -> Result<Self, NoAdvance> {
        let room = window.length.saturating_sub(window.special);
        let step = room.saturating_sub(window.stride);
        if step == 0 {
            return Err(NoAdvance(window));
        }
        let mut windows = Self::default();
        for (length, count) in self.counts() {
            let own = length.saturating_sub(window.special);
            let full = own.saturating_sub(room).div_ceil(step);
            windows.add_all(window.length, full * count);
            windows.add_all(own - full * step + window.special, count);
        }
        windows.counts.retain(|_, count| *count > 0);
        Ok(windows)
    }

    /// How long batches become whose texts are cut at `max_length` and padded. Nothing is padded
    /// where there are no texts.
    pub fn batches(&self, padding: Padding, max_length: u64, batch: u64) -> Batches {
        let texts = self.truncated(max_length);
        let batch = batch.clamp(1, texts.count.max(1));
        let worst = texts.longest();
        let mean = texts.tokens as f64 / texts.count.max(1) as f64;
        // The length of an epoch's rows on average.
        let (typical, worst, row) = match padding {
            Padding::MaxLength => (max_length, max_length, max_length as f64),
            Padding::Longest => {
                let (typical, row) = texts.longest_of(batch);
                (typical, worst, row)
            }
            Padding::Bucketed => {
                let (typical, row) = texts.in_buckets_of(batch);
                (typical, worst, row)
            }
        };
        Batches {
            typical,
            worst,
            padding: if row > 0.0 { 1.0 - mean / row } else { 0.0 },
        }
    }

    /// The longest of `batch` texts that are drawn at random: its median and its mean.
    fn longest_of(&self, batch: u64) -> (u64, f64) {
        let (mut median, mut mean) = (None, 0.0);
        let (mut seen, mut before) = (0, 0.0);
        for (length, count) in self.counts() {
            seen += count;
            let within = all_within(seen, self.count, batch);
            // Rounding must not decide a tie.
            if within >= 0.5 - 1e-12 {
                median.get_or_insert(length);
            }
            mean += length as f64 * (within - before);
            before = within;
        }
        (median.unwrap_or(0), mean)
    }

    /// The longest of every `batch` texts in the order of their lengths: the median over batches,
    /// and the mean over texts.
    fn in_buckets_of(&self, batch: u64) -> (u64, f64) {
        let batches = self.count.div_ceil(batch);
        let middle = batches.div_ceil(2).saturating_mul(batch).min(self.count);
        let (mut seen, mut closed, mut tokens) = (0, 0, 0.0);
        for (length, count) in self.counts() {
            seen += count;
            // The texts of the batches that end here.
            let end = if seen == self.count {
                seen
            } else {
                seen - seen % batch
            };
            tokens += length as f64 * (end - closed) as f64;
            closed = end;
        }
        (self.at(middle), tokens / self.count.max(1) as f64)
    }
}

/// The probability that `batch` of `all` texts, drawn at random, are among the `few` shortest.
fn all_within(few: u64, all: u64, batch: u64) -> f64 {
    if few < batch {
        return 0.0;
    }
    let mut all_of_them = 1.0;
    for drawn in 0..batch {
        all_of_them *= (few - drawn) as f64 / (all - drawn) as f64;
        if all_of_them < 1e-15 {
            return 0.0;
        }
    }
    all_of_them
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(lengths: &[u64]) -> Distribution {
        let mut all = Distribution::default();
        for &length in lengths {
            all.add(length);
        }
        all
    }

    #[test]
    fn a_quantile_is_the_length_of_a_text() {
        let all = of(&[3, 1, 4, 1, 5, 9, 2, 6, 5, 3]);
        let check = |percent, expected| assert_eq!(all.quantile(percent), expected, "{percent}");
        check(0, 1);
        check(50, 3);
        check(90, 6);
        check(91, 9);
        check(100, 9);
        assert_eq!((all.count(), all.tokens(), all.longest()), (10, 39, 9));
        assert_eq!(of(&[]).quantile(50), 0);
        assert_eq!(of(&[7]).quantile(99), 7);
    }

    #[test]
    fn what_is_longer_than_max_length_is_cut() {
        let all = of(&[10, 64, 65, 100]);
        let check = |max_length, texts, tokens| {
            let expected = Truncation {
                max_length,
                texts,
                tokens,
            };
            assert_eq!(all.truncation(max_length), expected);
        };
        check(64, 2, 37);
        check(100, 0, 0);
        check(u64::MAX, 0, 0);
        check(0, 4, 239);
    }

    #[test]
    fn windows_slide_as_those_of_transformers_do() {
        let check = |length, window: (u64, u64, u64), expected: &[u64]| {
            let (of_window, stride, special) = window;
            let window = Window {
                length: of_window,
                stride,
                special,
            };
            let windows = of(&[length]).windows(window).unwrap();
            assert_eq!(windows, of(expected), "{length} {window:?}");
        };
        check(10, (10, 0, 2), &[10]);
        check(2, (10, 0, 2), &[2]);
        check(11, (10, 0, 2), &[10, 3]);
        check(18, (10, 0, 2), &[10, 10]);
        check(11, (10, 4, 2), &[10, 7]);
        check(15, (10, 4, 2), &[10, 10, 7]);
        check(14, (10, 4, 2), &[10, 10]);
        check(7, (3, 2, 0), &[3, 3, 3, 3, 3]);
        let still = Window {
            length: 10,
            stride: 8,
            special: 2,
        };
        let error = of(&[5]).windows(still).unwrap_err().to_string();
        assert!(error.contains("does not advance"), "{error}");
    }

    #[test]
    fn batches_are_as_long_as_they_are_padded() {
        let all = of(&[10, 20, 30, 40, 200]);
        let check = |padding, max_length, batch, typical, worst, share: f64| {
            let batches = all.batches(padding, max_length, batch);
            assert_eq!(
                (batches.typical, batches.worst),
                (typical, worst),
                "{padding} {batch}"
            );
            assert!(
                (batches.padding - share).abs() < 1e-12,
                "{padding} {batches:?}"
            );
        };
        check(Padding::MaxLength, 100, 2, 100, 100, 1.0 - 200.0 / 500.0);
        check(Padding::Longest, 512, 1, 30, 200, 0.0);
        // Of ten pairs, 1, 2, 3 and 4 have 20, 30, 40 and 200 as their longest.
        check(Padding::Longest, 512, 2, 40, 200, 1.0 - 60.0 / 100.0);
        check(Padding::Longest, 512, 9, 200, 200, 1.0 - 60.0 / 200.0);
        // 10 20 | 30 40 | 200
        check(Padding::Bucketed, 512, 2, 40, 200, 1.0 - 300.0 / 320.0);
        check(Padding::Bucketed, 512, 9, 200, 200, 1.0 - 60.0 / 200.0);
        check(Padding::Bucketed, 25, 2, 25, 25, 1.0 - 105.0 / 115.0);
        let none = of(&[]).batches(Padding::Longest, 512, 8);
        assert_eq!((none.typical, none.worst, none.padding), (0, 0, 0.0));
    }

    /// What `batches` says, by making all of them.
    fn made(lengths: &[u64], padding: Padding, max_length: u64, batch: usize) -> (u64, f64) {
        let mut texts: Vec<u64> = lengths.iter().map(|&l| l.min(max_length)).collect();
        texts.sort_unstable();
        let batch = batch.min(texts.len());
        let longest_and_size: Vec<(u64, u64)> = match padding {
            Padding::MaxLength => vec![(max_length, 1)],
            Padding::Bucketed => texts
                .chunks(batch)
                .map(|texts| (texts[texts.len() - 1], texts.len() as u64))
                .collect(),
            Padding::Longest => (0u32..1 << texts.len())
                .filter(|drawn| drawn.count_ones() as usize == batch)
                .map(|drawn| (texts[drawn.ilog2() as usize], 1))
                .collect(),
        };
        let mut longest: Vec<u64> = longest_and_size.iter().map(|all| all.0).collect();
        longest.sort_unstable();
        let rows: u64 = longest_and_size
            .iter()
            .map(|(longest, size)| longest * size)
            .sum();
        let count: u64 = longest_and_size.iter().map(|all| all.1).sum();
        let mean = texts.iter().sum::<u64>() as f64 / texts.len() as f64;
        let typical = longest[longest.len().div_ceil(2) - 1];
        (typical, 1.0 - mean / (rows as f64 / count as f64))
    }

    proptest! {
        #[test]
        fn batches_are_those_that_can_be_made(
            lengths in prop::collection::vec(1u64..40, 1..10),
            max_length in 1u64..50,
            batch in 1usize..12,
        ) {
            let all = of(&lengths);
            for &padding in Padding::VARIANTS {
                let batches = all.batches(padding, max_length, batch as u64);
                let (typical, share) = made(&lengths, padding, max_length, batch);
                prop_assert_eq!(batches.typical, typical, "{}", padding);
                prop_assert!((batches.padding - share).abs() < 1e-9, "{} {:?}", padding, batches);
                prop_assert!(batches.typical <= batches.worst);
            }
        }

        #[test]
        fn windows_keep_every_token(
            length in 0u64..500,
            step in 1u64..50,
            stride in 0u64..50,
            special in 0u64..4,
        ) {
            let window = Window { length: step + stride + special, stride, special };
            let windows = of(&[length + special]).windows(window).unwrap();
            let own = windows.tokens() - windows.count() * special;
            prop_assert_eq!(own - (windows.count() - 1) * stride, length);
            prop_assert!(windows.longest() <= window.length);
        }
    }
}
