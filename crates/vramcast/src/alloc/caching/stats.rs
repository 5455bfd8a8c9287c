//! What the allocator reports: its statistics, its traffic with the driver, and its failures.
//!
//! Constraint: each word means what PyTorch's `memory_stats` and its error message mean by it.

/// The allocator's figures. All but the counts in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// What the callers asked for, of all live blocks (`requested_bytes.all.current`).
    pub requested: u64,
    /// The highest `requested` since the last reset.
    pub requested_peak: u64,
    /// The sizes of all live blocks (`memory_allocated`).
    pub allocated: u64,
    /// The highest `allocated` since the last reset (`max_memory_allocated`).
    pub allocated_peak: u64,
    /// What the driver gave (`memory_reserved`).
    pub reserved: u64,
    /// The highest `reserved` since the last reset (`max_memory_reserved`).
    pub reserved_peak: u64,
    /// How often all cached memory was released for an allocation (`num_alloc_retries`).
    pub retries: u64,
    /// How many allocations failed (`num_ooms`).
    pub ooms: u64,
}

impl Stats {
    pub(super) fn add_live(&mut self, size: u64, requested: u64) {
        self.allocated += size;
        self.allocated_peak = self.allocated_peak.max(self.allocated);
        self.requested += requested;
        self.requested_peak = self.requested_peak.max(self.requested);
    }

    pub(super) fn remove_live(&mut self, size: u64, requested: u64) {
        self.allocated -= size;
        self.requested -= requested;
    }

    pub(super) fn add_reserved(&mut self, bytes: u64) {
        self.reserved += bytes;
        self.reserved_peak = self.reserved_peak.max(self.reserved);
    }

    pub(super) fn reset_peaks(&mut self) {
        self.requested_peak = self.requested;
        self.allocated_peak = self.allocated;
        self.reserved_peak = self.reserved;
    }
}

/// What was asked of the driver or returned to it, as PyTorch's memory history names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentEvent {
    /// `segment_alloc`.
    Alloc {
        /// Where the segment starts.
        address: u64,
        /// Its size.
        bytes: u64,
    },
    /// `segment_free`.
    Free {
        /// Where the segment started.
        address: u64,
        /// Its size.
        bytes: u64,
    },
    /// `segment_map`: pages of an expandable region got memory.
    Map {
        /// Where the pages start.
        address: u64,
        /// Their size.
        bytes: u64,
    },
    /// `segment_unmap`: pages of an expandable region lost their memory.
    Unmap {
        /// Where the pages start.
        address: u64,
        /// Their size.
        bytes: u64,
    },
}

/// An allocation that the limits do not allow, with the figures of PyTorch's message. All in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "out of memory: tried to allocate {tried} B for {requested} B requested; \
     {allocated} B allocated, {reserved} B reserved"
)]
pub struct OutOfMemory {
    /// What the caller asked for.
    pub requested: u64,
    /// "Tried to allocate": the segment, not the request.
    pub tried: u64,
    /// "allowed": the cap of this process, if there is one.
    pub allowed: Option<u64>,
    /// "allocated by PyTorch".
    pub allocated: u64,
    /// All segments. Less `allocated` it is what is "reserved by PyTorch but unallocated".
    pub reserved: u64,
}
