//! A timeline through the caching allocator: requested bytes become allocated and reserved ones.

use super::{AddressOrder, CachingAllocator, Conf, Limits, OutOfMemory, Stats};
use crate::timeline::{Event, Phase, Timeline};

/// The highest figures of one phase, over all steps. In bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseFigures {
    /// Which phase.
    pub phase: Phase,
    /// Allocated bytes when it began last.
    pub begun: u64,
    /// Highest requested bytes.
    pub requested: u64,
    /// Highest allocated bytes.
    pub allocated: u64,
    /// The event after which the most is allocated.
    pub event: usize,
    /// What is requested then.
    pub requested_then: u64,
}

/// What the allocator made of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The allocator's figures when the run ends; its peaks began once the model was built.
    pub stats: Stats,
    /// Allocated bytes once the model was built.
    pub model_allocated: u64,
    /// The phases after the model was built, in their first order.
    pub phases: Vec<PhaseFigures>,
}

impl Replay {
    /// The phase in which the most is allocated, the earliest among equals.
    pub fn peak(&self) -> Option<&PhaseFigures> {
        let phases = self.phases.iter();
        phases.reduce(|best, phase| {
            if phase.allocated > best.allocated {
                phase
            } else {
                best
            }
        })
    }
}

/// A run that ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What PyTorch would say.
    pub error: OutOfMemory,
    /// The phase that asked.
    pub phase: Phase,
    /// The buffer that could not be made.
    pub buffer: u32,
}

/// Replays a whole run. Once the model is built the cache is emptied and the peaks begin anew, as
/// the probe does it.
///
/// # Errors
/// The allocation that the limits do not allow.
pub fn replay(
    timeline: &Timeline,
    conf: Conf,
    limits: Limits,
    order: AddressOrder,
) -> Result<Replay, Failure> {
    let mut allocator = CachingAllocator::new(conf, limits, order);
    let mut phases: Vec<PhaseFigures> = Vec::with_capacity(3);
    let mut phase = Phase::Load;
    let (mut current, mut model_allocated) = (None, 0);
    for (number, &event) in timeline.events.iter().enumerate() {
        match event {
            Event::Alloc(buffer) => {
                let bytes = timeline.buffers[buffer as usize].bytes;
                if let Err(error) = allocator.alloc(buffer, bytes) {
                    return Err(Failure {
                        error,
                        phase,
                        buffer,
                    });
                }
            }
            Event::Free(buffer) => {
                allocator.free(buffer);
                // Nothing rises.
                continue;
            }
            Event::Begin(next) => {
                if phase == Phase::Load && next != Phase::Load {
                    allocator.empty_cache();
                    allocator.reset_peaks();
                    model_allocated = allocator.stats().allocated;
                }
                phase = next;
                current = (phase != Phase::Load).then(|| figures_of(&mut phases, phase));
                if let Some(at) = current {
                    phases[at].begun = allocator.stats().allocated;
                }
            }
            Event::Synchronize => {}
        }
        let Some(figures) = current.and_then(|at: usize| phases.get_mut(at)) else {
            continue;
        };
        let stats = allocator.stats();
        figures.requested = figures.requested.max(stats.requested);
        if stats.allocated > figures.allocated {
            figures.allocated = stats.allocated;
            figures.event = number;
            figures.requested_then = stats.requested;
        }
    }
    Ok(Replay {
        stats: *allocator.stats(),
        model_allocated,
        phases,
    })
}

/// Where the figures of a phase are kept.
fn figures_of(phases: &mut Vec<PhaseFigures>, phase: Phase) -> usize {
    let known = phases.iter().position(|figures| figures.phase == phase);
    known.unwrap_or_else(|| {
        phases.push(PhaseFigures {
            phase,
            begun: 0,
            requested: 0,
            allocated: 0,
            event: 0,
            requested_then: 0,
        });
        phases.len() - 1
    })
}
