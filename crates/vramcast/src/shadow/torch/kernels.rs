//! How attention kernels cut their work, which decides the buffers they take beside their results.

use super::profile::Card;
use crate::dtype::DType;

/// How the memory-efficient kernel cuts its backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    /// Queries of one block.
    queries: u64,
    /// Keys of one block.
    keys: u64,
    /// Whether gradients of keys and values are summed in memory: where registers do not hold them.
    accumulates: bool,
}

impl Blocks {
    /// The first kernel of cutlassB.h that takes heads of `width` and whose shared memory the card
    /// has (read in the binaries of 2.9.1 to 2.11.0; heads of up to 64 as traced). Not followed: a
    /// larger block for heads of 65 to 96 without dropout on cards of capability 8.6 and 8.9.
    pub(super) fn new(card: Card, dtype: DType, width: u64) -> Self {
        // 163 KiB or more of shared memory a block.
        let large = matches!(card.compute_capability, (8, 0) | (9 | 10, _));
        let half = dtype != DType::F32;
        let (queries, keys) = match (half, width) {
            (_, ..=64) => (64, 64),
            (false, _) if large => (128, 64),
            (false, _) => (64, 64),
            (true, ..=128) if large => (128, 128),
            (true, ..=128) if card.compute_capability.0 >= 8 => (64, 64),
            (true, _) => (128, 64),
        };
        // The widths that kernels are made for.
        let widest = match width {
            0..=64 => 64,
            65..=128 => 128,
            129.. => u64::MAX,
        };
        Self {
            queries,
            keys,
            accumulates: half && widest > queries,
        }
    }

    /// Bytes in which `heads` heads in all sum their gradients
    /// (transformers/cuda/mem_eff_attention/kernel_backward.h, `workspace_size`).
    pub(super) fn workspace(self, heads: u64, seq: u64, width: u64) -> u64 {
        let block = 16 + 4 * self.queries * self.keys;
        let blocks = seq.div_ceil(self.queries) * width.div_ceil(self.keys);
        let mut head = blocks.saturating_mul(block);
        if self.accumulates {
            let parts = seq.div_ceil(self.keys).min(200 / heads.max(1)).max(1);
            let rows = 2 * self.keys * width.next_multiple_of(self.queries);
            head = head.saturating_add(4 * parts * rows);
        }
        head.saturating_mul(heads)
    }
}

impl Card {
    /// Into how many parts FlashAttention cuts the keys of `heads` heads in all, so that the card is
    /// busy (transformers/cuda/flash_attn/flash_api.cpp, `num_splits_heuristic`; two parts as
    /// traced).
    pub(super) fn flash_splits(self, heads: u64, seq: u64, width: u64) -> u64 {
        const MOST: u64 = 128;
        let block = match width {
            0..=64 => 256,
            65..=128 => 128,
            129.. => 64,
        };
        let blocks = seq.div_ceil(block);
        let work = heads.saturating_mul(seq.div_ceil(64));
        let room = 2 * self.multiprocessors;
        if work as f32 >= 0.8 * room as f32 {
            return 1;
        }
        // More parts that leave as many blocks to each are no gain.
        let eligible =
            |parts: &u64| *parts == 1 || blocks.div_ceil(*parts) != blocks.div_ceil(*parts - 1);
        let efficiency = |parts: u64| {
            let waves = (work * parts) as f32 / room as f32;
            waves / waves.ceil()
        };
        let parts = (1..=MOST.min(room).min(blocks)).filter(eligible);
        let best = parts.clone().map(efficiency).fold(0.0, f32::max);
        let mut good = parts.filter(|&parts| efficiency(parts) >= 0.85 * best);
        good.next().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flash_splits_the_keys_of_few_heads() {
        let card = |multiprocessors| Card {
            multiprocessors,
            ..Card::H200
        };
        for (multiprocessors, heads, seq, parts) in [
            (132, 12, 500, 2),
            (132, 12, 256, 1),
            (132, 9 * 12, 500, 1),
            (108, 12, 512, 2),
            (58, 12, 512, 1),
        ] {
            let found = card(multiprocessors).flash_splits(heads, seq, 64);
            assert_eq!(found, parts, "{multiprocessors} {heads} {seq}");
        }
    }

    #[test]
    fn the_gradient_of_queries_is_kept_in_whole_blocks() {
        let workspace =
            |dtype, width, seq| Blocks::new(Card::H200, dtype, width).workspace(1, seq, width);
        assert_eq!(workspace(DType::F32, 64, 128), 2 * 16_400);
        assert_eq!(workspace(DType::Bf16, 64, 200), 4 * 16_400);
        assert_eq!(workspace(DType::F32, 128, 200), 2 * 2 * 32_784);
        assert_eq!(workspace(DType::Bf16, 128, 200), 2 * 65_552);
    }
}
