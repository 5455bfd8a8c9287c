//! Free blocks of one pool, ordered by size and then by address.
//!
//! Constraint: the order is exactly (size, address), PyTorch's `BlockComparatorSize`; a lookup is
//! O(1) but for the few blocks that share a bin.

/// A free block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    /// Bytes of the block.
    pub(super) size: u64,
    pub(super) address: u64,
    /// Its number in the arena.
    pub(super) block: u32,
}

impl Entry {
    fn key(&self) -> (u64, u64) {
        (self.size, self.address)
    }
}

/// 16 bins per octave.
type Bins = crate::alloc::bins::Bins<4, 12>;

/// An ordered set of free blocks.
#[derive(Clone)]
pub(super) struct FreeList {
    bins: Vec<Vec<Entry>>,
    occupied: Bins,
}

impl FreeList {
    pub(super) fn new() -> Self {
        Self {
            bins: vec![Vec::new(); Bins::COUNT],
            occupied: Bins::new(),
        }
    }

    pub(super) fn insert(&mut self, entry: Entry) {
        let bin = Bins::of(entry.size);
        let entries = &mut self.bins[bin];
        let at = position(entries, entry.key());
        entries.insert(at, entry);
        self.occupied.occupy(bin);
    }

    /// Removes the block of so many bytes at an address, which must be there.
    pub(super) fn remove(&mut self, size: u64, address: u64) {
        let bin = Bins::of(size);
        let entries = &mut self.bins[bin];
        let at = position(entries, (size, address));
        debug_assert_eq!(entries[at].key(), (size, address));
        entries.remove(at);
        if entries.is_empty() {
            self.occupied.vacate(bin);
        }
    }

    /// The first block that does not come before (`size`, `address`).
    pub(super) fn first_from(&self, size: u64, address: u64) -> Option<Entry> {
        let bin = Bins::of(size);
        // No block is as large as the last bins' end.
        let entries = self.bins.get(bin)?;
        if let Some(&entry) = entries.get(position(entries, (size, address))) {
            return Some(entry);
        }
        let bin = self.occupied.first_from(bin + 1)?;
        self.bins[bin].first().copied()
    }

    /// The block after `entry`.
    pub(super) fn after(&self, entry: Entry) -> Option<Entry> {
        self.first_from(entry.size, entry.address + 1)
    }

    /// The largest block, the highest address among equals.
    pub(super) fn last(&self) -> Option<Entry> {
        self.bins[self.occupied.last()?].last().copied()
    }

    /// All blocks in order.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = Entry> + '_ {
        self.bins.iter().flatten().copied()
    }
}

/// Where the first entry not before `key` is or would be.
fn position(entries: &[Entry], key: (u64, u64)) -> usize {
    entries.partition_point(|entry| entry.key() < key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_keep_the_order_of_sizes() {
        let mut last = 0;
        for granules in 1..100_000 {
            let bin = Bins::of(granules * 512);
            assert!(bin == last || bin == last + 1);
            last = bin;
        }
        assert!(Bins::of(1 << 48) < Bins::COUNT);
    }

    #[test]
    fn the_lowest_address_of_the_smallest_size_that_fits() {
        let mut list = FreeList::new();
        for (block, granules, address) in [(0, 90, 7), (1, 4, 5), (2, 90, 3), (3, 91, 1)] {
            list.insert(Entry {
                size: granules * 512,
                address,
                block,
            });
        }
        let fit = |list: &FreeList, granules: u64| {
            let found = list.first_from(granules * 512, 0);
            found.map(|entry| entry.block)
        };
        assert_eq!(fit(&list, 1), Some(1));
        assert_eq!(fit(&list, 5), Some(2));
        assert_eq!(fit(&list, 92), None);
        let order: Vec<u32> = list.iter().map(|entry| entry.block).collect();
        assert_eq!(order, [1, 2, 0, 3]);
        assert_eq!(list.last().map(|entry| entry.block), Some(3));
        list.remove(90 * 512, 3);
        assert_eq!(fit(&list, 5), Some(0));
        list.remove(90 * 512, 7);
        list.remove(91 * 512, 1);
        assert_eq!(fit(&list, 5), None);
        assert_eq!(list.last().map(|entry| entry.block), Some(1));
    }
}
