//! Which 32 MiB chunks of the pool's address range have physical memory.
//!
//! Constraint: the count of backed chunks is the pool's reserved figure, so it
//! changes only where a chunk is mapped or unmapped.

use std::ops::Range;

/// Bytes of one physical chunk: reserved figures are multiples of it in every
/// experiment of the event log.
pub const CHUNK: u64 = 32 << 20;

/// A set of chunk numbers.
#[derive(Default)]
pub(super) struct Chunks {
    words: Vec<u64>,
    backed: u64,
}

/// Chunks that `size` bytes at `offset` touch.
pub(super) fn touched(offset: u64, size: u64) -> Range<u64> {
    offset / CHUNK..(offset + size).div_ceil(CHUNK)
}

/// Chunks that lie wholly inside `size` bytes at `offset`.
pub(super) fn inside(offset: u64, size: u64) -> Range<u64> {
    offset.div_ceil(CHUNK)..(offset + size) / CHUNK
}

/// The words that hold `range`, each with the bits of the range in it.
fn masks(range: Range<u64>) -> impl Iterator<Item = (usize, u64)> {
    (range.start / 64..range.end.div_ceil(64)).map(move |word| {
        let from = range.start.saturating_sub(word * 64);
        let to = (range.end - word * 64).min(64);
        (word as usize, (u64::MAX << from) & (u64::MAX >> (64 - to)))
    })
}

impl Chunks {
    /// Bytes of all backed chunks.
    pub(super) fn bytes(&self) -> u64 {
        self.backed * CHUNK
    }

    /// Whether every chunk of `range` is backed.
    pub(super) fn all_backed(&self, range: Range<u64>) -> bool {
        masks(range).all(|(word, mask)| self.bits(word, mask) == mask)
    }

    /// The backed chunks of `range`.
    pub(super) fn backed_in(&self, range: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        masks(self.known(range)).flat_map(|(word, mask)| {
            let mut bits = self.bits(word, mask);
            std::iter::from_fn(move || {
                let chunk = (bits != 0).then(|| u64::from(bits.trailing_zeros()));
                bits &= bits.wrapping_sub(1);
                chunk.map(|bit| word as u64 * 64 + bit)
            })
        })
    }

    /// How many chunks of `range` are not backed.
    pub(super) fn missing(&self, range: Range<u64>) -> u64 {
        masks(range)
            .map(|(word, mask)| u64::from((mask & !self.bits(word, mask)).count_ones()))
            .sum()
    }

    /// Backs every chunk of `range`.
    pub(super) fn map(&mut self, range: Range<u64>) {
        let words = range.end.div_ceil(64) as usize;
        if words > self.words.len() {
            self.words.resize(words, 0);
        }
        for (word, mask) in masks(range) {
            self.backed += u64::from((mask & !self.words[word]).count_ones());
            self.words[word] |= mask;
        }
    }

    /// Takes the memory of every chunk of `range`.
    pub(super) fn unmap(&mut self, range: Range<u64>) {
        for (word, mask) in masks(self.known(range)) {
            self.backed -= u64::from((mask & self.words[word]).count_ones());
            self.words[word] &= !mask;
        }
    }

    fn bits(&self, word: usize, mask: u64) -> u64 {
        self.words.get(word).map_or(0, |bits| bits & mask)
    }

    /// The part of `range` below the highest chunk that ever was backed.
    fn known(&self, range: Range<u64>) -> Range<u64> {
        let end = range.end.min(64 * self.words.len() as u64);
        range.start.min(end)..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_across_words() {
        let mut chunks = Chunks::default();
        chunks.map(60..130);
        assert_eq!(chunks.bytes(), 70 * CHUNK);
        chunks.map(64..66);
        chunks.unmap(127..129);
        assert_eq!(chunks.bytes(), 68 * CHUNK);
        assert!(chunks.all_backed(60..127));
        assert!(chunks.all_backed(200..200));
        assert!(!chunks.all_backed(59..61));
        assert!(!chunks.all_backed(129..1000));
        assert_eq!(chunks.missing(50..140), 10 + 2 + 10);
        let backed: Vec<u64> = chunks.backed_in(126..1 << 21).collect();
        assert_eq!(backed, [126, 129]);
        chunks.unmap(0..1 << 21);
        assert_eq!(chunks.bytes(), 0);
    }
}
