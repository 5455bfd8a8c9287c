//! Expandable segments: one growing region of addresses a pool, backed by pages as it needs them.
//!
//! Constraint: pages are mapped at the lowest place that has room, as in `find_expandable_block`.
//! PyTorch ends a region at 9/8 of the device's memory and starts another one; here a region has no
//! end, which differs only after pages were unmapped in its middle many times over.

use super::{
    Block, CachingAllocator, Entry, LARGE_SEGMENT, NONE, Pool, RANGE, SMALL, SMALL_SEGMENT,
    SegmentEvent, State,
};

/// The region of one pool.
#[derive(Clone, Default)]
pub(super) struct Region {
    /// Where it starts, once anything was mapped.
    base: Option<u64>,
    /// Its unmapped blocks, the lowest address first. The last one is the tail.
    pub(super) unmapped: Vec<u32>,
}

/// Bytes of the pages that back a pool's region.
fn page(pool: Pool) -> u64 {
    if pool == SMALL {
        SMALL_SEGMENT
    } else {
        LARGE_SEGMENT
    }
}

impl CachingAllocator {
    /// The best fit if a block counts as large as it could grow: the next block is taken instead as
    /// long as it is smaller by that measure.
    pub(super) fn less_expandable(&self, pool: Pool, mut fit: Entry) -> Entry {
        let expandable = |entry: Entry| {
            let above = self.blocks[entry.block as usize].above;
            entry.size + self.size_if(above, State::Unmapped)
        };
        while let Some(next) = self.free[pool].after(fit)
            && expandable(next) < expandable(fit)
        {
            fit = next;
        }
        fit
    }

    /// A block of at least `size` bytes from newly mapped pages and the free block below them, in no
    /// list (`try_allocate_expandable_block`).
    pub(super) fn expand(&mut self, pool: Pool, size: u64) -> Option<u32> {
        self.start_region(pool);
        let mut candidate = self.place_for(pool, size)?;
        if self.blocks[candidate as usize].state == State::Unmapped {
            let whole = self.blocks[candidate as usize].size;
            self.map(candidate, size.min(whole))?;
        }
        loop {
            let Block {
                address,
                size: had,
                above,
                ..
            } = self.blocks[candidate as usize];
            if had >= size {
                self.free[pool].remove(had, address);
                return Some(candidate);
            }
            let missing = (size - had).min(self.blocks[above as usize].size);
            self.map(above, missing)?;
            candidate = above;
        }
    }

    fn start_region(&mut self, pool: Pool) {
        if self.regions[pool].base.is_some() {
            return;
        }
        let size = RANGE / page(pool) * page(pool);
        let address = self.addresses.next(size);
        let tail = self.new_block(Block {
            address,
            size,
            requested: 0,
            below: NONE,
            above: NONE,
            freed_at: 0,
            pool,
            state: State::Unmapped,
        });
        self.regions[pool] = Region {
            base: Some(address),
            unmapped: vec![tail],
        };
    }

    /// The lowest block from which free and unmapped ones reach far enough.
    fn place_for(&self, pool: Pool, size: u64) -> Option<u32> {
        self.regions[pool].unmapped.iter().find_map(|&unmapped| {
            let below = self.blocks[unmapped as usize].below;
            let start = if self.size_if(below, State::Free) > 0 {
                below
            } else {
                unmapped
            };
            let (mut room, mut block) = (0, start);
            while room < size && block != NONE && self.blocks[block as usize].state != State::Live {
                room += self.blocks[block as usize].size;
                block = self.blocks[block as usize].above;
            }
            (room >= size).then_some(start)
        })
    }

    /// Backs the pages of the first `size` bytes of an unmapped block and makes them a free one,
    /// merged with its neighbours. `None` if the device has no memory left (`map_block`).
    fn map(&mut self, block: u32, size: u64) -> Option<()> {
        let Block {
            address,
            size: whole,
            pool,
            ..
        } = self.blocks[block as usize];
        let bytes = size.next_multiple_of(page(pool));
        let after = self.stats.reserved + bytes;
        if after > self.limits.capacity.min(RANGE) {
            return None;
        }
        let at = self.unmapped_position(pool, address);
        if bytes < whole {
            let rest = self.cut(block, bytes);
            self.regions[pool].unmapped[at] = rest;
        } else {
            self.regions[pool].unmapped.remove(at);
        }
        self.events.push(SegmentEvent::Map { address, bytes });
        self.stats.add_reserved(bytes);
        self.insert_free(block);
        Some(())
    }

    /// Takes the memory of all pages that lie whole in a free block (`unmap_block`).
    pub(super) fn unmap(&mut self, pool: Pool, block: u32) {
        let Block { address, size, .. } = self.blocks[block as usize];
        let base = self.regions[pool].base.unwrap_or(0);
        let start = base + (address - base).next_multiple_of(page(pool));
        let end = address + size;
        let end = end - (end - base) % page(pool);
        if start >= end {
            return;
        }
        self.free[pool].remove(size, address);
        let mut unmapped = block;
        if start > address {
            unmapped = self.cut(block, start - address);
            self.list_free(block);
        }
        if end < address + size {
            self.split(unmapped, end - start);
        }
        self.blocks[unmapped as usize].state = State::Unmapped;
        for neighbour in [
            self.blocks[unmapped as usize].below,
            self.blocks[unmapped as usize].above,
        ] {
            if self.size_if(neighbour, State::Unmapped) > 0 {
                let at = self.unmapped_position(pool, self.blocks[neighbour as usize].address);
                self.regions[pool].unmapped.remove(at);
                self.absorb(unmapped, neighbour);
            }
        }
        let at = self.unmapped_position(pool, self.blocks[unmapped as usize].address);
        self.regions[pool].unmapped.insert(at, unmapped);
        let bytes = end - start;
        self.stats.reserved -= bytes;
        let address = start;
        self.events.push(SegmentEvent::Unmap { address, bytes });
    }

    /// Where the unmapped block at an address is listed or belongs.
    fn unmapped_position(&self, pool: Pool, address: u64) -> usize {
        let unmapped = &self.regions[pool].unmapped;
        unmapped.partition_point(|&block| self.blocks[block as usize].address < address)
    }

    /// The bytes of a block if there is one and it is in that state, else 0.
    fn size_if(&self, block: u32, state: State) -> u64 {
        match self.blocks.get(block as usize) {
            Some(block) if block.state == state => block.size,
            _ => 0,
        }
    }
}
