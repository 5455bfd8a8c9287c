//! A timeline through the pool: requested bytes become reserved bytes.
//!
//! What the pool reserves depends on how far the device is behind the host, since only frees that
//! the device has reached are folded. A clock of both is kept while the timeline is replayed: the
//! host launches a kernel for every buffer, the device runs them in order.

use super::cuda_pool::{CudaPool, OutOfMemory};
use crate::timeline::{Event, Phase, Timeline, Work};
use std::collections::VecDeque;

/// What the pool made of a step. All figures in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// The highest requested bytes after the model was built.
    pub peak_used: u64,
    /// The highest reserved bytes after the model was built.
    pub peak_reserved: u64,
    /// Reserved bytes when the step ended.
    pub reserved: u64,
}

/// How fast the host launches and the device runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The device is always done before the host goes on.
    KeepsUp,
    /// The device reaches nothing before the host waits for it.
    FallsBehind,
    /// Both take time.
    Timed(Rates),
}

/// Speeds of a host and a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Nanoseconds that the host spends on an operation: allocation, launch, bookkeeping.
    pub launch_ns: u64,
    /// Nanoseconds that the shortest kernel takes on the device.
    pub kernel_ns: u64,
    /// Bytes that the device moves in a microsecond.
    pub bytes_per_us: u64,
    /// Operations of a matrix product in a microsecond.
    pub flops_per_us: u64,
    /// Launches that may wait; the host blocks on the next.
    pub queue: usize,
}

/// Where host and device are, in nanoseconds.
struct Clock {
    rates: Option<Rates>,
    host: u64,
    device: u64,
    /// When the device will be done with each launch that waits.
    waiting: VecDeque<u64>,
}

impl Clock {
    fn new(pace: Pace) -> Self {
        let rates = match pace {
            Pace::Timed(rates) => Some(rates),
            Pace::KeepsUp | Pace::FallsBehind => None,
        };
        // Without rates the clock stands: the device has reached everything, or nothing.
        let device = u64::from(pace == Pace::FallsBehind);
        Self {
            rates,
            host: 0,
            device,
            waiting: VecDeque::new(),
        }
    }

    fn launch(&mut self, work: Work) {
        let Some(rates) = self.rates else { return };
        let moving = work.traffic.saturating_mul(1000) / rates.bytes_per_us;
        let computing = work.flops.saturating_mul(1000) / rates.flops_per_us;
        if self.waiting.len() == rates.queue {
            let freed = self.waiting.pop_front().unwrap_or(0);
            self.host = self.host.max(freed);
        }
        self.host += rates.launch_ns;
        let start = self.host.max(self.device);
        self.device = start + moving.max(computing).max(rates.kernel_ns);
        self.waiting.push_back(self.device);
    }

    fn synchronize(&mut self) {
        if self.rates.is_some() {
            self.host = self.host.max(self.device);
            self.waiting.clear();
        }
    }
}

/// Replays a timeline of one step, in a pool that may reserve at most `limit` bytes. Later steps
/// repeat the first: it frees all that it made, and ends with a synchronisation.
///
/// # Errors
/// The allocation that the limit does not allow.
pub fn replay(timeline: &Timeline, pace: Pace, limit: u64) -> Result<Replay, OutOfMemory> {
    let mut pool = CudaPool::with_capacity_limit(limit);
    let mut clock = Clock::new(pace);
    let mut loading = true;
    for &event in &timeline.events {
        match event {
            Event::Alloc(buffer) => {
                let made = &timeline.buffers[buffer as usize];
                pool.alloc(buffer, made.bytes, clock.host)?;
                clock.launch(made.work);
            }
            Event::Free(buffer) => pool.free(buffer, clock.device),
            Event::Synchronize => {
                pool.synchronize();
                clock.synchronize();
            }
            Event::Begin(phase) => {
                if loading && phase != Phase::Load {
                    loading = false;
                    pool.reset_high();
                }
            }
        }
    }
    Ok(Replay {
        peak_used: pool.used_high(),
        peak_reserved: pool.reserved_high(),
        reserved: pool.reserved(),
    })
}
