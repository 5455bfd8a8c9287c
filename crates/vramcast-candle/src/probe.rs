//! One measured run: a job in, what it measured out. It is meant to run in a process of its own,
//! since running out of memory can end the process.

use crate::counting::{self, Logged, Marks, NotCounted};
use crate::real::{Observer, Real};
use crate::stock::run_stock;
use candle_core::Device;
use serde::{Deserialize, Serialize};
use vramcast::bytes::Bytes;
use vramcast::candle::Outcome;
use vramcast::config::ModelConfig;
use vramcast::record::{Measured, PhasePeak, Step};
use vramcast::timeline::Phase;
use vramcast::workload::{Code, Mode, Workload};

/// What a probe runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The model.
    pub config: ModelConfig,
    /// What runs.
    pub workload: Workload,
    /// `None` for the CPU, else the number of the CUDA device.
    pub cuda: Option<usize>,
    /// Steps to run.
    pub steps: u32,
}

/// Why a job measured nothing.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The device has not enough memory: an answer, not a failure.
    #[error("{0}")]
    OutOfMemory(String),
    /// A parameter got no gradient, so the run measured less than training.
    #[error(
        "{reached} of {all} parameter tensors received a gradient: this run did not train the \
         model, and what it measured means nothing"
    )]
    NotTrained {
        /// Tensors with a gradient.
        reached: u64,
        /// All parameter tensors.
        all: u64,
    },
    /// The count of allocations cannot be trusted.
    #[error(transparent)]
    NotCounted(#[from] NotCounted),
    /// This build has no CUDA.
    #[error("this build has no CUDA: build with `--features cuda`, or probe with --device cpu")]
    NoCuda,
    /// candle failed otherwise.
    #[error("{0}")]
    Candle(String),
}

impl From<candle_core::Error> for ProbeError {
    fn from(error: candle_core::Error) -> Self {
        // candle appends a backtrace where one is enabled.
        let text = error
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned();
        let out_of_memory = ["OUT_OF_MEMORY", "out of memory", "ALLOC_FAILED"];
        if out_of_memory.iter().any(|sign| text.contains(sign)) {
            Self::OutOfMemory(text)
        } else {
            Self::Candle(text)
        }
    }
}

/// Runs a job and measures it.
///
/// # Errors
/// What went wrong; running out of memory is one of them.
pub fn probe(job: &Job) -> Result<Measured, ProbeError> {
    match job.cuda {
        None => probe_cpu(job),
        Some(ordinal) => probe_cuda(job, ordinal),
    }
}

fn probe_cpu(job: &Job) -> Result<Measured, ProbeError> {
    let real = Real {
        device: Device::Cpu,
        observer: Marks,
    };
    let (outcome, log) = counting::record(|| run(&real, job))?;
    let mut measured = described(&outcome?, job)?;
    let (mut phase, mut live) = (Phase::Load, 0u64);
    let mut sizes = Vec::new();
    for event in log {
        match event {
            Logged::Begin(begun) => {
                if phase == Phase::Load && begun != Phase::Load {
                    measured.model_requested = Some(Bytes(live));
                }
                phase = begun;
                begin(&mut measured, phase, job.workload.mode);
            }
            Logged::Alloc(_, bytes) => {
                sizes.push(bytes);
                live += bytes;
            }
            Logged::Free(buffer) => live -= sizes[buffer as usize],
        }
        raise(&mut measured, phase, Bytes(live), None);
    }
    measured.allocations = Some(sizes.len() as u64);
    Ok(measured)
}

#[cfg(feature = "cuda")]
fn probe_cuda(job: &Job, ordinal: usize) -> Result<Measured, ProbeError> {
    use crate::pool::{PoolMeter, memory_info};
    let device = Device::new_cuda(ordinal)?;
    let (free, total) = memory_info()?;
    let host_ns = host_ns(&device)?;
    let real = Real {
        device,
        observer: PoolMeter::new(ordinal)?,
    };
    let outcome = run(&real, job).map_err(|error| out_of_memory_where(error, &real.observer))?;
    let mut measured = described(&outcome, job)?;
    measured.host_ns = Some(host_ns);
    let reading = real.observer.finish()?;
    measured.model_requested = Some(reading.model);
    for (phase, requested, reserved) in reading.phases {
        begin(&mut measured, phase, job.workload.mode);
        raise(&mut measured, phase, requested, Some(reserved));
    }
    measured.reserved = Some(reading.reserved);
    let (free_after, _) = memory_info()?;
    measured.usable = Some(total);
    measured.used_after_context = Some(Bytes(total.0 - free.0));
    let beyond_pool = (total.0 - free_after.0).saturating_sub(reading.reserved.0);
    measured.context = Some(Bytes(beyond_pool));
    Ok(measured)
}

/// candle's error has no sizes: this one says how far the run had come.
#[cfg(feature = "cuda")]
fn out_of_memory_where(error: candle_core::Error, pool: &crate::pool::PoolMeter) -> ProbeError {
    match (
        ProbeError::from(error),
        pool.so_far(),
        crate::pool::memory_info(),
    ) {
        (ProbeError::OutOfMemory(text), Ok((phase, used, reserved)), Ok((free, total))) => {
            ProbeError::OutOfMemory(format!(
                "{text}, in the {phase} phase, with {used} requested and {reserved} reserved; \
                 {free} of {total} free"
            ))
        }
        (error, _, _) => error,
    }
}

/// How long the host takes for the smallest operation: allocation, launch, free.
#[cfg(feature = "cuda")]
fn host_ns(device: &Device) -> candle_core::Result<u64> {
    const TIMED: u32 = 512;
    let one = candle_core::Tensor::ones(1, candle_core::DType::F32, device)?;
    // The first launch loads the kernel.
    drop(one.affine(1.0, 0.0)?);
    device.synchronize()?;
    let begun = std::time::Instant::now();
    for _ in 0..TIMED {
        drop(one.affine(1.0, 0.0)?);
    }
    let each = begun.elapsed() / TIMED;
    device.synchronize()?;
    Ok(each.as_nanos() as u64)
}

#[cfg(not(feature = "cuda"))]
fn probe_cuda(_: &Job, _: usize) -> Result<Measured, ProbeError> {
    Err(ProbeError::NoCuda)
}

fn run<O: Observer>(real: &Real<O>, job: &Job) -> candle_core::Result<Outcome> {
    match job.workload.code {
        Code::Vramcast => vramcast::candle::run(real, &job.config, &job.workload, job.steps),
        Code::CandleTransformers => run_stock(real, &job.config, &job.workload, job.steps),
    }
}

fn described(outcome: &Outcome, job: &Job) -> Result<Measured, ProbeError> {
    let trains = job.workload.mode == Mode::Train;
    let (reached, all) = (outcome.n_tensors_with_gradient, outcome.n_tensors);
    if trains && reached != all {
        return Err(ProbeError::NotTrained { reached, all });
    }
    Ok(Measured {
        n_params: Some(outcome.n_params),
        n_tensors: Some(all),
        n_params_with_gradient: trains.then_some(outcome.n_params_with_gradient),
        n_tensors_with_gradient: trains.then_some(reached),
        steps_left_out: (outcome.steps_left_out > 0).then_some(outcome.steps_left_out),
        ..Measured::default()
    })
}

/// Begins a phase. A forward phase begins a step, unless the step before has not come to its
/// optimizer yet. Building the model is no part of a run's peaks.
fn begin(measured: &mut Measured, phase: Phase, mode: Mode) {
    let over = |step: &Step| match (mode, step.phases.last()) {
        (Mode::Train, Some(last)) => last.name == Phase::Step,
        (Mode::Infer, _) | (_, None) => true,
    };
    if phase == Phase::Forward && measured.steps.last().is_none_or(over) {
        measured.steps.push(Step::default());
    }
    if let Some(step) = measured.steps.last_mut()
        && step.phases.iter().all(|known| known.name != phase)
    {
        let (peak_requested, peak_reserved) = (Bytes(0), None);
        step.phases.push(PhasePeak {
            name: phase,
            peak_requested,
            peak_reserved,
        });
    }
}

/// Takes a reading of a phase into its peaks in the current step, and into the run's.
fn raise(measured: &mut Measured, phase: Phase, requested: Bytes, reserved: Option<Bytes>) {
    let steps = measured.steps.last_mut();
    let current = steps.and_then(|step| step.phases.iter_mut().find(|peak| peak.name == phase));
    if let Some(peak) = current {
        peak.peak_requested = peak.peak_requested.max(requested);
        peak.peak_reserved = peak.peak_reserved.max(reserved);
        measured.peak_requested = measured.peak_requested.max(Some(requested));
        measured.peak_reserved = measured.peak_reserved.max(reserved);
    }
}
