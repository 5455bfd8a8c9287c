//! The staging buffers of PyTorch's reductions and scans. Those of reductions depend on the card (ATen, cuda/Reduce.cuh,
//! `setReduceConfig`; as traced).

use super::Card;

/// Bytes of the buffer that cub's scan of so many items makes: 16 a tile. Tiles are as large as the
/// traces allow.
pub(super) fn scan(items: u64, tile: u64) -> u64 {
    255 + (16 * (48 + items.div_ceil(tile))).next_multiple_of(256)
}

/// Bytes of the two buffers that a sum of `[rows, columns]` over its rows makes beside its output,
/// where several blocks share one output.
pub(super) fn staging(card: Card, rows: u64, columns: u64) -> Option<(u64, u64)> {
    /// Sums are accumulated in single precision.
    const ACCUMULATOR: u64 = 4;
    let vector = [4, 2, 1].into_iter().find(|v| columns.is_multiple_of(*v))?;
    let outputs = columns / vector;
    let most_threads = 512 / vector;
    let across = floor_to_power(outputs).min(most_threads);
    let down = floor_to_power(rows).min(most_threads);
    let mut width = across.min(32);
    let height = down.min(most_threads / width);
    width = across.min(most_threads / height);
    let threads = width * height;
    let split = rows >= (16 * height).min(256);
    let values = if split { rows.div_ceil(height) } else { rows };
    let grid = outputs.div_ceil(width * if split { 1 } else { height });
    let resident = card.multiprocessors * (card.threads_per_multiprocessor / threads);
    if !split || values < 256 || grid > resident {
        return None;
    }
    let blocks = resident
        .div_ceil(grid)
        .min(values.div_ceil(16))
        .max(values.div_ceil(256));
    (blocks > 1).then(|| {
        let shares = ACCUMULATOR * blocks * width * vector;
        (columns.saturating_mul(shares), 4 * grid)
    })
}

fn floor_to_power(n: u64) -> u64 {
    1 << n.max(1).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_examples_come_out() {
        let h200 = Card::H200;
        assert_eq!(staging(h200, 1024, 768), Some((6_291_456, 24)));
        assert_eq!(staging(h200, 1024, 3072), Some((25_165_824, 96)));
        assert_eq!(staging(h200, 8, 768), None);
    }
}
