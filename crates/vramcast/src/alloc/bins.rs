//! Bins of block sizes: which bin a size falls into, and which bins hold something.
//!
//! Constraint: both allocators look here on every request, so the next occupied bin is found by
//! the bits of a few words.

/// Blocks of both allocators start and end on multiples of this many bytes: PyTorch's
/// `kMinBlockSize`, and the same in the driver's pool by the event log.
pub(super) const GRANULE: u64 = 512;

/// Which of `64 * WORDS` bins are occupied, where an octave of sizes has `2^MANTISSA_BITS` bins.
#[derive(Clone)]
pub(super) struct Bins<const MANTISSA_BITS: u32, const WORDS: usize> {
    occupied: [u64; WORDS],
}

impl<const MANTISSA_BITS: u32, const WORDS: usize> Bins<MANTISSA_BITS, WORDS> {
    pub(super) const COUNT: usize = WORDS * 64;

    pub(super) fn new() -> Self {
        Self {
            occupied: [0; WORDS],
        }
    }

    /// The bin of a size: exact up to `2^MANTISSA_BITS` granules, then so many bins per octave.
    pub(super) fn of(size: u64) -> usize {
        let granules = size / GRANULE;
        let shift = granules.max(1).ilog2().saturating_sub(MANTISSA_BITS);
        ((shift as usize) << MANTISSA_BITS) + (granules >> shift) as usize
    }

    pub(super) fn occupy(&mut self, bin: usize) {
        self.occupied[bin / 64] |= 1 << (bin % 64);
    }

    pub(super) fn vacate(&mut self, bin: usize) {
        self.occupied[bin / 64] &= !(1 << (bin % 64));
    }

    /// The first occupied bin from `bin` on.
    pub(super) fn first_from(&self, bin: usize) -> Option<usize> {
        let mut word = bin / 64;
        let mut bits = self.occupied.get(word)? & (u64::MAX << (bin % 64));
        while bits == 0 {
            word += 1;
            bits = *self.occupied.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// The last occupied bin.
    pub(super) fn last(&self) -> Option<usize> {
        let word = self.occupied.iter().rposition(|&bits| bits != 0)?;
        Some(word * 64 + 63 - self.occupied[word].leading_zeros() as usize)
    }
}
