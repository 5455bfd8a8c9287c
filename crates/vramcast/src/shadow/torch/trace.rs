//! The shadow's story beside the allocator's trace of a real run.

use crate::sequence::{Seen, first_difference_but};
use crate::timeline::{Event, Phase, Timeline};
use crate::workload::{Precision, Workload};

/// The first event of a trace that differs from the story, told with the operation; `None` if there
/// is none.
pub fn difference(timeline: &Timeline, workload: &Workload, seen: &[Seen]) -> Option<String> {
    if workload.compile {
        return difference_of_last_pass(timeline, seen);
    }
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

/// What is compiled is tried out before it runs, as often as time allows, and nobody can tell how
/// often: the last pass is compared, and what was made before it by its size.
fn difference_of_last_pass(timeline: &Timeline, seen: &[Seen]) -> Option<String> {
    let is_forward = |event: &Event| matches!(event, Event::Begin(Phase::Forward));
    let begin = timeline.events.iter().rposition(is_forward)?;
    let told = |events: &[Event]| -> Vec<Seen> {
        let told = events.iter().filter_map(|event| match *event {
            Event::Alloc(b) => Some(Seen::Alloc(timeline.buffers[b as usize].bytes)),
            Event::Free(b) => Some(Seen::Free(b)),
            Event::Begin(_) | Event::Synchronize => None,
        });
        told.collect()
    };
    let predicted = told(&timeline.events);
    let before = told(&timeline.events[..begin]).len();
    // Both end with the last allocation: what a process frees at its end is not told.
    let is_alloc = |event: &Seen| matches!(event, Seen::Alloc(_));
    let (ours, theirs) = (
        predicted.iter().rposition(is_alloc)?,
        seen.iter().rposition(is_alloc)?,
    );
    let passes = ours + 1 - before;
    let Some(from) = (theirs + 1).checked_sub(passes) else {
        return Some(format!("{} events were seen, of {passes}", seen.len()));
    };
    let sizes = |events: &[Seen]| -> Vec<u64> {
        let sizes = events.iter().filter_map(|event| match *event {
            Seen::Alloc(bytes) => Some(bytes),
            Seen::Free(_) => None,
        });
        sizes.collect()
    };
    let (our_sizes, their_sizes) = (sizes(&predicted), sizes(seen));
    // Buffers of the pass are known to each other by their distance to the last.
    let distance = our_sizes.len().abs_diff(their_sizes.len()) as u32;
    let first = sizes(&predicted[..before]).len() as u32;
    let equal = |ours: Seen, theirs: Seen| match (ours, theirs) {
        (Seen::Alloc(ours), Seen::Alloc(theirs)) => ours == theirs,
        (Seen::Free(ours), Seen::Free(theirs)) if ours >= first => {
            ours.abs_diff(theirs) == distance
        }
        (Seen::Free(ours), Seen::Free(theirs)) => {
            our_sizes[ours as usize] == their_sizes[theirs as usize]
        }
        _ => false,
    };
    let pairs = predicted[before..=ours].iter().zip(&seen[from..=theirs]);
    let mut pairs = pairs.enumerate();
    let (at, (ours, theirs)) = pairs.find(|(_, (ours, theirs))| !equal(**ours, **theirs))?;
    Some(format!(
        "event {at} of {passes} of the last pass: {ours:?} was predicted, {theirs:?} seen"
    ))
}
