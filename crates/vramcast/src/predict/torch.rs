//! PyTorch: all steps through its caching allocator, at a capacity, with the addresses that the
//! driver may return.

use super::{
    Foreseen, PhasePrediction, PredictError, Question, Range, Shortage, Verdict, at_peak,
    context_note, steps,
};
use crate::alloc::caching::{AddressOrder, Conf, Failure, Limits, Replay, replay};
use crate::bytes::{Bytes, MIB, TooLarge};
use crate::context::{Context, context};
use crate::shadow::torch::{BUILDS, Build, Card, Process, Profile, RunError, run};
use crate::timeline::{Phase, Timeline};
use crate::workload::{Code, Runtime};

/// What the driver's addresses are expected to be, and what else they may be. The order cannot be
/// derived; see [`AddressOrder`] for what each is worth.
const EXPECTED: AddressOrder = AddressOrder::Reserving;
const ALTERNATIVES: [AddressOrder; 2] = [AddressOrder::Descending, AddressOrder::Ascending];

/// All segments are multiples of this many bytes.
const SEGMENT_STEP: u64 = 2 * MIB;

pub(super) fn foresee(question: &Question<'_>) -> Result<(Foreseen, Timeline), PredictError> {
    let Question { workload, gpu, .. } = *question;
    if workload.code == Code::CandleTransformers {
        return Err(PredictError::Workload(
            "candle-transformers is candle's: use --runtime candle".to_owned(),
        ));
    }
    let conf = Conf::parse(&workload.allocator_conf)?;
    check_build(question)?;
    let (timeline, n_params) = story(question, question.process)?;
    let free = |order| {
        replay(&timeline, conf, Limits::NONE, order).map_err(|_| PredictError::from(TooLarge))
    };
    let expected = free(EXPECTED)?;
    let peak = *expected.peak().ok_or(TooLarge)?;
    let mut allocated = Range::exactly(Bytes(peak.allocated));
    let mut reserved = Range::exactly(Bytes(expected.stats.reserved_peak));
    if question.range {
        for order in ALTERNATIVES {
            let other = free(order)?;
            allocated = allocated.or(Bytes(other.stats.allocated_peak));
            reserved = reserved.or(Bytes(other.stats.reserved_peak));
        }
    }
    let context = context(gpu, Runtime::Torch);
    let room = Room::new(question, &context);
    let (verdict, failure) = match &room {
        None => (Verdict::Unknown, None),
        Some(room) => verdict(question, &timeline, conf, room, (allocated, reserved))?,
    };
    let at_peak = at_peak(&timeline, peak.event, allocated.bytes);
    let requested = expected.phases.iter().map(|p| p.requested).max();
    let foreseen = Foreseen {
        runtime_version: question.build.version,
        n_params,
        allocations: timeline.buffers.len() as u64,
        model_requested: Bytes(model_requested(&timeline)),
        requested: Bytes(requested.unwrap_or(0)),
        need: question.range.then(|| need(&timeline, conf, &expected)),
        allocated,
        reserved,
        shortage: failure.map(|failure| shortage(&timeline, &failure)),
        verdict,
        peak_phase: peak.phase,
        phases: expected.phases.iter().map(phase).collect(),
        at_peak,
        notes: notes(question, &context),
        context,
    };
    Ok((foreseen, timeline))
}

/// Refuses a build without kernels for the card.
fn check_build(question: &Question<'_>) -> Result<(), PredictError> {
    let Some(gpu) = question.gpu else {
        return Ok(());
    };
    let serves = |build: &Build| gpu.compute_capability >= build.least_capability;
    if serves(question.build) {
        return Ok(());
    }
    let others: Vec<&str> = BUILDS
        .iter()
        .filter(|build| serves(build))
        .map(|build| build.version)
        .collect();
    let (major, minor) = gpu.compute_capability;
    Err(PredictError::Workload(format!(
        "PyTorch {} has no kernels for {} (sm_{major}{minor}); --torch that has: {}",
        question.build.version,
        gpu.product,
        others.join(", ")
    )))
}

fn phase(figures: &crate::alloc::caching::PhaseFigures) -> PhasePrediction {
    PhasePrediction {
        name: figures.phase,
        peak_requested: Bytes(figures.requested),
        peak_allocated: Bytes(figures.allocated),
    }
}

/// The run's timeline and the elements of its parameters.
fn story(question: &Question<'_>, process: Process) -> Result<(Timeline, u64), PredictError> {
    let workload = question.workload;
    let steps = steps(Runtime::Torch, workload.mode);
    let run = run(question.config, workload, profile(question), process, steps);
    match run {
        Ok(run) => Ok((run.timeline, run.n_params)),
        Err(RunError::TooLarge(error)) => Err(error.into()),
        Err(error @ RunError::NotFollowed(_)) => Err(PredictError::Workload(error.to_string())),
    }
}

/// The card and the build; an H200 where no card was named.
fn profile(question: &Question<'_>) -> Profile {
    Profile {
        card: question.gpu.map_or(Card::H200, Card::from),
        build: question.build,
        cudnn_last: question.cudnn_last,
    }
}

/// What this answer rests on that was not measured.
fn notes(question: &Question<'_>, context: &Context) -> Vec<String> {
    let mut notes: Vec<String> = context_note(question.gpu, context, Runtime::Torch)
        .into_iter()
        .collect();
    let Profile { card, build, .. } = profile(question);
    if let Some(gpu) = question.gpu
        && card != Card::H200
    {
        let (major, minor) = card.compute_capability;
        notes.push(format!(
            "only an H200 was measured: for {} (sm_{major}{minor}, {} multiprocessors) the choice of \
             attention kernels and the sizes of workspaces and staging buffers follow PyTorch's source",
            gpu.product, card.multiprocessors
        ));
    }
    if question.gpu.is_none() {
        notes.push("no card was named: kernels and workspaces are an H200's".to_owned());
    }
    if !build.measured {
        notes.push(format!(
            "PyTorch {} was not run: what it does differently from {} was read in its binaries",
            build.version, BUILDS[0].version
        ));
    }
    notes
}

/// Requested bytes when the first step begins.
fn model_requested(timeline: &Timeline) -> u64 {
    let mut requested = 0;
    timeline.walk(|_, _, phase, live| {
        if phase == Phase::Load {
            requested = live;
        }
    });
    requested
}

/// What the allocator can have, at the context's lowest, expected and highest.
struct Room {
    allowed: Option<u64>,
    most: u64,
    expected: u64,
    least: u64,
}

impl Room {
    /// `None` where nothing limits it.
    fn new(question: &Question<'_>, context: &Context) -> Option<Self> {
        let allowed = question.allocator_limit.map(|limit| limit.0);
        let capacity = question.capacity().map(|capacity| capacity.0);
        if allowed.is_none() && capacity.is_none() {
            return None;
        }
        let beside = |context: Bytes| capacity.map_or(u64::MAX, |c| c.saturating_sub(context.0));
        Some(Self {
            allowed,
            most: beside(context.low),
            expected: beside(context.bytes),
            least: beside(context.high),
        })
    }

    fn limits(&self, capacity: u64) -> Limits {
        Limits {
            allowed: self.allowed,
            capacity,
        }
    }

    /// The most that may be reserved.
    fn reservable(&self, capacity: u64) -> u64 {
        self.allowed.unwrap_or(u64::MAX).min(capacity)
    }
}

/// Whether it fits, and where the expected run ends if it does not.
///
/// Near the limit the allocator gives its cache back and starts anew with other addresses, and runs
/// that differ in nothing else end differently. So `fits` takes a run that ends well with every
/// order of addresses, in a fresh process and in one that has run before.
fn verdict(
    question: &Question<'_>,
    timeline: &Timeline,
    conf: Conf,
    room: &Room,
    (allocated, reserved): (Range, Range),
) -> Result<(Verdict, Option<Failure>), PredictError> {
    let collects = conf.garbage_collection_threshold.is_some() && room.allowed.is_some();
    if reserved.high.0 <= room.reservable(room.least) && !collects {
        return Ok((Verdict::Fits, None));
    }
    let run =
        |timeline: &Timeline, capacity, order| replay(timeline, conf, room.limits(capacity), order);
    let failure = run(timeline, room.expected, EXPECTED).err();
    let mut ends = Ends::default();
    if allocated.low.0 > room.reservable(room.most) {
        return Ok((Verdict::Oom, failure));
    }
    let mut add = |timeline: &Timeline, order: AddressOrder| {
        ends.add(run(timeline, room.least, order.clone()).is_ok());
        ends.add(run(timeline, room.most, order).is_ok());
    };
    add(timeline, EXPECTED);
    // A sweep asks for the expected run alone.
    if question.range {
        let (other, _) = story(question, question.process.other())?;
        add(&other, EXPECTED);
        for order in ALTERNATIVES {
            add(timeline, order.clone());
            add(&other, order);
        }
    }
    let verdict = match ends {
        Ends { badly: 0, .. } => Verdict::Fits,
        Ends { well: 0, .. } => Verdict::Oom,
        Ends { .. } => Verdict::Tight,
    };
    Ok((verdict, failure))
}

/// How some replays ended.
#[derive(Default)]
struct Ends {
    well: u32,
    badly: u32,
}

impl Ends {
    fn add(&mut self, well: bool) {
        if well {
            self.well += 1;
        } else {
            self.badly += 1;
        }
    }
}

/// The smallest capacity at which the expected run ends well while it does not one step below.
fn need(timeline: &Timeline, conf: Conf, expected: &Replay) -> Bytes {
    let runs = |steps: u64| {
        let limits = Limits {
            allowed: None,
            capacity: steps * SEGMENT_STEP,
        };
        replay(timeline, conf, limits, EXPECTED).is_ok()
    };
    let mut enough = expected.stats.reserved_peak.div_ceil(SEGMENT_STEP);
    let mut too_little = expected.stats.allocated_peak.div_ceil(SEGMENT_STEP) - 1;
    while enough - too_little > 1 {
        let middle = too_little.midpoint(enough);
        if runs(middle) {
            enough = middle;
        } else {
            too_little = middle;
        }
    }
    Bytes(enough * SEGMENT_STEP)
}

fn shortage(timeline: &Timeline, failure: &Failure) -> Shortage {
    let buffer = &timeline.buffers[failure.buffer as usize];
    Shortage {
        phase: failure.phase,
        scope: timeline.scope(buffer).to_string(),
        op: buffer.op.to_owned(),
        requested: Bytes(failure.error.requested),
        tried: Bytes(failure.error.tried),
        allocated: Bytes(failure.error.allocated),
        reserved: Bytes(failure.error.reserved),
    }
}
