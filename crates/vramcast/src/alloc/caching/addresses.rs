//! Where the driver puts new segments.
//!
//! Constraint: this is the one thing about the allocator that its own rules do not decide. It
//! matters because the best fit among blocks of equal size is the one at the lowest address.

use std::collections::VecDeque;

use crate::bytes::MIB;

/// Which address `cudaMalloc` returns for the next segment.
///
/// The driver is closed, and what it allocates for itself lies in between. How often each order
/// gives the peaks that PyTorch reported is counted in `tests/caching_replay.rs`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AddressOrder {
    /// Each segment lies below all earlier ones.
    #[default]
    Descending,
    /// As seen on an H200 with driver 580 (`reports/records/torch-h200-fresh*.jsonl.gz`): below the first segment
    /// lies a zone that segments of up to 32 MiB fill from its lower end; the others are
    /// placed downwards in reservations of whole 32 MiB, whose ends later segments fill. Returned
    /// reservations are used again, the highest first and from their upper end.
    Reserving,
    /// Each segment lies above all earlier ones.
    Ascending,
    /// These addresses in turn, as a trace recorded them; after the last, below all earlier ones.
    Recorded(Vec<u64>),
}

impl AddressOrder {
    /// What the driver's addresses are expected to be. It cannot be derived.
    pub const EXPECTED: Self = Self::Reserving;
}

/// Around this there is room for whatever fits in 47 bits, many thousand times.
const MIDDLE: u64 = 1 << 62;
/// Bytes of the zone below the first segment: so in all 77 runs of `torch-h200-fresh*.jsonl.gz` with
/// a segment above 32 MiB.
const ZONE: u64 = 414 * MIB;
/// The driver reserves addresses in multiples of this many bytes.
const RESERVATION: u64 = 32 * MIB;
/// The granularity of a segment.
const PAGE: u64 = 2 * MIB;

/// Hands out addresses in an [`AddressOrder`].
#[derive(Clone)]
pub(super) struct Addresses {
    order: Order,
    /// The lowest address handed out.
    lowest: u64,
}

#[derive(Clone)]
enum Order {
    Descending,
    Reserving(Reservations),
    /// The next address.
    Ascending(u64),
    Recorded(VecDeque<u64>),
}

impl Addresses {
    pub(super) fn new(order: AddressOrder) -> Self {
        let (order, lowest) = match order {
            AddressOrder::Descending => (Order::Descending, MIDDLE),
            AddressOrder::Reserving => (Order::Reserving(Reservations::new()), MIDDLE),
            AddressOrder::Ascending => (Order::Ascending(MIDDLE), MIDDLE),
            AddressOrder::Recorded(addresses) => {
                let lowest = addresses.iter().copied().min().unwrap_or(MIDDLE);
                (Order::Recorded(addresses.into()), lowest)
            }
        };
        Self { order, lowest }
    }

    /// The address of a new segment of so many bytes.
    pub(super) fn next(&mut self, bytes: u64) -> u64 {
        let bytes = bytes.next_multiple_of(PAGE);
        match &mut self.order {
            Order::Descending => self.below(bytes),
            Order::Reserving(reservations) => reservations.next(bytes),
            Order::Ascending(next) => {
                let address = *next;
                *next = next.wrapping_add(bytes);
                address
            }
            Order::Recorded(addresses) => match addresses.pop_front() {
                Some(address) => address,
                None => self.below(bytes),
            },
        }
    }

    /// A segment was returned to the driver.
    pub(super) fn release(&mut self, address: u64, bytes: u64) {
        if let Order::Reserving(reservations) = &mut self.order {
            reservations.release(address, bytes.next_multiple_of(PAGE));
        }
    }

    fn below(&mut self, bytes: u64) -> u64 {
        self.lowest = self.lowest.wrapping_sub(bytes);
        self.lowest
    }
}

/// A range of addresses: its start and its bytes.
type Span = (u64, u64);

/// The state of [`AddressOrder::Reserving`].
#[derive(Clone)]
struct Reservations {
    started: bool,
    /// What is free in the zone and in the reservations, the lowest first.
    gaps: Vec<Span>,
    /// Reservations that were returned, the lowest first.
    returned: Vec<Span>,
    /// The lowest reservation.
    lowest: u64,
}

impl Reservations {
    fn new() -> Self {
        Self {
            started: false,
            gaps: vec![(MIDDLE - ZONE, ZONE)],
            returned: Vec::new(),
            lowest: MIDDLE - ZONE,
        }
    }

    fn next(&mut self, bytes: u64) -> u64 {
        if !std::mem::replace(&mut self.started, true) {
            return MIDDLE;
        }
        if bytes <= RESERVATION
            && let Some(gap) = self.gaps.iter_mut().find(|gap| gap.1 >= bytes)
        {
            let address = gap.0;
            *gap = (gap.0 + bytes, gap.1 - bytes);
            self.gaps.retain(|gap| gap.1 > 0);
            return address;
        }
        let whole = bytes.next_multiple_of(RESERVATION);
        let address = match self.returned.iter_mut().rfind(|span| span.1 >= whole) {
            Some(span) => {
                span.1 -= whole;
                span.0 + span.1
            }
            None => {
                self.lowest = self.lowest.wrapping_sub(whole);
                self.lowest
            }
        };
        self.returned.retain(|span| span.1 > 0);
        if whole > bytes {
            insert(&mut self.gaps, (address + bytes, whole - bytes));
        }
        address
    }

    /// Reservations are returned when nothing lies in them any more.
    fn release(&mut self, address: u64, bytes: u64) {
        let (start, length) = insert(&mut self.gaps, (address, bytes));
        let first = start + depth(start) % RESERVATION;
        let end = (start + length).min(MIDDLE - ZONE);
        let Some(whole) = end.checked_sub(first).map(|free| free - free % RESERVATION) else {
            return;
        };
        if whole == 0 {
            return;
        }
        self.gaps.retain(|gap| gap.0 != start);
        for (from, to) in [(start, first), (first + whole, start + length)] {
            if from < to {
                insert(&mut self.gaps, (from, to - from));
            }
        }
        insert(&mut self.returned, (first, whole));
    }
}

/// How far an address lies below the zone: reservations are counted downwards from there.
fn depth(address: u64) -> u64 {
    (MIDDLE - ZONE).saturating_sub(address)
}

/// Adds a span to a sorted list, merges it with its neighbours and returns the result.
fn insert(spans: &mut Vec<Span>, (start, length): Span) -> Span {
    let at = spans.partition_point(|span| span.0 < start);
    let mut merged = (start, length);
    let mut range = at..at;
    if let Some(above) = spans.get(at)
        && start + length == above.0
    {
        merged.1 += above.1;
        range.end += 1;
    }
    if at > 0 && spans[at - 1].0 + spans[at - 1].1 == start {
        merged = (spans[at - 1].0, merged.1 + spans[at - 1].1);
        range.start -= 1;
    }
    spans.splice(range, [merged]);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places segments of so many MiB, relative to the first one, in MiB.
    fn check(order: AddressOrder, segments: [u64; 6], expected: [i64; 6]) {
        let mut addresses = Addresses::new(order.clone());
        let mut first = None;
        let placed = segments.map(|size| {
            let address = addresses.next(size * MIB);
            let first = *first.get_or_insert(address);
            (address as i64 - first as i64) / MIB as i64
        });
        assert_eq!(placed, expected, "{order:?}");
    }

    #[test]
    fn segments_are_placed_in_each_order() {
        let segments = [2, 46, 20, 32, 90, 2];
        check(
            AddressOrder::Descending,
            segments,
            [0, -46, -66, -98, -188, -190],
        );
        check(AddressOrder::Ascending, segments, [0, 2, 48, 68, 100, 190]);
        // 46 MiB leave 18 at the end of their reservation, next to the zone.
        check(
            AddressOrder::Reserving,
            segments,
            [0, -478, -432, -412, -574, -484],
        );
        let recorded = [9, 8, 5, 7].map(|address| address * MIB).to_vec();
        check(
            AddressOrder::Recorded(recorded),
            segments,
            [0, -1, -4, -2, -94, -96],
        );
    }

    #[test]
    fn returned_reservations_are_used_again_from_the_top() {
        let mut addresses = Addresses::new(AddressOrder::Reserving);
        let first = addresses.next(2 * MIB);
        let large = addresses.next(100 * MIB);
        assert_eq!(first - large, (414 + 128) * MIB);
        assert_eq!(first - addresses.next(40 * MIB), (414 + 192) * MIB);
        addresses.release(large, 100 * MIB);
        assert_eq!(addresses.next(60 * MIB), large + 64 * MIB);
        assert_eq!(addresses.next(64 * MIB), large);
        assert_eq!(first - addresses.next(64 * MIB), (414 + 256) * MIB);
    }
}
