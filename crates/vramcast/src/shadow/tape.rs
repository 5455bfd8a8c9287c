//! The tape on which a shadow run writes its allocations and frees.
//!
//! Buffers are freed by dropping the storages that own them, so the order of frees is the order of
//! drops in the shadow's code, as it is in the runtime that the shadow follows.

use crate::bytes::{Bytes, TooLarge};
use crate::timeline::{Buffer, Category, Event, Phase, Scope, ScopeId, Timeline, Work};
use std::cell::{Cell, RefCell};

/// A recording in progress.
#[derive(Debug)]
pub struct Tape {
    story: RefCell<Story>,
    phase: Cell<Phase>,
    scope: Cell<ScopeId>,
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
    /// Zero for buffers whose category was known when they were made.
    made_in: Vec<u32>,
    operations: u32,
    live: u64,
    /// How many share each buffer.
    shares: Vec<u32>,
}

impl Default for Tape {
    fn default() -> Self {
        Self {
            story: RefCell::default(),
            phase: Cell::new(Phase::Load),
            scope: Cell::new(ScopeId::NONE),
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
        // What does not fit counts as nothing from here on: there will be no answer.
        story.live = live.unwrap_or(story.live);
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
        story.made_in.push(if category.is_none() {
            story.operations + 1
        } else {
            0
        });
        story.shares.push(1);
        story.timeline.events.push(Event::Alloc(number));
        number
    }

    /// One more shares the buffer.
    pub(super) fn share(&self, buffer: u32) {
        if !self.finished.get() {
            self.story.borrow_mut().shares[buffer as usize] += 1;
        }
    }

    /// One less shares the buffer; the last one frees it. What was made in the forward pass and
    /// dies within its operation, and all that dies before its backward pass or step ends, was
    /// temporary.
    pub(super) fn release(&self, buffer: u32) {
        if self.finished.get() {
            return;
        }
        let story = &mut *self.story.borrow_mut();
        let shares = &mut story.shares[buffer as usize];
        *shares -= 1;
        if *shares > 0 {
            return;
        }
        let made = &mut story.timeline.buffers[buffer as usize];
        story.live -= made.bytes;
        let made_in = story.made_in[buffer as usize];
        if made_in > 0 {
            let now = self.phase.get();
            let within = match made.phase {
                Phase::Load | Phase::Forward => {
                    made_in == story.operations + 1 && now == made.phase
                }
                Phase::Backward => now == Phase::Backward,
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
    pub(super) fn scope(&self) -> ScopeId {
        self.scope.get()
    }

    /// Tags what follows with `scope`.
    pub(super) fn set_scope(&self, scope: ScopeId) {
        self.scope.set(scope);
    }

    /// What the scope that allocations are tagged with now stands for.
    pub(super) fn named_scope(&self) -> Scope {
        self.story.borrow().timeline.scopes[usize::from(self.scope.get().0)]
    }

    /// Tags what follows with `scope`, and returns the scope before.
    pub(super) fn enter(&self, scope: Scope) -> Scope {
        let before = self.named_scope();
        let scopes = &mut self.story.borrow_mut().timeline.scopes;
        // Scopes recur soon after they were last entered, if they do.
        let known = scopes.iter().rposition(|known| *known == scope);
        let number = known.unwrap_or_else(|| {
            scopes.push(scope);
            scopes.len() - 1
        });
        self.scope.set(ScopeId(number as u16));
        before
    }

    /// Runs `make` with its allocations known to be `category`.
    pub(super) fn with_category<R>(&self, category: Category, make: impl FnOnce() -> R) -> R {
        let before = self.category.replace(Some(category));
        let made = make();
        self.category.set(before);
        made
    }

    /// Ends the story: what is freed later is not written.
    pub(super) fn end(&self) {
        self.finished.set(true);
    }

    /// The timeline. Buffers still alive have the category that their phase suggests.
    ///
    /// # Errors
    /// [`TooLarge`] if a size, or the sum of the live ones, did not fit in 64 bits.
    pub fn finish(&self) -> Result<Timeline, TooLarge> {
        self.end();
        if self.too_large.get() {
            return Err(TooLarge);
        }
        let mut story = self.story.take();
        let alive = story.shares.iter().zip(&story.made_in);
        for (buffer, (&shares, &made_in)) in story.timeline.buffers.iter_mut().zip(alive) {
            if shares > 0 && made_in > 0 && buffer.phase == Phase::Backward {
                buffer.category = Category::Gradients;
            }
        }
        Ok(story.timeline)
    }
}
