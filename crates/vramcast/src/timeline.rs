//! What a run allocates and frees, in order, each allocation tagged with why it exists.
//!
//! A timeline knows nothing of allocators or cards: sizes are the requested bytes, and it is the
//! same whether it will be replayed on a small card or a large one.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumIter, IntoEnumIterator};

/// What a buffer is for, in the words of PyTorch's memory tracker.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumIter,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Category {
    /// Weights and biases.
    Parameters,
    /// Gradients that the backward pass hands over: one per parameter, and whatever else the
    /// runtime keeps with them.
    Gradients,
    /// The optimizer's moments.
    Optimizer,
    /// Results of the forward pass that outlive the operation that made them.
    Activations,
    /// What lives within one operation, one node of the backward pass, or one optimizer step.
    Temporaries,
    /// Token ids, masks and labels.
    Inputs,
    /// What libraries keep for themselves from their first use on.
    Workspaces,
}

impl Category {
    /// How many categories there are.
    pub const COUNT: usize = 7;

    /// All categories, in the order of tables and charts.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::iter()
    }
}

/// Which part of a run an event belongs to.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumIter,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Phase {
    /// Building the model and the optimizer.
    Load,
    /// The forward pass, inputs included.
    Forward,
    /// The backward pass.
    Backward,
    /// The optimizer step, and the release of everything the step made.
    Step,
}

/// One thing that happens to memory. Buffers are numbered in the order of their allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The buffer comes into being.
    Alloc(u32),
    /// The buffer is given back.
    Free(u32),
    /// A new phase begins.
    Begin(Phase),
    /// The host waits for the device; pools may trim here.
    Synchronize,
}

/// Where in the model a buffer was made: `encoder.layer.3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// The module's name.
    pub module: &'static str,
    /// Which of several like it.
    pub index: Option<u32>,
}

impl Scope {
    /// Outside every module.
    pub const NONE: Self = Self {
        module: "",
        index: None,
    };
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.index {
            None => f.write_str(self.module),
            Some(index) => write!(f, "{}.{index}", self.module),
        }
    }
}

/// What the kernel that fills a buffer does, for knowing how far the device falls behind the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Nothing runs: a few words are uploaded from the host.
    Upload,
    /// So many bytes are read and written in order.
    InOrder(u64),
    /// So many bytes are read and written by a kernel that computes an index for every element: a
    /// broadcast, a reduction, a strided copy.
    Indexed(u64),
    /// A matrix product of so many multiplications and additions.
    Product(u64),
    /// The same in half precision.
    HalfProduct(u64),
}

/// A scope's number in its timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScopeId(pub(crate) u16);

impl ScopeId {
    /// Outside every module: the first scope of every timeline.
    pub const NONE: Self = Self(0);
}

/// One allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Requested bytes.
    pub bytes: u64,
    /// What it is for.
    pub category: Category,
    /// When it was made.
    pub phase: Phase,
    /// Where it was made; [`Timeline::scope`] names it.
    pub scope: ScopeId,
    /// The operation that made it, by the runtime's own name.
    pub op: &'static str,
    /// What filling it takes.
    pub work: Work,
}

/// A run's whole story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// What happened, in order.
    pub events: Vec<Event>,
    /// Every buffer, by number.
    pub buffers: Vec<Buffer>,
    /// Every scope, by number.
    pub scopes: Vec<Scope>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self {
            events: Vec::new(),
            buffers: Vec::new(),
            scopes: vec![Scope::NONE],
        }
    }
}

/// The highest requested bytes of a stretch of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// Requested bytes alive.
    pub bytes: u64,
    /// The event after which they are alive.
    pub event: usize,
    /// The phase of that event.
    pub phase: Phase,
}

impl Timeline {
    /// Where a buffer was made.
    pub fn scope(&self, buffer: &Buffer) -> Scope {
        self.scopes[usize::from(buffer.scope.0)]
    }

    /// Calls `visit` after every event with the event's number, the phase and the live bytes.
    pub fn walk(&self, mut visit: impl FnMut(usize, Event, Phase, u64)) {
        let (mut phase, mut live) = (Phase::Load, 0u64);
        for (i, &event) in self.events.iter().enumerate() {
            match event {
                Event::Alloc(b) => live += self.buffers[b as usize].bytes,
                Event::Free(b) => live -= self.buffers[b as usize].bytes,
                Event::Begin(p) => phase = p,
                Event::Synchronize => {}
            }
            visit(i, event, phase, live);
        }
    }

    /// The highest live bytes of each phase that occurs, in order. A phase that begins with much
    /// alive counts it, whether or not it allocates anything.
    pub fn phase_peaks(&self) -> Vec<Peak> {
        let mut peaks: Vec<Peak> = Vec::new();
        self.walk(
            |event, _, phase, bytes| match peaks.iter_mut().find(|p| p.phase == phase) {
                None => peaks.push(Peak {
                    bytes,
                    event,
                    phase,
                }),
                Some(peak) if bytes > peak.bytes => {
                    *peak = Peak {
                        bytes,
                        event,
                        phase,
                    }
                }
                Some(_) => {}
            },
        );
        peaks
    }

    /// The highest live bytes after the model was built, which is what a run is judged by.
    /// `None` if nothing happens after it.
    pub fn peak(&self) -> Option<Peak> {
        highest(&self.phase_peaks())
    }

    /// Live bytes by category after `event`, indexed by [`Category`].
    pub fn live_at(&self, event: usize) -> [u64; Category::COUNT] {
        let mut live = [0u64; Category::COUNT];
        for &event in &self.events[..=event] {
            self.tally(event, &mut live);
        }
        live
    }

    /// Adds what `event` allocates to the live bytes by category before it, or takes what it
    /// frees from them.
    pub fn tally(&self, event: Event, live: &mut [u64; Category::COUNT]) {
        match event {
            Event::Alloc(b) => {
                let b = &self.buffers[b as usize];
                live[b.category as usize] += b.bytes;
            }
            Event::Free(b) => {
                let b = &self.buffers[b as usize];
                live[b.category as usize] -= b.bytes;
            }
            Event::Begin(_) | Event::Synchronize => {}
        }
    }
}

/// The highest of the phases after the model was built, the earliest among equals.
pub fn highest(phases: &[Peak]) -> Option<Peak> {
    let steps = phases.iter().copied().filter(|p| p.phase != Phase::Load);
    steps.reduce(|best, p| if p.bytes > best.bytes { p } else { best })
}
