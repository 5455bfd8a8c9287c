//! Random traffic against what must hold between any two events.
//!
//! Constraint: only the pool's bookkeeping is judged here; its agreement with
//! the driver is judged by replaying the event log.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Event {
    Alloc(u64),
    /// Frees the live allocation at this position, modulo their number.
    Free(usize),
    Synchronize,
}

fn traffic() -> impl Strategy<Value = Vec<Event>> {
    let size = prop_oneof![
        // A few sizes recur, as in a training step.
        4 => prop::sample::select(vec![4, 512, 3072, 3 << 20, 12 << 20, 32 << 20, 93_763_584]),
        2 => 1..1_u64 << 20,
        2 => 1..1_u64 << 27,
    ];
    let event = prop_oneof![
        10 => size.prop_map(Event::Alloc),
        9 => any::<usize>().prop_map(Event::Free),
        1 => Just(Event::Synchronize),
    ];
    prop::collection::vec(event, 1..400)
}

/// Panics unless the blocks tile the range, free ones are as merged, backed
/// and indexed as their state says, and live ones are backed.
fn check(pool: &CudaPool) {
    let mut block = (0..pool.blocks.len() as u32)
        .find(|number| !pool.spare.contains(number) && pool.blocks[*number as usize].below == NONE)
        .expect("a lowest block");
    let (mut end, mut below, mut last) = (0, NONE, State::Live);
    let (mut pending, mut free) = (Vec::new(), Vec::new());
    while block != NONE {
        let Block {
            offset,
            size,
            state,
            ..
        } = pool.blocks[block as usize];
        assert_eq!(offset, end);
        assert_eq!(pool.blocks[block as usize].below, below);
        assert_eq!((offset % GRANULE, size % GRANULE), (0, 0));
        assert!(size > 0);
        let backed = pool.chunks.all_backed(touched(offset, size));
        assert_eq!(backed, state != State::Partial);
        match state {
            State::Live => assert!(pool.live.contains(&block)),
            State::Pending => {
                assert!(last != State::Pending);
                pending.push((size, block));
            }
            State::Backed | State::Partial => {
                assert!(last != State::Backed && last != State::Partial);
                free.push((size, block));
            }
        }
        (end, below, last) = (offset + size, block, state);
        block = pool.blocks[block as usize].above;
    }
    assert_eq!(end, RANGE);

    for (index, mut expected) in [(&pool.pending, pending.clone()), (&pool.free, free)] {
        let mut indexed: Vec<_> = index
            .from(GRANULE)
            .map(|block| (pool.blocks[block as usize].size, block))
            .collect();
        assert!(indexed.is_sorted_by_key(|&(size, _)| size));
        indexed.sort_unstable();
        expected.sort_unstable();
        assert_eq!(indexed, expected);
    }
    let mut order = Vec::new();
    let mut next = pool.latest;
    while next != NONE {
        order.push((pool.blocks[next as usize].size, next));
        next = pool.blocks[next as usize].older;
    }
    order.sort_unstable();
    pending.sort_unstable();
    assert_eq!(order, pending);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn bookkeeping_holds(
        events in traffic(),
        chunks in 1_u64..40,
        releases: bool,
        behind in 0_u64..200,
    ) {
        let mut pool = CudaPool::with_capacity_limit(chunks * CHUNK);
        pool.releases = releases;
        let mut live = Vec::new();
        for (id, event) in events.into_iter().enumerate() {
            // The device is so many events behind the host.
            let (id, at, now) = (id as u32, id as u64, (id as u64).saturating_sub(behind));
            match event {
                Event::Alloc(bytes) => {
                    let before = (pool.used(), pool.reserved());
                    match pool.alloc(id, bytes, now) {
                        Ok(offset) => live.push((offset, bytes, id)),
                        Err(error) => {
                            prop_assert_eq!((error.used, error.reserved), before);
                            prop_assert_eq!((pool.used(), pool.reserved()), before);
                        }
                    }
                }
                Event::Free(which) if !live.is_empty() => {
                    let (_, _, id) = live.swap_remove(which % live.len());
                    pool.free(id, at);
                }
                Event::Free(_) => {}
                Event::Synchronize => pool.synchronize(),
            }
            check(&pool);
            let mut by_offset = live.clone();
            by_offset.sort_unstable();
            for pair in by_offset.windows(2) {
                prop_assert!(pair[0].0 + pair[0].1 <= pair[1].0);
            }
            prop_assert_eq!(pool.used(), live.iter().map(|&(_, bytes, _)| bytes).sum::<u64>());
            prop_assert_eq!(pool.reserved() % CHUNK, 0);
            prop_assert!(pool.used() <= pool.reserved());
            prop_assert!(pool.reserved() <= pool.reserved_high());
            prop_assert!(pool.reserved_high() <= chunks * CHUNK);
            prop_assert!(pool.used() <= pool.used_high());
        }
        for (_, _, id) in live {
            pool.free(id, u64::MAX);
        }
        pool.synchronize();
        check(&pool);
        prop_assert_eq!(pool.used(), 0);
        if releases {
            prop_assert_eq!(pool.reserved(), 0);
        }
        prop_assert_eq!(pool.alloc(0, 1, 0), Ok(0));
    }
}

#[test]
fn what_cannot_fit_is_refused() {
    let mut pool = CudaPool::with_capacity_limit(2 * CHUNK);
    let refused = |requested, used| {
        Err(OutOfMemory {
            requested,
            used,
            reserved: 2 * CHUNK,
        })
    };
    assert_eq!(pool.alloc(0, CHUNK + 1, 0), Ok(0));
    assert_eq!(pool.alloc(1, CHUNK, 0), refused(CHUNK, CHUNK + 1));
    assert_eq!(pool.alloc(1, u64::MAX, 0), refused(u64::MAX, CHUNK + 1));
    assert_eq!(pool.alloc(1, CHUNK - 512, 0), Ok(CHUNK + 512));
    pool.free(0, 0);
    // One chunk could move to the tail, but two are missing there.
    assert_eq!(
        pool.alloc(2, CHUNK + 1024, 0),
        refused(CHUNK + 1024, CHUNK - 512)
    );
    pool.free(1, 0);
    // The pending block is taken first, then all is folded into one.
    assert_eq!(pool.alloc(3, 1, 0), Ok(CHUNK + 512));
    pool.free(3, 0);
    assert_eq!(pool.alloc(4, 2 * CHUNK, 0), Ok(0));
}
