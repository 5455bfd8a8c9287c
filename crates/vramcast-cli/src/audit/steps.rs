//! What PyTorch's allocator holds where the probe reads it, which is between phases: a prediction
//! has the peaks alone.

use vramcast::alloc::caching::{AddressOrder, Conf, Limits, replay};
use vramcast::timeline::{Category, Event, Phase, Timeline};

/// Allocated bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Steps {
    /// By the model, once it is built.
    pub(crate) built: u64,
    /// When the last step begins.
    pub(crate) start: u64,
    /// When its optimizer begins; nothing in inference.
    pub(crate) after_backward: u64,
}

/// Replays a run as its prediction does; `None` where it would not end.
pub(crate) fn steps(timeline: &Timeline, conf: &str) -> Option<Steps> {
    let conf = Conf::parse(conf).ok()?;
    let replay = replay(timeline, conf, Limits::NONE, AddressOrder::EXPECTED).ok()?;
    let begun = |phase| {
        let figures = replay.phases.iter().find(|figures| figures.phase == phase);
        figures.map_or(0, |figures| figures.begun)
    };
    let first = |event: &Event| matches!(event, Event::Begin(phase) if *phase != Phase::Load);
    let built = timeline.events.iter().position(first)?;
    // A used process holds workspaces before it builds anything.
    let held = timeline.live_at(built)[Category::Workspaces as usize];
    Some(Steps {
        built: replay.model_allocated.checked_sub(held)?,
        start: begun(Phase::Forward),
        after_backward: begun(Phase::Step),
    })
}
