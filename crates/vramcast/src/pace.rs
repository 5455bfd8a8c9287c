//! How fast a host launches and a device runs: what decides which frees the device has reached when
//! the pool needs room.
//!
//! Only the pool's reserved bytes depend on it, and only where kernels are about as long as
//! launches; elsewhere the device always keeps up, or never does.

use crate::alloc::Rates;

/// The host that the rates below were read from took this long for the smallest operation:
/// allocation, launch, free.
const REFERENCE_HOST_NS: u64 = 8_500;

/// Host times are medians over the traces of `reports/records/candle-h200-launches.md`; device
/// speeds reproduce the wall time of its five device-bound steps within a fifth. The driver lets
/// about a thousand launches wait.
const REFERENCE: Rates = Rates {
    launch_ns: 6_500,
    product_ns: 21_000,
    upload_ns: 5_000,
    free_ns: 2_000,
    kernel_ns: 2_000,
    in_order_per_us: 2_500_000,
    indexed_per_us: 600_000,
    flops_per_us: 40_000_000,
    queue: 1024,
};

/// The rates of a host that takes `host_ns` for the smallest operation, or of the reference host.
pub fn rates(host_ns: Option<u64>) -> Rates {
    let host = |ns: u64| match host_ns {
        None => ns,
        Some(measured) => ns.saturating_mul(measured) / REFERENCE_HOST_NS,
    };
    Rates {
        launch_ns: host(REFERENCE.launch_ns),
        product_ns: host(REFERENCE.product_ns),
        upload_ns: host(REFERENCE.upload_ns),
        free_ns: host(REFERENCE.free_ns),
        ..REFERENCE
    }
}
