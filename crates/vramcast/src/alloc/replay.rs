//! A timeline through the pool: requested bytes become reserved bytes.
//!
//! What the pool reserves depends on how far the device is behind the host, since only frees that
//! the device has reached are folded. A clock of both is kept while the timeline is replayed: the
//! host launches a kernel for every buffer, the device runs them in order.
//!
//! The step that is replayed is the first of a process: kernels are loaded at their first use, and
//! meanwhile the device catches up.

use super::cuda_pool::{CHUNK, CudaPool, OutOfMemory};
use crate::timeline::{Buffer, Event, Phase, Timeline, Work};
use std::collections::{BTreeSet, VecDeque};

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

/// Operations whose kernels are loaded together, at the first use of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module {
    /// The names of the operations.
    pub ops: &'static [&'static str],
    /// How long the host is busy with it.
    pub load_ns: u64,
}

/// Speeds of a host and a device. Host times are what it spends on one call; the device runs the
/// kernels in order, and takes `gap_ns` and at least `kernel_ns` for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// An allocation and the launch of the kernel that fills it.
    pub launch_ns: u64,
    /// An allocation and the launch of a matrix product.
    pub product_ns: u64,
    /// An allocation and the upload of a few words.
    pub upload_ns: u64,
    /// A free.
    pub free_ns: u64,
    /// Backing one chunk of the pool with memory.
    pub chunk_ns: u64,
    /// What the first use of an operation adds when no module is loaded for it.
    pub first_ns: u64,
    /// What is loaded at first use, before the result is allocated; at most 64.
    pub modules: &'static [Module],
    /// Loading the library for matrix products, after the first result is allocated.
    pub library_ns: u64,
    /// Loading another of its kernels: for the first product that is much smaller than the very
    /// first, and for the first of the backward pass.
    pub variant_ns: u64,
    /// Loading a kernel for half-precision products, of which nearly every size has its own.
    pub half_variant_ns: u64,
    /// The shortest kernel.
    pub kernel_ns: u64,
    /// From one kernel to the next.
    pub gap_ns: u64,
    /// Bytes a microsecond, moved in order.
    pub in_order_per_us: u64,
    /// Bytes a microsecond, moved at computed indices.
    pub indexed_per_us: u64,
    /// Operations of a matrix product a microsecond.
    pub flops_per_us: u64,
    /// The same in half precision.
    pub half_flops_per_us: u64,
    /// Launches that may wait; the host blocks on the next.
    pub queue: usize,
}

/// A product with this many times fewer operations than the first takes another kernel.
const MUCH_SMALLER: u64 = 16;

/// What has been loaded.
#[derive(Default)]
struct Loaded {
    ops: Vec<&'static str>,
    /// One bit a module.
    modules: u64,
    /// Operations of the first product.
    first_product: Option<u64>,
    small_product: bool,
    backward_product: bool,
    /// Phase, operations and bytes of the result of the half-precision products.
    half_products: BTreeSet<(Phase, u64, u64)>,
}

impl Loaded {
    /// How long an operation is held up before its result is allocated.
    fn op(&mut self, op: &'static str, rates: &Rates) -> u64 {
        // Names are few, and nearly always the same literal.
        if self.ops.iter().any(|seen| std::ptr::eq(*seen, op)) {
            return 0;
        }
        let known = self.ops.contains(&op);
        self.ops.push(op);
        if known {
            return 0;
        }
        let module = rates
            .modules
            .iter()
            .position(|module| module.ops.contains(&op));
        match module {
            Some(module) if self.modules & 1 << module == 0 => {
                self.modules |= 1 << module;
                rates.modules[module].load_ns
            }
            _ => rates.first_ns,
        }
    }

    /// How long a matrix product is held up after its result is allocated.
    fn product(&mut self, flops: u64, phase: Phase, rates: &Rates) -> u64 {
        let Some(first) = self.first_product else {
            self.first_product = Some(flops);
            return rates.library_ns;
        };
        let mut ns = 0;
        if flops <= first / MUCH_SMALLER && !self.small_product {
            self.small_product = true;
            ns += rates.variant_ns;
        }
        if phase == Phase::Backward && !self.backward_product {
            self.backward_product = true;
            ns += rates.variant_ns;
        }
        ns
    }

    /// The same of one in half precision.
    fn half_product(&mut self, flops: u64, made: &Buffer, rates: &Rates) -> u64 {
        let first = self.half_products.is_empty();
        let new = self.half_products.insert((made.phase, flops, made.bytes));
        match (new, first) {
            (true, true) => rates.library_ns,
            (true, false) => rates.half_variant_ns,
            (false, _) => 0,
        }
    }
}

/// Where host and device are, in nanoseconds.
struct Clock {
    rates: Option<Rates>,
    host: u64,
    device: u64,
    /// When the device will be done with each launch that waits.
    waiting: VecDeque<u64>,
    loaded: Loaded,
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
            loaded: Loaded::default(),
        }
    }

    /// Before the result of an operation is allocated.
    fn prepare(&mut self, op: &'static str) {
        if let Some(rates) = &self.rates {
            self.host += self.loaded.op(op, rates);
        }
    }

    /// After the result was allocated, for which `chunks` were backed.
    fn launch(&mut self, made: &Buffer, chunks: u64) {
        let Some(rates) = &self.rates else { return };
        self.host += chunks * rates.chunk_ns;
        self.host += match made.work {
            Work::Product(flops) => self.loaded.product(flops, made.phase, rates),
            Work::HalfProduct(flops) => self.loaded.half_product(flops, made, rates),
            Work::Upload | Work::InOrder(_) | Work::Indexed(_) => 0,
        };
        if self.waiting.len() == rates.queue {
            let done = self.waiting.pop_front().unwrap_or(0);
            self.host = self.host.max(done);
        }
        let time = |amount: u64, per_us: u64| amount.saturating_mul(1000) / per_us;
        let (host, device) = match made.work {
            Work::Upload => (rates.upload_ns, 0),
            Work::InOrder(bytes) => (rates.launch_ns, time(bytes, rates.in_order_per_us)),
            Work::Indexed(bytes) => (rates.launch_ns, time(bytes, rates.indexed_per_us)),
            Work::Product(flops) => (rates.product_ns, time(flops, rates.flops_per_us)),
            Work::HalfProduct(flops) => (rates.product_ns, time(flops, rates.half_flops_per_us)),
        };
        self.host += host;
        let start = self.host.max(self.device);
        self.device = start.saturating_add(rates.gap_ns + device.max(rates.kernel_ns));
        self.waiting.push_back(self.device);
    }

    fn free(&mut self) {
        self.host += self.rates.map_or(0, |rates| rates.free_ns);
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
                // The model is there before its first step; what it loaded does not matter.
                if !loading {
                    clock.prepare(made.op);
                }
                let reserved = pool.reserved();
                pool.alloc(buffer, made.bytes, clock.host)?;
                clock.launch(made, (pool.reserved() - reserved) / CHUNK);
            }
            Event::Free(buffer) => {
                pool.free(buffer, clock.device);
                clock.free();
            }
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
