//! The tape on which a shadow run writes its allocations and frees.
//!
//! Buffers are freed by dropping the storages that own them, so the order of frees is the order of
//! drops in the shadow's code, as it is in the runtime that the shadow follows.

use crate::bytes::{Bytes, TooLarge};
use crate::timeline::{Buffer, Category, Event, Phase, Scope, Timeline, Work};
use std::cell::{Cell, RefCell};

/// A recording in progress.
#[derive(Debug)]
pub struct Tape {
    story: RefCell<Story>,
    phase: Cell<Phase>,
    scope: Cell<Scope>,
    /// What the buffers being made are for, where the caller knows it; else their lifetime says.
    category: Cell<Option<Category>>,
    too_large: Cell<bool>,
    finished: Cell<bool>,
}

#[derive(Debug, Default)]
struct Story {
    timeline: Timeline,
    /// How many vocabulary operations had begun when each buffer was made and freed, to tell what
    /// outlives its operation.
    made_in: Vec<u32>,
    operations: u32,
    live: u64,
    /// Buffers whose category is still to be told by their lifetime.
    open: Vec<bool>,
}

impl Default for Tape {
    fn default() -> Self {
        Self {
            story: RefCell::default(),
            phase: Cell::new(Phase::Load),
            scope: Cell::new(Scope::NONE),
            category: Cell::new(None),
            too_large: Cell::new(false),
            finished: Cell::new(false),
        }
    }
}

impl Tape {
    /// Writes an allocation of `elements` values of `bits` bits, filled by a kernel that does `work`,
    /// and returns the buffer's number.
    pub(super) fn alloc(&self, elements: u64, bits: u64, op: &'static str, work: Work) -> u32 {
        let story = &mut *self.story.borrow_mut();
        let bytes = Bytes::of(elements, bits).map_or(u64::MAX, |b| b.0);
        let live = story.live.checked_add(bytes);
        if live.is_none() {
            self.too_large.set(true);
        }
        story.live = live.unwrap_or(0);
        let number = story.timeline.buffers.len() as u32;
        let phase = self.phase.get();
        let category = self.category.get();
        story.timeline.buffers.push(Buffer {
            bytes: if live.is_some() { bytes } else { 0 },
            category: category.unwrap_or(Category::Activations),
            phase,
            scope: self.scope.get(),
            op,
            work,
        });
        story.open.push(category.is_none());
        story.made_in.push(story.operations);
        story.timeline.events.push(Event::Alloc(number));
        number
    }

    /// Writes a free. What was made in the forward pass and dies within its operation, and all that
    /// dies before its backward pass or step ends, was temporary.
    pub(super) fn free(&self, buffer: u32) {
        if self.finished.get() {
            return;
        }
        let story = &mut *self.story.borrow_mut();
        let made = &mut story.timeline.buffers[buffer as usize];
        story.live -= made.bytes;
        if story.open[buffer as usize] {
            let within = match made.phase {
                Phase::Load | Phase::Forward => {
                    story.made_in[buffer as usize] == story.operations
                        && self.phase.get() == made.phase
                }
                Phase::Backward => self.phase.get() == Phase::Backward,
                Phase::Step => true,
            };
            made.category = match (within, made.phase) {
                (true, _) => Category::Temporaries,
                (false, Phase::Backward) => Category::Gradients,
                (false, _) => Category::Activations,
            };
        }
        story.timeline.events.push(Event::Free(buffer));
    }

    /// Begins a phase.
    pub fn begin(&self, phase: Phase) {
        self.phase.set(phase);
        self.story
            .borrow_mut()
            .timeline
            .events
            .push(Event::Begin(phase));
    }

    /// Writes a point at which the host waits for the device.
    pub fn synchronize(&self) {
        self.story
            .borrow_mut()
            .timeline
            .events
            .push(Event::Synchronize);
    }

    /// Begins an operation of the vocabulary.
    pub(super) fn begin_operation(&self) {
        self.story.borrow_mut().operations += 1;
    }

    /// The scope that allocations are tagged with now.
    pub(super) fn scope(&self) -> Scope {
        self.scope.get()
    }

    /// Tags what follows with `scope`.
    pub(super) fn set_scope(&self, scope: Scope) {
        self.scope.set(scope);
    }

    /// Runs `make` with its allocations known to be `category`.
    pub(super) fn with_category<R>(&self, category: Category, make: impl FnOnce() -> R) -> R {
        let before = self.category.replace(Some(category));
        let made = make();
        self.category.set(before);
        made
    }

    /// The timeline so far; what is freed later is not written. Buffers still alive keep the
    /// category that their phase suggests.
    ///
    /// # Errors
    /// [`TooLarge`] if a size, or the sum of the live ones, did not fit in 64 bits.
    pub fn finish(&self) -> Result<Timeline, TooLarge> {
        self.finished.set(true);
        if self.too_large.get() {
            Err(TooLarge)
        } else {
            Ok(self.story.take().timeline)
        }
    }
}
