//! The rules of the caching allocator that no recorded trace shows, each in a few events.
//!
//! Constraint: expectations are PyTorch's source and its error messages, worked out by hand.

use vramcast::alloc::caching::{
    AddressOrder, CachingAllocator, Conf, Limits, OutOfMemory, SegmentEvent,
};

const MIB: u64 = 1 << 20;

fn allocator(conf: &str, limits: Limits) -> CachingAllocator {
    CachingAllocator::new(Conf::parse(conf).unwrap(), limits, AddressOrder::Descending)
}

/// Allocates and frees at once: segments of so many MiB, numbered from `first`.
fn cache(allocator: &mut CachingAllocator, first: u32, mebibytes: &[u64]) {
    for (id, &size) in (first..).zip(mebibytes) {
        allocator.alloc(id, size * MIB).unwrap();
    }
    for (id, _) in (first..).zip(mebibytes) {
        allocator.free(id);
    }
}

/// What was asked of the driver, in MiB: positive for new memory, negative for returned memory.
fn asked(allocator: &mut CachingAllocator) -> Vec<i64> {
    let events = allocator.take_segment_events().into_iter();
    let mebibytes = |bytes: u64| (bytes / MIB) as i64;
    let signed = events.map(|event| match event {
        SegmentEvent::Alloc { bytes, .. } | SegmentEvent::Map { bytes, .. } => mebibytes(bytes),
        SegmentEvent::Free { bytes, .. } | SegmentEvent::Unmap { bytes, .. } => -mebibytes(bytes),
    });
    signed.collect()
}

#[test]
fn segments_are_2_mib_20_mib_or_the_request_rounded_up() {
    for (bytes, segment) in [
        (1, 2),
        (MIB, 2),
        (MIB + 1, 20),
        (10 * MIB - 512, 20),
        (10 * MIB, 10),
        (27 * MIB, 28),
        (93_763_584, 90),
    ] {
        let mut allocator = allocator("", Limits::NONE);
        allocator.alloc(0, bytes).unwrap();
        assert_eq!(asked(&mut allocator), [segment], "{bytes}");
    }
}

#[test]
fn a_rest_of_up_to_1_mib_counts_as_allocated() {
    for (bytes, allocated) in [
        (11 * MIB - 1024, 11 * MIB - 1024),
        (11 * MIB, 12 * MIB),
        (27 * MIB + 1, 28 * MIB),
        (1, 512),
    ] {
        let mut allocator = allocator("", Limits::NONE);
        allocator.alloc(0, bytes).unwrap();
        let stats = allocator.stats();
        assert_eq!((stats.requested, stats.allocated), (bytes, allocated));
    }
}

#[test]
fn a_failure_names_the_segment_that_was_tried() {
    // Requests of 9 and 27 MiB print 20.00 and 28.00 MiB.
    for (request, tried) in [(9, 20), (27, 28)] {
        let allowed = 30 * MIB;
        let mut allocator = allocator("", Limits::allowed(allowed));
        allocator.alloc(0, 12 * MIB).unwrap();
        let error = OutOfMemory {
            requested: request * MIB,
            tried: tried * MIB,
            allowed: Some(allowed),
            allocated: 12 * MIB,
            reserved: 12 * MIB,
        };
        assert_eq!(allocator.alloc(1, request * MIB), Err(error));
        // A retry counts even if nothing could be released.
        assert_eq!((allocator.stats().retries, allocator.stats().ooms), (1, 1));
        assert_eq!(allocator.alloc(1, 0), Ok(0));
    }
    let mut allocator = allocator("", Limits::NONE);
    assert!(allocator.alloc(0, u64::MAX).is_err());
}

#[test]
fn a_retry_releases_all_whole_segments_the_large_pool_first() {
    let mut allocator = allocator("", Limits::allowed(100 * MIB));
    cache(&mut allocator, 0, &[1, 30, 12]);
    // Keeps its segment of 20 MiB.
    allocator.alloc(3, 5 * MIB).unwrap();
    allocator.free(3);
    allocator.alloc(4, 2 * MIB).unwrap();
    asked(&mut allocator);
    allocator.alloc(5, 80 * MIB).unwrap();
    assert_eq!(asked(&mut allocator), [-30, -2, 80]);
    assert_eq!(allocator.stats().retries, 1);
}

#[test]
fn oversize_blocks_are_not_split_and_only_given_to_oversize_requests() {
    let mut allocator = allocator("max_split_size_mb:32", Limits::NONE);
    cache(&mut allocator, 0, &[40]);
    // Below 32 MiB a request may not take it; from 32 MiB on only if it lacks less than 20 MiB.
    allocator.alloc(1, 30 * MIB).unwrap();
    assert_eq!(asked(&mut allocator), [40, 30]);
    allocator.alloc(2, 33 * MIB).unwrap();
    assert!(asked(&mut allocator).is_empty());
    assert_eq!(allocator.stats().allocated, 70 * MIB);
    cache(&mut allocator, 3, &[60]);
    allocator.alloc(4, 40 * MIB).unwrap();
    assert_eq!(asked(&mut allocator), [60, 40]);
    allocator.alloc(5, 40 * MIB + 512).unwrap();
    assert!(asked(&mut allocator).is_empty());
}

#[test]
fn oversize_segments_are_released_before_a_retry() {
    let conf = "max_split_size_mb:32";
    // The smallest that suffices.
    let mut one = allocator(conf, Limits::allowed(250 * MIB));
    cache(&mut one, 0, &[20, 40, 60, 100]);
    asked(&mut one);
    one.alloc(9, 36 * MIB).unwrap();
    assert!(asked(&mut one).is_empty());
    one.alloc(10, 31 * MIB).unwrap();
    assert_eq!(asked(&mut one), [-60, 32]);
    assert_eq!(one.stats().retries, 0);
    // The largest ones until they suffice.
    let mut several = allocator(conf, Limits::allowed(250 * MIB));
    cache(&mut several, 0, &[20, 40, 60, 100]);
    asked(&mut several);
    several.alloc(9, 150 * MIB).unwrap();
    assert_eq!(asked(&mut several), [-100, -60, 150]);
    assert_eq!(several.stats().retries, 0);
}

#[test]
fn garbage_collection_frees_large_segments_that_are_older_than_the_mean() {
    let limits = Limits::allowed(200 * MIB);
    let mut allocator = allocator("garbage_collection_threshold:0.5", limits);
    cache(&mut allocator, 0, &[1, 50, 40]);
    // Takes the block of 40 MiB, which is thus younger than that of 50 when it is free again.
    allocator.alloc(4, 40 * MIB).unwrap();
    allocator.free(4);
    asked(&mut allocator);
    // 92 MiB are reserved: nothing is collected below 100 MiB.
    allocator.alloc(5, 60 * MIB).unwrap();
    assert_eq!(asked(&mut allocator), [60]);
    // 52 MiB too many: that of 50 MiB goes first, then that of 40. The small one stays.
    allocator.alloc(6, 70 * MIB).unwrap();
    assert_eq!(asked(&mut allocator), [-50, -40, 70]);
    assert_eq!(allocator.stats().retries, 0);
}

#[test]
fn without_a_cap_there_is_no_garbage_collection() {
    let mut allocator = allocator("garbage_collection_threshold:0.01", Limits::NONE);
    cache(&mut allocator, 0, &[50]);
    allocator.alloc(1, 60 * MIB).unwrap();
    assert_eq!(asked(&mut allocator), [50, 60]);
}

#[test]
fn a_region_grows_by_pages_and_loses_those_that_are_free() {
    let mut allocator = allocator("expandable_segments:True", Limits::NONE);
    allocator.alloc(0, 4).unwrap();
    let first = allocator.alloc(1, 30 * MIB).unwrap();
    let second = allocator.alloc(2, 30 * MIB).unwrap();
    assert_eq!(second, first + 30 * MIB);
    // The second extends the 10 MiB that were left.
    assert_eq!(asked(&mut allocator), [2, 40, 20]);
    allocator.free(1);
    allocator.empty_cache();
    // Of the 30 MiB only the first page is free as a whole.
    assert_eq!(asked(&mut allocator), [-20]);
    assert_eq!(allocator.stats().reserved, 42 * MIB);
    // The hole and the free 10 MiB above it are the lowest place.
    assert_eq!(allocator.alloc(3, 25 * MIB), Ok(first));
    assert_eq!(asked(&mut allocator), [20]);
    assert_eq!(allocator.stats().allocated, 55 * MIB + 512);
}

#[test]
fn a_device_without_memory_fails_as_a_cap_does() {
    for conf in ["", "expandable_segments:True"] {
        let limits = Limits {
            allowed: None,
            capacity: 100 * MIB,
        };
        let mut allocator = allocator(conf, limits);
        allocator.alloc(0, 60 * MIB).unwrap();
        let error = allocator.alloc(1, 60 * MIB).unwrap_err();
        assert_eq!((error.allowed, error.tried), (None, 60 * MIB), "{conf}");
        allocator.free(0);
        assert!(allocator.alloc(1, 100 * MIB).is_ok(), "{conf}");
    }
}

#[test]
fn options_beyond_every_size_change_nothing() {
    for conf in [
        "max_split_size_mb:17592186044415",
        "max_split_size_mb:18446744073709551615",
        "roundup_power2_divisions:9223372036854775808",
    ] {
        let mut allocator = allocator(conf, Limits::allowed(100 * MIB));
        allocator.alloc(0, 60 * MIB + 1).unwrap();
        allocator.alloc(1, 60 * MIB).unwrap_err();
        allocator.free(0);
        allocator.alloc(1, 60 * MIB).unwrap();
        assert_eq!(allocator.stats().reserved, 62 * MIB, "{conf}");
    }
}

#[test]
fn peaks_are_reset_to_what_is_there() {
    let mut allocator = allocator("", Limits::NONE);
    cache(&mut allocator, 0, &[12, 30]);
    allocator.alloc(2, 12 * MIB - 1).unwrap();
    allocator.reset_peaks();
    let stats = allocator.stats();
    assert_eq!(
        (
            stats.requested_peak,
            stats.allocated_peak,
            stats.reserved_peak
        ),
        (12 * MIB - 1, 12 * MIB, 42 * MIB)
    );
}
