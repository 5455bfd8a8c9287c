//! Into how many parts Inductor splits a sum down the rows of a matrix (torch/_inductor/ir.py,
//! `Reduction.num_splits`; choices.py, `reduction_split_factor`, where what is summed lies apart).

use super::super::profile::Card;

/// The parts of the sums of `rows` values to each of `columns`; one where they are not split.
pub(super) fn parts(card: Card, rows: u64, columns: u64) -> u64 {
    const LEAST: u64 = 32;
    const MOST: u64 = 512;
    /// Values that a thread reads at once, and columns of a block.
    const READ: u64 = 4;
    const BLOCK: u64 = 128;
    let processors = card.multiprocessors;
    if rows <= LEAST || columns >= processors * 2 * 32 {
        return 1;
    }
    let threads = processors * card.threads_per_multiprocessor;
    let values = rows.saturating_mul(columns);
    let share = if values < LEAST * threads {
        LEAST
    } else if values < MOST * threads {
        let blocks = (threads / 256).div_ceil(columns.div_ceil(BLOCK));
        let even = rows.div_ceil(READ * blocks);
        let nearest = nearest_divisor(rows, even);
        if nearest.abs_diff(even) < 20 {
            nearest.max(LEAST)
        } else {
            even
        }
    } else {
        let nearest = nearest_divisor(rows, MOST);
        if nearest.abs_diff(MOST) < 50 {
            nearest
        } else {
            MOST
        }
    };
    rows.div_ceil(READ * share)
}

/// The divisor of `n` that is nearest to `target`, the smaller of two.
fn nearest_divisor(n: u64, target: u64) -> u64 {
    let to_root = (1..)
        .take_while(|d| d * d <= n)
        .filter(|d| n.is_multiple_of(*d));
    let divisors = to_root.flat_map(|d| [d, n / d]);
    divisors
        .min_by_key(|&d| (d.abs_diff(target), d))
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_split_as_the_generated_code_splits_them() {
        for (rows, columns, expected) in [
            (1024, 768, 8),
            (1024, 3072, 8),
            (3072, 768, 24),
            (3072, 3072, 24),
            (4096, 3072, 32),
            (2048, 256, 16),
            (231, 768, 2),
            (128, 1024, 1),
        ] {
            assert_eq!(
                parts(Card::H200, rows, columns),
                expected,
                "{rows} {columns}"
            );
        }
    }
}
