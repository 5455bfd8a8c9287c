//! PyTorch's CUDA caching allocator (the native backend), simulated for one stream.
//!
//! Constraint: given the addresses of the driver's segments, every address and every segment is the
//! one that PyTorch 2.11 gives; `tests/caching_replay.rs` holds it to traces of an H200. The rules
//! are those of `c10/cuda/CUDACachingAllocator.cpp`:
//!
//! * A request is rounded up to 512 B, or as [`Conf`] says. Up to 1 MiB it belongs to the small
//!   pool, above to the large one.
//! * It takes the smallest free block of its pool that is large enough, at the lowest address among
//!   equals, in whichever segment.
//! * If there is none, the driver is asked for a segment: 2 MiB for small requests, 20 MiB for
//!   those below 10 MiB, else the request rounded up to 2 MiB.
//! * What is left of the block stays free if it is 512 B or more in the small pool, or more than
//!   1 MiB in the large one. Otherwise it counts as allocated.
//! * A freed block merges with free neighbours in its segment. Segments stay, see `release`.
//! * With expandable segments each pool grows one region instead, see `expandable`.

mod addresses;
mod conf;
mod expandable;
mod free_list;
#[cfg(test)]
mod invariants;
mod release;
mod replay;
mod stats;

pub use addresses::AddressOrder;
use addresses::Addresses;
pub use conf::{Conf, ConfError};
use free_list::{Entry, FreeList};
pub use replay::{Failure, PhaseFigures, Replay, replay};
pub use stats::{OutOfMemory, SegmentEvent, Stats};

use super::bins::GRANULE;
use crate::bytes::MIB;

/// The largest small block, and the largest rest that a large block keeps (`kSmallSize`).
const SMALL_SIZE: u64 = MIB;
/// Segments of the small pool (`kSmallBuffer`).
const SMALL_SEGMENT: u64 = 2 * MIB;
/// Segments of the large pool for requests below `OWN_SEGMENT` (`kLargeBuffer`).
const LARGE_SEGMENT: u64 = 20 * MIB;
/// From here a request gets a segment of its own size (`kMinLargeAlloc`).
const OWN_SEGMENT: u64 = 10 * MIB;
/// To which such a segment is rounded up (`kRoundLarge`).
const ROUND_LARGE: u64 = 2 * MIB;

/// More than any device has: the addresses of a 64-bit process.
const RANGE: u64 = 1 << 47;

/// The null value of every block number.
const NONE: u32 = u32::MAX;

/// The number of a pool.
type Pool = usize;
const SMALL: Pool = 0;
const LARGE: Pool = 1;

/// How much memory the allocator may reserve, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// What `set_per_process_memory_fraction` allows: the fraction of the device's total, rounded
    /// down. PyTorch checks it before it asks the driver.
    pub allowed: Option<u64>,
    /// What the driver has to give.
    pub capacity: u64,
}

impl Limits {
    /// A device that never runs out.
    pub const NONE: Self = Self {
        allowed: None,
        capacity: u64::MAX,
    };

    /// The cap that `set_per_process_memory_fraction` sets, on a device that never runs out.
    pub fn allowed(bytes: u64) -> Self {
        Self {
            allowed: Some(bytes),
            ..Self::NONE
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Live,
    Free,
    /// A part of an expandable region that no memory backs.
    Unmapped,
}

/// A piece of a segment. Blocks cover their segment without gaps.
#[derive(Clone, Copy)]
struct Block {
    address: u64,
    size: u64,
    /// What the caller asked for, while live.
    requested: u64,
    /// Neighbours by address in the same segment.
    below: u32,
    above: u32,
    /// How many searches of its pool there had been when it was freed.
    freed_at: u64,
    pool: Pool,
    state: State,
}

/// The caching allocator of one device, as one stream sees it.
///
/// The caller names allocations by dense numbers: the memory for the bookkeeping grows with the
/// largest one.
#[derive(Clone)]
pub struct CachingAllocator {
    conf: Conf,
    limits: Limits,
    blocks: Vec<Block>,
    /// Numbers of `blocks` not in use.
    spare: Vec<u32>,
    /// The block of each live allocation, `NONE` for others.
    live: Vec<u32>,
    free: [FreeList; 2],
    /// Searches of each pool so far, the clock of garbage collection.
    searches: [u64; 2],
    regions: [expandable::Region; 2],
    addresses: Addresses,
    stats: Stats,
    events: Vec<SegmentEvent>,
}

impl CachingAllocator {
    /// An allocator that has reserved nothing yet.
    pub fn new(conf: Conf, limits: Limits, order: AddressOrder) -> Self {
        Self {
            conf,
            limits,
            blocks: Vec::new(),
            spare: Vec::new(),
            live: Vec::new(),
            free: [FreeList::new(), FreeList::new()],
            searches: [0; 2],
            regions: Default::default(),
            addresses: Addresses::new(order),
            stats: Stats::default(),
            events: Vec::new(),
        }
    }

    /// Allocates `bytes` under the number `id`, which must not be live, and returns the address.
    /// Zero bytes take no block; their address is 0 and means nothing.
    ///
    /// # Errors
    /// If the limits do not allow the segment that is needed, even after all cached memory that can
    /// be released was. The allocator can be used further, as PyTorch's can.
    pub fn alloc(&mut self, id: u32, bytes: u64) -> Result<u64, OutOfMemory> {
        if bytes == 0 {
            return Ok(0);
        }
        if bytes > RANGE {
            return Err(self.out_of_memory(bytes, bytes));
        }
        let size = self.conf.round(bytes);
        let pool = if size <= SMALL_SIZE { SMALL } else { LARGE };
        let found = self.search(pool, size);
        let Some(block) = found.or_else(|| self.grow(pool, size)) else {
            return Err(self.out_of_memory(bytes, segment_size(size)));
        };
        if self.splits(pool, size, self.blocks[block as usize].size) {
            self.split(block, size);
        }
        let taken = &mut self.blocks[block as usize];
        taken.state = State::Live;
        taken.requested = bytes;
        let (address, size) = (taken.address, taken.size);
        self.stats.add_live(size, bytes);
        let slot = id as usize;
        if slot >= self.live.len() {
            self.live.resize(slot + 1, NONE);
        }
        debug_assert!(self.live[slot] == NONE, "allocation {id} is live already");
        self.live[slot] = block;
        Ok(address)
    }

    /// Frees the allocation `id`. A number that is not live is ignored, as that of an allocation of
    /// zero bytes or a failed one.
    pub fn free(&mut self, id: u32) {
        let Some(block) = self.live.get_mut(id as usize) else {
            return;
        };
        let block = std::mem::replace(block, NONE);
        if block == NONE {
            return;
        }
        let freed = self.blocks[block as usize];
        self.stats.remove_live(freed.size, freed.requested);
        self.insert_free(block);
    }

    /// Returns every segment without a live block to the driver (`torch.cuda.empty_cache`).
    pub fn empty_cache(&mut self) {
        self.release_cached();
    }

    /// What is and was allocated and reserved.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Starts the peaks anew at what is allocated and reserved now
    /// (`torch.cuda.reset_peak_memory_stats`).
    pub fn reset_peaks(&mut self) {
        self.stats.reset_peaks();
    }

    /// What was asked of the driver and returned to it since the last call, in order.
    pub fn take_segment_events(&mut self) -> Vec<SegmentEvent> {
        std::mem::take(&mut self.events)
    }

    /// The free block for a request, taken out of its list (`get_free_block`).
    fn search(&mut self, pool: Pool, size: u64) -> Option<u32> {
        self.searches[pool] += 1;
        let mut fit = self.free[pool].first_from(size, 0)?;
        if self.conf.expandable_segments {
            fit = self.less_expandable(pool, fit);
        }
        let whole = size >= self.conf.max_split_size;
        let most = if whole {
            size.saturating_add(self.conf.max_non_split_rounding)
        } else {
            self.conf.max_split_size
        };
        if fit.size >= most {
            return None;
        }
        self.free[pool].remove(fit.size, fit.address);
        Some(fit.block)
    }

    /// A block made of new memory, in no list. Cached memory is released if it has to be.
    fn grow(&mut self, pool: Pool, size: u64) -> Option<u32> {
        self.collect_garbage();
        if let Some(block) = self.new_memory(pool, size) {
            return Some(block);
        }
        if self.release_oversize(pool, size)
            && let Some(block) = self.new_memory(pool, size)
        {
            return Some(block);
        }
        self.release_cached();
        self.stats.retries += 1;
        self.new_memory(pool, size)
    }

    /// A new segment or a longer region, if the limits allow it (`alloc_block`).
    fn new_memory(&mut self, pool: Pool, size: u64) -> Option<u32> {
        let segment = segment_size(size);
        // With expandable segments, too, PyTorch compares a whole segment with the allowed memory.
        let after = self.stats.reserved.checked_add(segment)?;
        if self.limits.allowed.is_some_and(|allowed| after > allowed) {
            return None;
        }
        if self.conf.expandable_segments {
            return self.expand(pool, size);
        }
        if after > self.limits.capacity.min(RANGE) {
            return None;
        }
        let address = self.addresses.next(segment);
        let bytes = segment;
        self.events.push(SegmentEvent::Alloc { address, bytes });
        self.stats.add_reserved(segment);
        Some(self.new_block(Block {
            address,
            size: segment,
            requested: 0,
            below: NONE,
            above: NONE,
            freed_at: 0,
            pool,
            state: State::Free,
        }))
    }

    /// Whether a request leaves the rest of its block free (`should_split`).
    fn splits(&self, pool: Pool, size: u64, block: u64) -> bool {
        let rest = block - size;
        if pool == SMALL || self.conf.expandable_segments {
            rest >= GRANULE
        } else {
            size < self.conf.max_split_size && rest > SMALL_SIZE
        }
    }

    /// Cuts a block, which is in no list, after `size` bytes; the upper part becomes a free one.
    fn split(&mut self, block: u32, size: u64) {
        let rest = self.cut(block, size);
        self.list_free(rest);
    }

    /// Cuts a block after `size` bytes and returns the upper part, which is in no list yet.
    fn cut(&mut self, block: u32, size: u64) -> u32 {
        let lower = &mut self.blocks[block as usize];
        let mut upper = *lower;
        lower.size = size;
        upper.address += size;
        upper.size -= size;
        upper.below = block;
        let rest = self.new_block(upper);
        self.blocks[block as usize].above = rest;
        if upper.above != NONE {
            self.blocks[upper.above as usize].below = rest;
        }
        rest
    }

    /// Makes a block, which is in no list, a free one, and merges it with its free neighbours.
    fn insert_free(&mut self, block: u32) {
        let Block { below, above, .. } = self.blocks[block as usize];
        for neighbour in [below, above] {
            if neighbour == NONE {
                continue;
            }
            let Block {
                address,
                size,
                pool,
                state,
                ..
            } = self.blocks[neighbour as usize];
            if state == State::Free {
                self.free[pool].remove(size, address);
                self.absorb(block, neighbour);
            }
        }
        self.list_free(block);
    }

    /// Makes a block, which is in no list, a free one.
    fn list_free(&mut self, block: u32) {
        let freed = &mut self.blocks[block as usize];
        freed.state = State::Free;
        freed.freed_at = self.searches[freed.pool];
        self.free[freed.pool].insert(Entry {
            size: freed.size,
            address: freed.address,
            block,
        });
    }

    /// Joins a neighbour by address, which is in no list, to a block.
    fn absorb(&mut self, block: u32, neighbour: u32) {
        let gone = self.blocks[neighbour as usize];
        let kept = &mut self.blocks[block as usize];
        kept.size += gone.size;
        if gone.address < kept.address {
            kept.address = gone.address;
            kept.below = gone.below;
            if gone.below != NONE {
                self.blocks[gone.below as usize].above = block;
            }
        } else {
            kept.above = gone.above;
            if gone.above != NONE {
                self.blocks[gone.above as usize].below = block;
            }
        }
        self.spare.push(neighbour);
    }

    fn new_block(&mut self, block: Block) -> u32 {
        if let Some(spare) = self.spare.pop() {
            self.blocks[spare as usize] = block;
            return spare;
        }
        self.blocks.push(block);
        (self.blocks.len() - 1) as u32
    }

    fn out_of_memory(&mut self, requested: u64, tried: u64) -> OutOfMemory {
        self.stats.ooms += 1;
        OutOfMemory {
            requested,
            tried,
            allowed: self.limits.allowed,
            allocated: self.stats.allocated,
            reserved: self.stats.reserved,
        }
    }
}

/// Bytes of the segment that a block of `size` bytes is carved from (`get_allocation_size`).
fn segment_size(size: u64) -> u64 {
    if size <= SMALL_SIZE {
        SMALL_SEGMENT
    } else if size < OWN_SEGMENT {
        LARGE_SEGMENT
    } else {
        size.next_multiple_of(ROUND_LARGE)
    }
}
