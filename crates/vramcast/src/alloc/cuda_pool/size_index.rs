//! Free blocks ordered by size, and by age among equal sizes.
//!
//! Constraint: the order is exactly (size, time of insertion), since the pool
//! takes the oldest of the smallest blocks that fit; every operation is O(1)
//! but for the few distinct sizes that share a bin.

/// The null value of every `u32` link.
pub(super) const NONE: u32 = u32::MAX;

/// Eight bins per octave.
type Bins = crate::alloc::bins::Bins<3, 6>;

/// The blocks of one size, oldest first.
#[derive(Clone, Copy)]
struct Class {
    size: u64,
    oldest: u32,
    newest: u32,
}

#[derive(Clone, Copy)]
struct Link {
    older: u32,
    newer: u32,
}

/// An ordered multimap from size in bytes to block number.
pub(super) struct SizeIndex {
    bins: Vec<Vec<Class>>,
    occupied: Bins,
    links: Vec<Link>,
}

impl SizeIndex {
    pub(super) fn new() -> Self {
        Self {
            bins: (0..Bins::COUNT).map(|_| Vec::new()).collect(),
            occupied: Bins::new(),
            links: Vec::new(),
        }
    }

    /// Adds `block` as the newest of its size.
    pub(super) fn insert(&mut self, size: u64, block: u32) {
        let slot = block as usize;
        if slot >= self.links.len() {
            let unlinked = Link {
                older: NONE,
                newer: NONE,
            };
            self.links.resize(slot + 1, unlinked);
        }
        let bin = Bins::of(size);
        let classes = &mut self.bins[bin];
        let at = position(classes, size);
        let mut older = NONE;
        match classes.get_mut(at) {
            Some(class) if class.size == size => {
                older = class.newest;
                class.newest = block;
                self.links[older as usize].newer = block;
            }
            _ => {
                let class = Class {
                    size,
                    oldest: block,
                    newest: block,
                };
                classes.insert(at, class);
                self.occupied.occupy(bin);
            }
        }
        self.links[slot] = Link { older, newer: NONE };
    }

    /// Removes `block`, which was inserted under `size`.
    pub(super) fn remove(&mut self, size: u64, block: u32) {
        let Link { older, newer } = self.links[block as usize];
        if older != NONE {
            self.links[older as usize].newer = newer;
        }
        if newer != NONE {
            self.links[newer as usize].older = older;
        }
        if older != NONE && newer != NONE {
            return;
        }
        let bin = Bins::of(size);
        let classes = &mut self.bins[bin];
        let at = position(classes, size);
        if older == NONE && newer == NONE {
            classes.remove(at);
            if classes.is_empty() {
                self.occupied.vacate(bin);
            }
        } else if older == NONE {
            classes[at].oldest = newer;
        } else {
            classes[at].newest = older;
        }
    }

    /// The block that best fits `size` bytes: the oldest of the smallest.
    pub(super) fn best_fit(&self, size: u64) -> Option<u32> {
        self.from(size).next()
    }

    /// Blocks of at least `size` bytes, smallest first, oldest first among equals.
    pub(super) fn from(&self, size: u64) -> impl Iterator<Item = u32> + '_ {
        let bin = Bins::of(size);
        let start = position(&self.bins[bin], size);
        let next = |bin: usize| self.occupied.first_from(bin + 1);
        let rest = std::iter::successors(next(bin), move |&bin| next(bin));
        self.bins[bin][start..]
            .iter()
            .chain(rest.flat_map(|b| self.bins[b].iter()))
            .flat_map(|class| {
                std::iter::successors(Some(class.oldest), |&block| {
                    Some(self.links[block as usize].newer).filter(|&next| next != NONE)
                })
            })
    }
}

/// Where a class of `size` is or belongs. Bins are short, so a scan beats bisection.
fn position(classes: &[Class], size: u64) -> usize {
    classes
        .iter()
        .position(|class| class.size >= size)
        .unwrap_or(classes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alloc::bins::GRANULE;

    #[test]
    fn bins_keep_the_order_of_sizes() {
        let mut last = 0;
        for granules in 1..100_000 {
            let bin = Bins::of(granules * GRANULE);
            assert!(bin == last || bin == last + 1);
            last = bin;
        }
        assert!(Bins::of(1 << 47) < Bins::COUNT);
    }

    #[test]
    fn oldest_of_the_smallest_that_fit() {
        let mut index = SizeIndex::new();
        for (block, granules) in [(0, 9), (1, 4), (2, 9), (3, 4096), (4, 9)] {
            index.insert(granules * GRANULE, block);
        }
        let order = |index: &SizeIndex, g: u64| index.from(g * GRANULE).collect::<Vec<_>>();
        assert_eq!(order(&index, 1), [1, 0, 2, 4, 3]);
        assert_eq!(order(&index, 5), [0, 2, 4, 3]);
        assert_eq!(order(&index, 10), [3]);
        assert!(order(&index, 4097).is_empty());
        index.remove(9 * GRANULE, 2);
        index.remove(9 * GRANULE, 0);
        assert_eq!(index.best_fit(5 * GRANULE), Some(4));
        index.remove(9 * GRANULE, 4);
        assert_eq!(index.best_fit(5 * GRANULE), Some(3));
        index.remove(4096 * GRANULE, 3);
        assert_eq!(index.best_fit(10 * GRANULE), None);
    }
}
