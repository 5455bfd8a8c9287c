//! The card that the claims are about, which nobody here has: what is known of it.

use crate::audit::evidence::known;
use vramcast::bytes::Bytes;
use vramcast::context::{Context, Loaded, context};
use vramcast::gpu::Gpu;

/// The card.
pub(crate) fn t4() -> &'static Gpu {
    known("t4")
}

/// What a T4 leaves each of several processes' allocators, where a context takes the most that is
/// assumed.
pub(crate) fn share_of_t4(processes: u64) -> Bytes {
    let usable = t4().capacity().0;
    Bytes((usable / processes).saturating_sub(context_on_t4().high.0))
}

/// The context that is assumed on a T4, of whatever runs.
pub(crate) fn context_on_t4() -> Context {
    context(Some(t4()), Loaded::TorchUsed)
}

/// Whether so many processes that reserve so much each run on a T4; `None` where it depends on its
/// context, which nobody measured.
pub(crate) fn fits_t4(reserved: u64, processes: u64) -> Option<bool> {
    let with = |context: Bytes| u128::from(processes) * u128::from(reserved + context.0);
    let (context, capacity) = (context_on_t4(), u128::from(t4().capacity().0));
    if with(context.high) <= capacity {
        Some(true)
    } else if with(context.low) > capacity {
        Some(false)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_a_smaller_context_admits_is_on_the_edge() {
        let capacity = t4().capacity().0;
        let context = context_on_t4();
        assert_eq!(fits_t4(capacity - context.high.0, 1), Some(true));
        assert_eq!(fits_t4(capacity - context.bytes.0, 1), None);
        assert_eq!(fits_t4(capacity - context.low.0 + 1, 1), Some(false));
        assert_eq!(fits_t4(capacity / 2 - context.high.0, 2), Some(true));
        assert_eq!(fits_t4(capacity / 2, 2), Some(false));
    }
}
