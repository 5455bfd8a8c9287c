//! When cached memory goes back to the driver: never, but for `empty_cache`, garbage collection and
//! an allocation that fails.
//!
//! Constraint: only a free block that is its whole segment can be released, and the order is
//! PyTorch's, since a trace shows it.

use super::{CachingAllocator, Entry, LARGE, NONE, Pool, SMALL, SegmentEvent};

impl CachingAllocator {
    /// Frees segments of the large pool that have not been used for long, before a new one is made
    /// (`garbage_collect_cached_blocks`): while the goal is not met, all that are as old as the mean
    /// of those left. Age is counted in searches of the pool.
    pub(super) fn collect_garbage(&mut self) {
        let (Some(threshold), Some(allowed)) =
            (self.conf.garbage_collection_threshold, self.limits.allowed)
        else {
            return;
        };
        let threshold = (threshold * allowed as f64) as u64;
        let Some(goal) = self.stats.reserved.checked_sub(threshold) else {
            return;
        };
        let now = self.searches[LARGE];
        let mut candidates: Vec<(Entry, u64)> = self.free[LARGE]
            .iter()
            .filter(|entry| self.is_segment(entry.block))
            .map(|entry| (entry, now - self.blocks[entry.block as usize].freed_at))
            .collect();
        let mut total_age: u64 = candidates.iter().map(|&(_, age)| age).sum();
        let mut reclaimed = 0;
        while reclaimed < goal && !candidates.is_empty() {
            let mean = total_age as f64 / candidates.len() as f64;
            let before = candidates.len();
            candidates.retain(|&(entry, age)| {
                let old = age as f64 >= mean;
                if old {
                    reclaimed += entry.size;
                    total_age -= age;
                    self.release(LARGE, entry);
                }
                !old
            });
            if candidates.len() == before {
                break;
            }
        }
    }

    /// With `max_split_size_mb`, frees the smallest sufficient block that is never split, or the
    /// largest such ones until they suffice (`release_available_cached_blocks`). Whether they do.
    pub(super) fn release_oversize(&mut self, pool: Pool, size: u64) -> bool {
        let oversize = self.conf.max_split_size;
        if oversize == u64::MAX || self.conf.expandable_segments {
            return false;
        }
        let wanted = size.max(oversize);
        if let Some(entry) = self.free[pool].first_from(wanted, 0) {
            self.release(pool, entry);
            return true;
        }
        let mut released = 0;
        while released < wanted {
            match self.free[pool].last() {
                Some(entry) if entry.size >= oversize => {
                    released += entry.size;
                    self.release(pool, entry);
                }
                _ => return false,
            }
        }
        true
    }

    /// Frees all that can be, the large pool first (`release_cached_blocks`).
    pub(super) fn release_cached(&mut self) {
        for pool in [LARGE, SMALL] {
            let entries: Vec<Entry> = self.free[pool].iter().collect();
            for entry in entries {
                if self.conf.expandable_segments {
                    self.unmap(pool, entry.block);
                } else if self.is_segment(entry.block) {
                    self.release(pool, entry);
                }
            }
        }
    }

    /// Whether a free block is a whole segment that can be released.
    fn is_segment(&self, block: u32) -> bool {
        let block = &self.blocks[block as usize];
        block.below == NONE && block.above == NONE && !self.conf.expandable_segments
    }

    fn release(
        &mut self,
        pool: Pool,
        Entry {
            size,
            address,
            block,
        }: Entry,
    ) {
        debug_assert!(self.is_segment(block));
        self.free[pool].remove(size, address);
        self.spare.push(block);
        self.addresses.release(address, size);
        self.stats.reserved -= size;
        let bytes = size;
        self.events.push(SegmentEvent::Free { address, bytes });
    }
}
