//! The CUDA driver's default stream-ordered memory pool, simulated for one stream.
//!
//! Constraint: replaying the events of `reports/records/h200-cuda-pool.jsonl.gz`
//! (the event log) gives every address and every reserved figure to the byte.
//! The driver is closed; each rule below names an experiment of the log that
//! fails without it. No figure is fitted.
//!
//! * A block starts and ends on 512 B (`granularity`), and 32 MiB chunks of one
//!   growing address range are backed with memory as blocks need them (`growth`).
//! * A freed block is *pending*: it merges with pending neighbours only, and an
//!   allocation takes the best fit among pending blocks before all others,
//!   even where another free block fits better (`random-no-sync`).
//! * If none fits, the best fit among the other free blocks whose chunks are
//!   all backed is taken, without touching the pending ones (`random-no-sync`).
//! * If none fits, pending blocks whose free the device has reached are *folded*
//!   into the free ones, the latest free first (`holes`), and the best fit among
//!   all free blocks is taken, backed or not (`threshold-max`). The endless
//!   unbacked tail is the largest of them. In the event log the device had
//!   always reached them. In ten traces of candle, where it falls behind, a
//!   position of the device at every fold explains all 114 805 addresses;
//!   folding all pending blocks fails in each of the six that were tried.
//! * The device reaches a merged pending block with the latest of its frees:
//!   with the earliest, no positions explain the traces of training (8 x 512,
//!   16 x 128).
//! * Missing chunks are moved from where no live block touches them, the
//!   highest address first (`threshold-max`), and only then taken from the
//!   device.
//! * Among equal sizes the block that has been in its list the longest is taken
//!   (`random-sync-20`). The rest of a split block counts as new in that
//!   list, but keeps its place in the order of folding (`random-no-sync`).
//!   A merged pending block stands where the latest free put it; the log does
//!   not tell that from the place of its lower part.
//! * A synchronisation folds, then gives back every chunk that no live block
//!   touches (`partial-trim`); at the largest threshold it only folds
//!   (`threshold-max`).

mod chunks;
#[cfg(test)]
mod invariants;
mod size_index;

use super::bins::GRANULE;
pub use chunks::CHUNK;
use chunks::{Chunks, inside, touched};
use size_index::{NONE, SizeIndex};

/// Bytes of the simulated address range: far more than any device has, since
/// the log shows no end of it.
const RANGE: u64 = 1 << 46;

/// An allocation that the pool's capacity does not allow. All figures in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("out of memory: {requested} B requested, {used} B used, {reserved} B reserved")]
pub struct OutOfMemory {
    /// What the caller asked for.
    pub requested: u64,
    /// Requested bytes of all live blocks.
    pub used: u64,
    /// Bytes of physical chunks the pool holds.
    pub reserved: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Live,
    /// Freed, not yet folded.
    Pending,
    /// Free, every chunk backed.
    Backed,
    /// Free, at least one chunk not backed.
    Partial,
}

/// A piece of the address range. Blocks cover the range without gaps.
#[derive(Clone, Copy)]
struct Block {
    offset: u64,
    size: u64,
    /// Neighbours by address.
    below: u32,
    above: u32,
    /// Neighbours in the order of folding, while pending.
    newer: u32,
    older: u32,
    /// When the device reaches the free, while pending.
    freed_at: u64,
    /// `size` less the requested bytes, while live.
    padding: u16,
    state: State,
}

/// A stream-ordered memory pool, as one stream sees it.
///
/// The caller names allocations by dense numbers: the memory for the
/// bookkeeping grows with the largest one.
pub struct CudaPool {
    blocks: Vec<Block>,
    /// Numbers of `blocks` not in use.
    spare: Vec<u32>,
    /// The block of each live allocation, `NONE` for others.
    live: Vec<u32>,
    pending: SizeIndex,
    /// Ends of the order of folding.
    latest: u32,
    earliest: u32,
    free: SizeIndex,
    chunks: Chunks,
    /// Kept between calls, so that a move of chunks need not allocate.
    movable: Vec<(u64, u32)>,
    limit: u64,
    releases: bool,
    used: u64,
    used_high: u64,
    reserved_high: u64,
}

impl Default for CudaPool {
    fn default() -> Self {
        Self::new()
    }
}

impl CudaPool {
    /// An empty pool with release threshold 0, the driver's default, on a
    /// device that never runs out of memory.
    pub fn new() -> Self {
        Self::with_capacity_limit(u64::MAX)
    }

    /// An empty pool that may never reserve more than `limit` bytes.
    pub fn with_capacity_limit(limit: u64) -> Self {
        let mut pool = Self {
            blocks: Vec::new(),
            spare: Vec::new(),
            live: Vec::new(),
            pending: SizeIndex::new(),
            latest: NONE,
            earliest: NONE,
            free: SizeIndex::new(),
            chunks: Chunks::default(),
            movable: Vec::new(),
            limit,
            releases: true,
            used: 0,
            used_high: 0,
            reserved_high: 0,
        };
        let tail = pool.new_block(Block {
            offset: 0,
            size: RANGE,
            below: NONE,
            above: NONE,
            newer: NONE,
            older: NONE,
            freed_at: 0,
            padding: 0,
            state: State::Partial,
        });
        pool.free.insert(RANGE, tail);
        pool
    }

    /// Sets the release threshold to its maximum: `synchronize` then gives
    /// nothing back (`threshold-max` of the event log).
    pub fn without_release(mut self) -> Self {
        self.releases = false;
        self
    }

    /// Allocates `bytes` under the number `id`, which must not be live, and
    /// returns the block's offset in bytes from the base of the pool's range.
    ///
    /// Zero bytes take no block; their offset is 0 and means nothing. `now` is how far the device
    /// has come, on the clock of [`Self::free`].
    ///
    /// # Errors
    /// If the chunks still missing after folding pending blocks in and moving
    /// free chunks would exceed the capacity limit.
    pub fn alloc(&mut self, id: u32, bytes: u64, now: u64) -> Result<u64, OutOfMemory> {
        if bytes == 0 {
            return Ok(0);
        }
        if bytes > RANGE {
            return Err(self.out_of_memory(bytes));
        }
        let size = bytes.next_multiple_of(GRANULE);
        let block = if let Some(block) = self.pending.best_fit(size) {
            self.take_pending(block, size);
            block
        } else if let Some(block) = self.backed_fit(size) {
            self.take_free(block, size);
            block
        } else {
            self.fold(now);
            let Some(block) = self.free.best_fit(size) else {
                return Err(self.out_of_memory(bytes));
            };
            if self.state(block) == State::Partial && !self.back(block, size) {
                return Err(self.out_of_memory(bytes));
            }
            self.take_free(block, size);
            block
        };
        let taken = &mut self.blocks[block as usize];
        taken.state = State::Live;
        taken.padding = (size - bytes) as u16;
        let offset = taken.offset;
        let slot = id as usize;
        if slot >= self.live.len() {
            self.live.resize(slot + 1, NONE);
        }
        debug_assert!(self.live[slot] == NONE, "allocation {id} is live already");
        self.live[slot] = block;
        self.used += bytes;
        self.used_high = self.used_high.max(self.used);
        Ok(offset)
    }

    /// Frees the allocation `id` on the stream, which the device reaches at `at`; never earlier than
    /// the free before. A number that is not live is ignored, as that of an allocation of zero bytes
    /// or a failed one.
    pub fn free(&mut self, id: u32, at: u64) {
        let Some(block) = self.live.get_mut(id as usize) else {
            return;
        };
        let block = std::mem::replace(block, NONE);
        if block == NONE {
            return;
        }
        let freed = self.blocks[block as usize];
        self.used -= freed.size - u64::from(freed.padding);
        for neighbour in [freed.below, freed.above] {
            if neighbour != NONE && self.state(neighbour) == State::Pending {
                self.pending
                    .remove(self.blocks[neighbour as usize].size, neighbour);
                self.unlink_pending(neighbour);
                self.absorb(block, neighbour);
            }
        }
        let merged = &mut self.blocks[block as usize];
        merged.state = State::Pending;
        merged.freed_at = at;
        merged.newer = NONE;
        merged.older = self.latest;
        self.pending.insert(merged.size, block);
        match self.latest {
            NONE => self.earliest = block,
            latest => self.blocks[latest as usize].newer = block,
        }
        self.latest = block;
    }

    /// Waits for the stream, as `cuStreamSynchronize` does: pending blocks are
    /// folded in and chunks that no live block touches are given back.
    pub fn synchronize(&mut self) {
        self.fold(u64::MAX);
        if !self.releases {
            return;
        }
        for block in self.free.from(CHUNK) {
            let released = &mut self.blocks[block as usize];
            let range = inside(released.offset, released.size);
            if !range.is_empty() {
                released.state = State::Partial;
                self.chunks.unmap(range);
            }
        }
    }

    /// Requested bytes of all live blocks (`CU_MEMPOOL_ATTR_USED_MEM_CURRENT`).
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Bytes of all backed chunks (`CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT`).
    pub fn reserved(&self) -> u64 {
        self.chunks.bytes()
    }

    /// The highest `used` so far, in bytes (`CU_MEMPOOL_ATTR_USED_MEM_HIGH`).
    pub fn used_high(&self) -> u64 {
        self.used_high
    }

    /// The highest `reserved` so far, in bytes (`CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH`).
    pub fn reserved_high(&self) -> u64 {
        self.reserved_high
    }

    /// Starts the high-water marks anew at what is used and reserved now, as setting the `HIGH`
    /// attributes to 0 does.
    pub fn reset_high(&mut self) {
        self.used_high = self.used;
        self.reserved_high = self.reserved();
    }

    fn state(&self, block: u32) -> State {
        self.blocks[block as usize].state
    }

    fn out_of_memory(&self, requested: u64) -> OutOfMemory {
        OutOfMemory {
            requested,
            used: self.used,
            reserved: self.reserved(),
        }
    }

    /// The best fit among free blocks that need no chunk. A partial block holds
    /// a whole chunk, so there are few to pass over.
    fn backed_fit(&self, size: u64) -> Option<u32> {
        self.free
            .from(size)
            .find(|&block| self.state(block) == State::Backed)
    }

    /// Cuts `size` bytes off the bottom of a pending block.
    fn take_pending(&mut self, block: u32, size: u64) {
        let whole = self.blocks[block as usize];
        self.pending.remove(whole.size, block);
        if whole.size == size {
            self.unlink_pending(block);
            return;
        }
        let rest = self.split(block, size);
        self.pending.insert(whole.size - size, rest);
        // The rest copied the links: it stands where the whole block stood.
        match whole.newer {
            NONE => self.latest = rest,
            newer => self.blocks[newer as usize].older = rest,
        }
        match whole.older {
            NONE => self.earliest = rest,
            older => self.blocks[older as usize].newer = rest,
        }
    }

    /// Cuts `size` bytes off the bottom of a free block.
    fn take_free(&mut self, block: u32, size: u64) {
        let whole = self.blocks[block as usize];
        self.free.remove(whole.size, block);
        if whole.size == size {
            return;
        }
        let rest = self.split(block, size);
        let rest_size = whole.size - size;
        if whole.state == State::Partial {
            let range = touched(whole.offset + size, rest_size);
            if self.chunks.all_backed(range) {
                self.blocks[rest as usize].state = State::Backed;
            }
        }
        self.free.insert(rest_size, rest);
    }

    /// Backs the first `size` bytes of a free block, with chunks moved from
    /// elsewhere first. Changes nothing and returns false if the limit forbids it.
    fn back(&mut self, block: u32, size: u64) -> bool {
        let target = touched(self.blocks[block as usize].offset, size);
        let missing = self.chunks.missing(target.clone());
        if missing == 0 {
            return true;
        }
        let mut movable = std::mem::take(&mut self.movable);
        movable.clear();
        for from in self.free.from(CHUNK) {
            let Block { offset, size, .. } = self.blocks[from as usize];
            let spare = self.chunks.backed_in(inside(offset, size));
            movable.extend(
                spare
                    .filter(|chunk| !target.contains(chunk))
                    .map(|chunk| (chunk, from)),
            );
        }
        let moved = missing.min(movable.len() as u64);
        let fits = self.reserved() + (missing - moved) * CHUNK <= self.limit;
        if fits {
            movable.sort_unstable_by(|a, b| b.cmp(a));
            for &(chunk, from) in &movable[..moved as usize] {
                self.chunks.unmap(chunk..chunk + 1);
                self.blocks[from as usize].state = State::Partial;
            }
            self.chunks.map(target);
            self.reserved_high = self.reserved_high.max(self.reserved());
        }
        self.movable = movable;
        fits
    }

    /// Folds the pending blocks that the device has reached by `now` into the free ones, the latest
    /// free first.
    fn fold(&mut self, now: u64) {
        let mut block = self.latest_reached(now);
        while block != NONE {
            let Block {
                below,
                above,
                older,
                size,
                ..
            } = self.blocks[block as usize];
            self.pending.remove(size, block);
            self.unlink_pending(block);
            let mut state = State::Backed;
            for neighbour in [below, above] {
                if neighbour == NONE {
                    continue;
                }
                let Block { size, state: s, .. } = self.blocks[neighbour as usize];
                if s == State::Backed || s == State::Partial {
                    self.free.remove(size, neighbour);
                    self.absorb(block, neighbour);
                    if s == State::Partial {
                        state = State::Partial;
                    }
                }
            }
            let merged = &mut self.blocks[block as usize];
            merged.state = state;
            self.free.insert(merged.size, block);
            block = older;
        }
    }

    /// The latest pending block that the device has reached by `now`.
    fn latest_reached(&self, now: u64) -> u32 {
        let mut reached = NONE;
        let mut block = self.earliest;
        while block != NONE && self.blocks[block as usize].freed_at <= now {
            reached = block;
            block = self.blocks[block as usize].newer;
        }
        reached
    }

    /// Splits a block after `size` bytes and returns the upper part, which
    /// copies the block's state and its place in the order of folding.
    fn split(&mut self, block: u32, size: u64) -> u32 {
        let lower = &mut self.blocks[block as usize];
        let mut upper = *lower;
        lower.size = size;
        upper.offset += size;
        upper.size -= size;
        upper.below = block;
        let rest = self.new_block(upper);
        self.blocks[block as usize].above = rest;
        if upper.above != NONE {
            self.blocks[upper.above as usize].below = rest;
        }
        rest
    }

    /// Joins a neighbour by address, which is in no list, to a block.
    fn absorb(&mut self, block: u32, neighbour: u32) {
        let gone = self.blocks[neighbour as usize];
        let kept = &mut self.blocks[block as usize];
        kept.size += gone.size;
        if gone.offset < kept.offset {
            kept.offset = gone.offset;
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

    /// Takes a block out of the order of folding.
    fn unlink_pending(&mut self, block: u32) {
        let Block { newer, older, .. } = self.blocks[block as usize];
        match newer {
            NONE => self.latest = older,
            newer => self.blocks[newer as usize].older = older,
        }
        match older {
            NONE => self.earliest = newer,
            older => self.blocks[older as usize].newer = newer,
        }
    }

    fn new_block(&mut self, block: Block) -> u32 {
        if let Some(spare) = self.spare.pop() {
            self.blocks[spare as usize] = block;
            return spare;
        }
        self.blocks.push(block);
        (self.blocks.len() - 1) as u32
    }
}
