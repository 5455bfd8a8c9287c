//! A timeline against the sequence that somebody saw: every allocation and every free, in order.
//!
//! One order is nobody's: candle's gradients lie in a hash map, and die in its order. So a run of
//! frees without an allocation between may be in any order, if it is long enough to be such a drop.

use crate::timeline::{Event, Phase, Timeline};

/// What was seen. Buffers are numbered in the order of their allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// So many bytes were allocated.
    Alloc(u64),
    /// The buffer of that number was freed.
    Free(u32),
}

/// Shorter runs of frees are no hash map's, and their order counts.
const SHORTEST_DROP: usize = 8;

/// The first event that differs, told with what the timeline knows of it; `None` if there is none.
/// Long drops may be in any order.
pub fn first_difference(timeline: &Timeline, seen: &[Seen]) -> Option<String> {
    let everywhere = [Phase::Load, Phase::Forward, Phase::Backward, Phase::Step];
    first_difference_but(timeline, seen, &everywhere)
}

/// [`first_difference`] where the order of long drops counts, but in some phases.
pub fn first_difference_but(
    timeline: &Timeline,
    seen: &[Seen],
    unordered: &[Phase],
) -> Option<String> {
    let mut phase = Phase::Load;
    let told = timeline.events.iter().filter_map(|event| match *event {
        Event::Alloc(b) => Some((Seen::Alloc(timeline.buffers[b as usize].bytes), phase)),
        Event::Free(b) => Some((Seen::Free(b), phase)),
        Event::Begin(next) => {
            phase = next;
            None
        }
        Event::Synchronize => None,
    });
    let (predicted, phases): (Vec<Seen>, Vec<Phase>) = told.unzip();
    let mut at = 0;
    while at < predicted.len().min(seen.len()) {
        if predicted[at] == seen[at] {
            at += 1;
            continue;
        }
        // The first of a drop's frees may agree by chance: the run counts from its start.
        let agreeing = predicted[..at]
            .iter()
            .rev()
            .take_while(|e| matches!(e, Seen::Free(_)));
        at -= agreeing.count();
        let (ours, theirs) = (frees(&predicted[at..]), frees(&seen[at..]));
        let may_differ = ours.len() >= SHORTEST_DROP && unordered.contains(&phases[at]);
        if !may_differ || ours != theirs {
            return Some(tell(timeline, &predicted, seen, at));
        }
        at += ours.len();
    }
    (predicted.len() != seen.len()).then(|| tell(timeline, &predicted, seen, at))
}

/// The frees that events begin with, sorted.
fn frees(events: &[Seen]) -> Vec<u32> {
    let run = events.iter().map_while(|event| match event {
        Seen::Free(buffer) => Some(*buffer),
        Seen::Alloc(_) => None,
    });
    let mut run: Vec<u32> = run.collect();
    run.sort_unstable();
    run
}

fn tell(timeline: &Timeline, predicted: &[Seen], seen: &[Seen], at: usize) -> String {
    let made = predicted[..at]
        .iter()
        .filter(|e| matches!(e, Seen::Alloc(_)))
        .count();
    let about = match predicted.get(at) {
        None => "nothing".to_owned(),
        Some(event) => {
            let buffer = match event {
                Seen::Alloc(_) => made,
                Seen::Free(buffer) => *buffer as usize,
            };
            let buffer = &timeline.buffers[buffer];
            let (op, scope, phase) = (buffer.op, timeline.scope(buffer), buffer.phase);
            format!("{event:?} ({op} of {scope}, {phase})")
        }
    };
    let around = |events: &[Seen]| format!("{:?}", &events[at..events.len().min(at + 6)]);
    format!(
        "event {at} of {}: predicted {about}, seen {:?}; predicted goes on {}, seen {}",
        predicted.len(),
        seen.get(at),
        around(predicted),
        around(seen)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::{Buffer, Category, ScopeId, Work};

    /// A timeline of four-byte buffers.
    fn timeline(events: &[Event], buffers: usize) -> Timeline {
        let buffer = Buffer {
            bytes: 4,
            category: Category::Activations,
            phase: Phase::Forward,
            scope: ScopeId::NONE,
            op: "test",
            work: Work::Upload,
        };
        Timeline {
            events: events.to_vec(),
            buffers: vec![buffer; buffers],
            ..Timeline::default()
        }
    }

    fn drop_of(order: impl Iterator<Item = u32> + Clone, count: u32) -> (Vec<Event>, Vec<Seen>) {
        let made = (0..count).map(Event::Alloc);
        let seen = (0..count).map(|_| Seen::Alloc(4));
        (
            made.chain(order.clone().map(Event::Free)).collect(),
            seen.chain(order.map(Seen::Free)).collect(),
        )
    }

    #[test]
    fn a_long_drop_may_be_in_any_order_and_a_short_one_may_not() {
        for (count, same) in [(8, true), (7, false)] {
            let (events, _) = drop_of(0..count, count);
            let (_, seen) = drop_of((0..count).rev(), count);
            let difference = first_difference(&timeline(&events, count as usize), &seen);
            assert_eq!(difference.is_none(), same, "{difference:?}");
        }
    }

    #[test]
    fn a_drop_may_begin_in_the_same_order() {
        let (events, _) = drop_of(0..9, 9);
        let (_, seen) = drop_of((0..3).chain((3..9).rev()), 9);
        assert_eq!(first_difference(&timeline(&events, 9), &seen), None);
    }

    #[test]
    fn a_missing_event_is_told_with_the_operation() {
        let (events, mut seen) = drop_of(0..2, 2);
        seen.pop();
        let difference = first_difference(&timeline(&events, 2), &seen).unwrap();
        assert!(difference.contains("test of , forward"), "{difference}");
    }
}
