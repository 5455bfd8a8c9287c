//! A timeline through the pool: requested bytes become reserved bytes.

use super::cuda_pool::{CudaPool, OutOfMemory};
use crate::timeline::{Event, Phase, Timeline};

/// What the pool made of a run. All figures in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// The highest requested bytes after the model was built.
    pub peak_used: u64,
    /// The highest reserved bytes after the model was built.
    pub peak_reserved: u64,
    /// Reserved bytes when the run ended.
    pub reserved: u64,
}

/// Replays a timeline of one step as `steps` steps, in a pool that may reserve at most `limit`
/// bytes. A step frees all it makes, so repeating its events is running it again.
///
/// # Errors
/// The allocation that the limit does not allow.
pub fn replay(timeline: &Timeline, steps: u32, limit: u64) -> Result<Replay, OutOfMemory> {
    let mut pool = CudaPool::with_capacity_limit(limit);
    let begins = |event: &Event| matches!(event, Event::Begin(phase) if *phase != Phase::Load);
    let step = timeline
        .events
        .iter()
        .position(begins)
        .unwrap_or(timeline.events.len());
    let (load, step) = timeline.events.split_at(step);
    run(&mut pool, timeline, load)?;
    pool.reset_high();
    for _ in 0..steps {
        run(&mut pool, timeline, step)?;
    }
    Ok(Replay {
        peak_used: pool.used_high(),
        peak_reserved: pool.reserved_high(),
        reserved: pool.reserved(),
    })
}

fn run(pool: &mut CudaPool, timeline: &Timeline, events: &[Event]) -> Result<(), OutOfMemory> {
    for &event in events {
        match event {
            Event::Alloc(buffer) => {
                pool.alloc(buffer, timeline.buffers[buffer as usize].bytes)?;
            }
            Event::Free(buffer) => pool.free(buffer),
            Event::Synchronize => pool.synchronize(),
            Event::Begin(_) => {}
        }
    }
    Ok(())
}
