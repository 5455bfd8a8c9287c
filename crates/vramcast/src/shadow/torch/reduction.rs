//! The staging buffers of PyTorch's reductions and scans. Those of reductions depend on the card
//! (ATen, cuda/Reduce.cuh, `setReduceConfig`; as traced).

use super::Card;
use super::tensor::Device;

/// Items of a tile of cub's scans: of ids, and of the partial sums of an embedding's gradient. The
/// sizes that were traced and probed allow 4,096 to 6,929, and 820 to 953.
pub(super) const IDS_TILE: u64 = 4608;
/// See [`IDS_TILE`].
pub(super) const SUMS_TILE: u64 = 896;

/// Bytes of the buffer that cub's scan of so many items makes: 16 a tile, and 48 tiles more.
pub(super) fn scan(items: u64, tile: u64) -> u64 {
    255 + (16 * (48 + items.div_ceil(tile))).next_multiple_of(256)
}

/// Which way over a row-major matrix a reduction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// Down its rows, to one value a column: what is reduced lies apart.
    Rows,
    /// Along its columns, to one value a row: what is reduced lies together.
    Columns,
}

/// Bytes of the two buffers that a reduction of `inputs` values to each of `outputs` makes beside
/// its result, where several blocks share one output: their partial results, and counters.
fn staging(card: Card, over: Over, inputs: u64, outputs: u64) -> Option<(u64, u64)> {
    /// Half precision is accumulated in single.
    const ACCUMULATOR: u64 = 4;
    // Outputs that lie together are reduced several at once. Inputs that lie together are read
    // several at once, but where blocks share an output that changes no size.
    let vector = match over {
        Over::Rows => [4, 2, 1].into_iter().find(|v| outputs.is_multiple_of(*v))?,
        Over::Columns => 1,
    };
    let groups = outputs / vector;
    let (fast, slow) = match over {
        Over::Rows => (groups, inputs),
        Over::Columns => (inputs, groups),
    };
    let most_threads = 512 / vector;
    let across = floor_to_power(fast).min(most_threads);
    let down = floor_to_power(slow).min(most_threads);
    let height = down.min(most_threads / across.min(32));
    let width = across.min(most_threads / height);
    let threads = width * height;
    // The width of a block is over what lies together; its height shares that out further if each
    // thread still has enough to do.
    let (own_inputs, own_groups) = match over {
        Over::Rows => (inputs, groups.div_ceil(width)),
        Over::Columns => (inputs.div_ceil(width), groups),
    };
    if own_inputs < (16 * height).min(256) {
        return None;
    }
    let (values, grid) = (own_inputs.div_ceil(height), own_groups);
    let resident = card.multiprocessors * (card.threads_per_multiprocessor / threads);
    if values < 256 || grid > resident {
        return None;
    }
    let blocks = resident
        .div_ceil(grid)
        .min(values.div_ceil(16))
        .max(values.div_ceil(256));
    let shares = match over {
        Over::Rows => blocks * width * vector,
        Over::Columns => blocks,
    };
    let partial = outputs.saturating_mul(ACCUMULATOR).saturating_mul(shares);
    (blocks > 1).then_some((partial, 4 * grid))
}

fn floor_to_power(n: u64) -> u64 {
    1 << n.max(1).ilog2()
}

impl Device {
    /// What a reduction of `inputs` values to each of `outputs` makes and gives back, after its
    /// result exists.
    pub(super) fn stage(&self, over: Over, inputs: u64, outputs: u64, op: &'static str) {
        if let Some((partial, counters)) = staging(self.0.profile.card, over, inputs, outputs) {
            let partial = self.bytes(partial, op);
            let counters = self.bytes(counters, op);
            drop((counters, partial));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_over_rows_stage_what_was_traced() {
        let of = |rows, columns| staging(Card::H200, Over::Rows, rows, columns);
        assert_eq!(of(1024, 768), Some((6_291_456, 24)));
        assert_eq!(of(1024, 3072), Some((25_165_824, 96)));
        assert_eq!(of(30_522, 768), Some((138_412_032, 24)));
        assert_eq!(of(8, 768), None);
    }

    #[test]
    fn scans_take_what_was_probed() {
        for (items, bytes) in [
            (3_073, 1_279),
            (8_192, 1_279),
            (16_384, 1_535),
            (30_522, 1_791),
            (32_128, 1_791),
            (50_257, 2_047),
            (65_536, 2_303),
        ] {
            assert_eq!(scan(items, SUMS_TILE), bytes, "{items}");
        }
        assert_eq!(scan(65_536, IDS_TILE), 1_279);
        assert_eq!(scan(110_889, IDS_TILE), 1_535);
    }

    #[test]
    fn sums_along_columns_stage_what_was_traced() {
        let of = |rows, columns| staging(Card::H200, Over::Columns, columns, rows);
        assert_eq!(of(1, 786_432), Some((384, 4)));
        assert_eq!(of(1, 10_000_000), Some((2112, 4)));
        assert_eq!(of(1, 30_522), None);
        assert_eq!(of(30_522, 768), None);
    }
}
