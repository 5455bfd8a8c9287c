//! What PyTorch's allocator holds where the probe reads it, which is between phases: a prediction
//! has the peaks alone.

use vramcast::alloc::caching::{AddressOrder, CachingAllocator, Conf, Limits};
use vramcast::timeline::{Category, Event, Phase, Timeline};

/// Allocated bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Steps {
    /// By the model, once it is built.
    pub(crate) built: u64,
    /// When the last step begins.
    pub(crate) start: u64,
    /// When its optimizer begins.
    pub(crate) after_backward: u64,
}

/// Replays a run as its prediction does; `None` where it would not end.
pub(crate) fn steps(timeline: &Timeline, conf: &str) -> Option<Steps> {
    let conf = Conf::parse(conf).ok()?;
    let mut allocator = CachingAllocator::new(conf, Limits::NONE, AddressOrder::Reserving);
    let (mut steps, mut phase) = (Steps::default(), Phase::Load);
    for (number, &event) in timeline.events.iter().enumerate() {
        match event {
            Event::Alloc(buffer) => {
                let bytes = timeline.buffers[buffer as usize].bytes;
                allocator.alloc(buffer, bytes).ok()?;
            }
            Event::Free(buffer) => allocator.free(buffer),
            Event::Synchronize => {}
            Event::Begin(next) => {
                if phase == Phase::Load && next != Phase::Load {
                    allocator.empty_cache();
                    // A used process holds workspaces before it builds anything.
                    let held = timeline.live_at(number)[Category::Workspaces as usize];
                    steps.built = allocator.stats().allocated.checked_sub(held)?;
                }
                phase = next;
                match phase {
                    Phase::Forward => steps.start = allocator.stats().allocated,
                    Phase::Step => steps.after_backward = allocator.stats().allocated,
                    Phase::Load | Phase::Backward => {}
                }
            }
        }
    }
    Some(steps)
}
