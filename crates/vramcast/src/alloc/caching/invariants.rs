//! Random traffic against what must hold between any two events.
//!
//! Constraint: only the bookkeeping and the best fit are judged here; the agreement with PyTorch is
//! judged by replaying traces.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Event {
    Alloc(u64),
    /// Frees the live allocation at this position, modulo their number.
    Free(usize),
    EmptyCache,
}

fn traffic() -> impl Strategy<Value = Vec<Event>> {
    let size = prop_oneof![
        // A few sizes recur, as in a training step.
        4 => prop::sample::select(vec![4, 512, 3072, 1 << 20, 3 << 20, 12 << 20, 93_763_584]),
        2 => 1..1_u64 << 20,
        2 => 1..1_u64 << 26,
    ];
    let event = prop_oneof![
        20 => size.prop_map(Event::Alloc),
        18 => any::<usize>().prop_map(Event::Free),
        1 => Just(Event::EmptyCache),
    ];
    prop::collection::vec(event, 1..300)
}

fn conf() -> impl Strategy<Value = Conf> {
    prop::sample::select(vec![
        "",
        "max_split_size_mb:20",
        "max_split_size_mb:31,max_non_split_rounding_mb:40",
        "roundup_power2_divisions:4",
        "garbage_collection_threshold:0.5",
        "expandable_segments:True",
        "expandable_segments:True,roundup_power2_divisions:[1:2,>:4],max_split_size_mb:24",
    ])
    .prop_map(|text| Conf::parse(text).unwrap())
}

fn limits() -> impl Strategy<Value = Limits> {
    let bytes = || (1_u64..200).prop_map(|pages| pages * 5 * MIB);
    prop_oneof![
        bytes().prop_map(Limits::allowed),
        (prop::option::of(bytes()), bytes())
            .prop_map(|(allowed, capacity)| Limits { allowed, capacity }),
    ]
}

/// The numbers of all blocks that are in use.
fn in_use(allocator: &CachingAllocator) -> Vec<u32> {
    (0..allocator.blocks.len() as u32)
        .filter(|number| !allocator.spare.contains(number))
        .collect()
}

/// Panics unless the blocks tile their segments, free ones are merged and listed, and the
/// statistics are their sums.
fn check(allocator: &CachingAllocator) {
    let blocks = in_use(allocator);
    let (mut allocated, mut requested, mut mapped, mut seen) = (0, 0, 0, 0);
    let (mut free, mut unmapped) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for &start in &blocks {
        if allocator.blocks[start as usize].below != NONE {
            continue;
        }
        let (mut number, mut below) = (start, NONE);
        let (mut end, mut last) = (allocator.blocks[start as usize].address, State::Live);
        while number != NONE {
            let block = allocator.blocks[number as usize];
            assert_eq!((block.address, block.below), (end, below));
            assert_eq!((block.address % GRANULE, block.size % GRANULE), (0, 0));
            assert!(block.size > 0);
            assert!(block.state == State::Live || block.state != last);
            match block.state {
                State::Live => {
                    assert!(allocator.live.contains(&number));
                    assert!(block.requested <= block.size);
                    allocated += block.size;
                    requested += block.requested;
                }
                State::Free => free[block.pool].push(Entry {
                    size: block.size,
                    address: block.address,
                    block: number,
                }),
                State::Unmapped => unmapped[block.pool].push((block.address, number)),
            }
            if block.state != State::Unmapped {
                mapped += block.size;
            }
            seen += 1;
            (end, below, last) = (end + block.size, number, block.state);
            number = block.above;
        }
    }
    assert_eq!(seen, blocks.len());
    let stats = allocator.stats();
    assert_eq!(
        (stats.allocated, stats.requested, stats.reserved),
        (allocated, requested, mapped)
    );
    assert!(allocated <= stats.allocated_peak && mapped <= stats.reserved_peak);
    for pool in [SMALL, LARGE] {
        free[pool].sort_unstable();
        unmapped[pool].sort_unstable();
        assert_eq!(allocator.free[pool].iter().collect::<Vec<_>>(), free[pool]);
        let numbers: Vec<u32> = unmapped[pool].iter().map(|&(_, number)| number).collect();
        assert_eq!(allocator.regions[pool].unmapped, numbers);
    }
}

/// Where a request goes if a free block fits, by looking at all of them.
fn best_fit(allocator: &CachingAllocator, bytes: u64) -> Option<u64> {
    let size = allocator.conf.round(bytes);
    let pool = if size <= MIB { SMALL } else { LARGE };
    let blocks = in_use(allocator).into_iter();
    let blocks = blocks.map(|number| allocator.blocks[number as usize]);
    let fits = blocks
        .filter(|block| block.state == State::Free && block.pool == pool && block.size >= size);
    let best = fits.min_by_key(|block| (block.size, block.address));
    best.map(|block| block.address)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn bookkeeping_holds(
        events in traffic(),
        conf in conf(),
        limits in limits(),
        order in prop::sample::select(vec![
            AddressOrder::Descending,
            AddressOrder::Reserving,
            AddressOrder::Ascending,
        ]),
    ) {
        let mut allocator = CachingAllocator::new(conf, limits, order);
        let limit = limits.capacity.min(limits.allowed.unwrap_or(u64::MAX));
        let (mut live, mut balance) = (Vec::new(), 0);
        for (id, event) in events.into_iter().enumerate() {
            let id = id as u32;
            match event {
                Event::Alloc(bytes) => {
                    let fit = best_fit(&allocator, bytes);
                    let before = *allocator.stats();
                    match allocator.alloc(id, bytes) {
                        Ok(address) => {
                            if let (Some(fit), u64::MAX, false) =
                                (fit, conf.max_split_size, conf.expandable_segments)
                            {
                                prop_assert_eq!(address, fit);
                                prop_assert_eq!(allocator.stats().reserved, before.reserved);
                            }
                            live.push((address, bytes, id));
                        }
                        Err(error) => {
                            let after = allocator.stats();
                            prop_assert_eq!(after.allocated, before.allocated);
                            prop_assert_eq!(error.allocated, after.allocated);
                            prop_assert_eq!(error.reserved, after.reserved);
                            prop_assert_eq!(after.ooms, before.ooms + 1);
                            // Pages of an expandable region are coarser than segments.
                            let slack = if conf.expandable_segments { LARGE_SEGMENT } else { 0 };
                            prop_assert!(error.reserved + error.tried + slack > limit);
                        }
                    }
                }
                Event::Free(which) if !live.is_empty() => {
                    let (_, _, id) = live.swap_remove(which % live.len());
                    allocator.free(id);
                }
                Event::Free(_) => {}
                Event::EmptyCache => allocator.empty_cache(),
            }
            check(&allocator);
            let mut by_address = live.clone();
            by_address.sort_unstable();
            for pair in by_address.windows(2) {
                prop_assert!(pair[0].0 + pair[0].1 <= pair[1].0);
            }
            for event in allocator.take_segment_events() {
                match event {
                    SegmentEvent::Alloc { bytes, .. } | SegmentEvent::Map { bytes, .. } => {
                        balance += bytes;
                    }
                    SegmentEvent::Free { bytes, .. } | SegmentEvent::Unmap { bytes, .. } => {
                        balance -= bytes;
                    }
                }
            }
            prop_assert_eq!(balance, allocator.stats().reserved);
            if !conf.expandable_segments {
                prop_assert!(allocator.stats().reserved_peak <= limit);
            }
        }
        for (_, _, id) in live {
            allocator.free(id);
        }
        allocator.empty_cache();
        check(&allocator);
        prop_assert_eq!((allocator.stats().allocated, allocator.stats().reserved), (0, 0));
        allocator.reset_peaks();
        prop_assert_eq!(allocator.stats().reserved_peak, 0);
    }
}
