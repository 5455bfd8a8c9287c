//! What PyTorch's allocations depend on beside the model: the card, and how PyTorch was built.

use crate::dtype::DType;
use crate::gpu::Gpu;

/// A card, as far as kernels choose their sizes by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// Streaming multiprocessors.
    pub multiprocessors: u64,
    /// Threads that one of them can hold.
    pub threads_per_multiprocessor: u64,
    /// Major and minor compute capability.
    pub compute_capability: (u8, u8),
}

impl Card {
    /// NVIDIA H200, the card of the traces.
    pub const H200: Self = Self {
        multiprocessors: 132,
        threads_per_multiprocessor: 2048,
        compute_capability: (9, 0),
    };

    /// Bytes of a cuBLAS workspace (ATen, cuda/CublasHandlePool.cpp; the comparison is the same in
    /// the binaries of 2.9.1, 2.10.0 and 2.11.0, so Blackwell has the small one).
    pub fn cublas_workspace(self) -> u64 {
        if self.compute_capability == (9, 0) {
            32 << 20
        } else {
            8_519_680
        }
    }

    /// Keys that one block of cub's radix sort takes, for keys and values of eight bytes (CCCL 13,
    /// tuning_radix_sort.cuh; 4,608 as traced).
    pub(super) fn sort_tile(self) -> u64 {
        match self.compute_capability.0 {
            0..=7 => 2_816,
            8 => 3_840,
            9.. => 4_608,
        }
    }
}

impl From<&Gpu> for Card {
    fn from(gpu: &Gpu) -> Self {
        Self {
            multiprocessors: u64::from(gpu.sms),
            threads_per_multiprocessor: u64::from(gpu.threads_per_sm),
            compute_capability: gpu.compute_capability,
        }
    }
}

/// A published build of PyTorch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// PyTorch's version, as `torch.__version__` has it.
    pub version: &'static str,
    /// The lowest compute capability that its wheels have kernels for (RELEASE.md).
    pub least_capability: (u8, u8),
    /// Whether attention in half precision goes to cuDNN first on Hopper and Blackwell: with a cuDNN
    /// after 9.15.0 at run time in 2.10 and 2.11, as compiled in 2.9 (ATen, sdp_utils.cpp,
    /// `check_prefer_cudnn_attention`; as disassembled for 2.9.1+cu128, 2.10.0+cu128 and
    /// 2.11.0+cu130). The wheels' metadata name their cuDNN.
    pub prefers_cudnn: bool,
    /// Whether its allocations were recorded.
    pub measured: bool,
}

/// The builds, the one of the traces first.
pub const BUILDS: &[Build] = &[
    // cuDNN 9.19.0.56.
    build("2.11.0+cu130", (7, 5), true, true),
    build("2.11.0+cu128", (7, 5), true, false),
    // cuDNN 9.10.2.21.
    build("2.11.0+cu126", (5, 0), false, false),
    // cuDNN 9.15.1.9.
    build("2.10.0+cu130", (7, 5), true, false),
    // cuDNN 9.10.2.21; what PyPI has of 2.10.
    build("2.10.0+cu128", (7, 0), false, false),
    build("2.10.0+cu126", (5, 0), false, false),
    // Compiled against cuDNN 9.8.0; what PyPI has of 2.9.
    build("2.9.1+cu128", (7, 0), false, false),
];

const fn build(
    version: &'static str,
    least_capability: (u8, u8),
    prefers_cudnn: bool,
    measured: bool,
) -> Build {
    Build {
        version,
        least_capability,
        prefers_cudnn,
        measured,
    }
}

impl Build {
    /// The build of exactly this version, if it is known.
    pub fn exactly(version: &str) -> Option<&'static Self> {
        BUILDS.iter().find(|build| build.version == version)
    }

    /// The versions that are known, for whoever asked for another.
    pub fn known() -> String {
        let versions: Vec<&str> = BUILDS.iter().map(|build| build.version).collect();
        versions.join(", ")
    }

    /// A build by its version, whole or in part: `2.10` is what PyPI has of it, and any patch
    /// release is the one that is known.
    pub fn find(version: &str) -> Option<&'static Self> {
        const OF_PYPI: [&str; 3] = ["2.11.0+cu130", "2.10.0+cu128", "2.9.1+cu128"];
        let (minor, flavour) = minor_and_flavour(version)?;
        let mut of_minor = BUILDS.iter().filter(|build| {
            minor_and_flavour(build.version).is_some_and(|(known, _)| known == minor)
        });
        of_minor.find(|build| match flavour {
            Some(_) => minor_and_flavour(build.version).is_some_and(|known| known.1 == flavour),
            None => OF_PYPI.contains(&build.version),
        })
    }
}

/// `2.11` and `cu130` of `2.11.0+cu130`.
fn minor_and_flavour(version: &str) -> Option<((u32, u32), Option<&str>)> {
    let (number, flavour) = match version.split_once('+') {
        Some((number, flavour)) => (number, Some(flavour)),
        None => (version, None),
    };
    let mut parts = number.split('.').map(str::parse);
    let (major, minor) = (parts.next()?.ok()?, parts.next()?.ok()?);
    parts
        .all(|part| part.is_ok())
        .then_some(((major, minor), flavour))
}

/// The card and the build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The card.
    pub card: Card,
    /// The build.
    pub build: &'static Build,
    /// Whether `TORCH_CUDNN_SDPA_DEPRIORITIZED` puts cuDNN's attention last.
    pub cudnn_last: bool,
}

impl Profile {
    /// An H200 with PyTorch 2.11.0+cu130, as traced.
    pub const TRACED: Self = Self {
        card: Card::H200,
        build: &BUILDS[0],
        cudnn_last: false,
    };

    /// Whether attention in half precision goes to cuDNN first.
    fn prefers_cudnn(&self) -> bool {
        self.build.prefers_cudnn
            && !self.cudnn_last
            && matches!(self.card.compute_capability, (9 | 10, 0 | 3))
    }

    /// The kernel that `scaled_dot_product_attention` chooses for heads of `width`; `None` where it
    /// falls back to matrix products (ATen, transformers/cuda/sdp_utils.cpp; on an H200 as traced).
    pub(super) fn attention(&self, dtype: DType, width: u64, masked: bool) -> Option<Kernel> {
        let (major, _) = self.card.compute_capability;
        let half = dtype != DType::F32;
        let unit = match (half, major) {
            (true, _) => 8,
            (false, 8..) => 4,
            (false, _) => 1,
        };
        if !width.is_multiple_of(unit) {
            return None;
        }
        let widest = if self.card.compute_capability == (9, 0) {
            256
        } else {
            128
        };
        match dtype {
            DType::F32 => Some(Kernel::Efficient),
            _ if self.prefers_cudnn() && width <= widest => Some(Kernel::Cudnn),
            _ if major >= 8 && !masked && width <= 256 => Some(Kernel::Flash),
            DType::Bf16 if major < 8 => None,
            _ => Some(Kernel::Efficient),
        }
    }
}

/// An attention kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    /// The memory-efficient one of xformers.
    Efficient,
    /// FlashAttention 2.
    Flash,
    /// cuDNN's.
    Cudnn,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_version_is_the_build_that_pypi_has() {
        for (part, whole) in [
            ("2.11", Some("2.11.0+cu130")),
            ("2.10", Some("2.10.0+cu128")),
            ("2.9", Some("2.9.1+cu128")),
            ("2.11.0", Some("2.11.0+cu130")),
            ("2.10.0+cu130", Some("2.10.0+cu130")),
            ("2.9.0+cu128", Some("2.9.1+cu128")),
            ("2.11.0+cpu", None),
            ("2", None),
            ("2.11.x", None),
            ("2.1", None),
            ("2.8", None),
        ] {
            let found = Build::find(part).map(|build| build.version);
            assert_eq!(found, whole, "{part}");
        }
    }

    #[test]
    fn attention_runs_in_the_kernel_that_the_card_and_the_build_allow() {
        let t4 = ((7, 5), "2.11");
        let a100 = ((8, 0), "2.11");
        let hopper = ((9, 0), "2.11");
        let older = ((9, 0), "2.10");
        use Kernel::{Cudnn, Efficient, Flash};
        for ((compute_capability, version), dtype, masked, kernel) in [
            (t4, DType::F32, false, Some(Efficient)),
            (t4, DType::F16, false, Some(Efficient)),
            (t4, DType::Bf16, true, None),
            (a100, DType::F16, false, Some(Flash)),
            (a100, DType::Bf16, true, Some(Efficient)),
            (hopper, DType::F32, true, Some(Efficient)),
            (hopper, DType::Bf16, true, Some(Cudnn)),
            (older, DType::Bf16, false, Some(Flash)),
        ] {
            let profile = Profile {
                card: Card {
                    compute_capability,
                    ..Card::H200
                },
                build: Build::find(version).unwrap(),
                cudnn_last: false,
            };
            let chosen = profile.attention(dtype, 64, masked);
            assert_eq!(chosen, kernel, "{compute_capability:?} {dtype:?} {masked}");
        }
    }
}
