//! The shadow's story beside the allocator's trace of a real run.

use crate::sequence::{Seen, first_difference_but};
use crate::timeline::{Event, Phase, Timeline};
use crate::workload::{Precision, Workload};

/// The first event of a trace that differs from the story, told with the operation; `None` if there
/// is none.
pub fn difference(timeline: &Timeline, workload: &Workload, seen: &[Seen]) -> Option<String> {
    // The story ends before the model dies: what was seen later may only be frees.
    let memory = |event: &&Event| matches!(event, Event::Alloc(_) | Event::Free(_));
    let told = timeline.events.iter().filter(memory).count();
    let is_free = |event: &Seen| matches!(event, Seen::Free(_));
    let after = seen.get(told..).unwrap_or_default();
    let seen = if after.iter().all(is_free) {
        &seen[..told.min(seen.len())]
    } else {
        seen
    };
    // Autocast gives its copies back in the order of a hash map, at the end of each pass and of each
    // second run of a layer; nothing else is without order.
    let unordered: &[Phase] = match workload.precision {
        Precision::AmpBf16 | Precision::AmpFp16 => &[Phase::Forward, Phase::Backward],
        Precision::Fp32 | Precision::Bf16 | Precision::Fp16 => &[],
    };
    first_difference_but(timeline, seen, unordered)
}
