//! The NVIDIA cards a prediction can be held against, with the memory each one
//! really offers.
//!
//! Two totals matter, and neither is the marketing size. NVML (and `nvidia-smi`)
//! reports the card's total; the driver keeps a part of that for itself, and what
//! is left is the total of `cuMemGetInfo`, which PyTorch prints as the "total
//! capacity" of an out-of-memory message. A process can never get more than the
//! second, so a verdict uses it wherever it is known.
//!
//! Every number is a reading somebody published, and carries where: an address,
//! or `owner/repository#number` for a GitHub issue or pull request. What to know
//! about them:
//!
//! * The reserve depends on the driver (a Colab T4 lost 180 MiB from 2025 to 2026),
//!   on ECC and on the display. Where several usable totals were found the
//!   smallest is here, so that a "fits" holds; the H200 row is our own reading.
//! * Readings are of Linux unless the source says Windows, where the driver
//!   keeps back almost nothing from the CUDA total but the desktop takes its part.
//! * Drivers before branch 510 printed the total net of the reserve in
//!   `nvidia-smi` too (an A100 40 GB as 40536 MiB, not 40960); rows that rest on
//!   such a reading say so.
//! * "Derived" means the NVML total less NVML's own "Reserved" line. On the 21
//!   machines where thamada/gls has both, that lies within 1 MiB of the CUDA total.
//! * MiB are whole as printed, so up to 1 MiB off; GiB have two or three decimals.
//!
//! To add a card, add one row to [`GPUS`] with at least one of the two totals and
//! its source. Leave the other `None` rather than guess; the tests check the rest.

/// One NVIDIA card. Capacities are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gpu {
    /// Short name for the command line.
    pub name: &'static str,
    /// Product name as `nvidia-smi -L` prints it.
    pub product: &'static str,
    /// Other names [`find`] accepts.
    pub aliases: &'static [&'static str],
    /// NVIDIA's name of the generation.
    pub architecture: &'static str,
    /// Major and minor compute capability.
    pub compute_capability: (u8, u8),
    /// Number of streaming multiprocessors.
    pub sms: u32,
    /// Most threads resident on one multiprocessor.
    pub threads_per_sm: u32,
    /// Marketing size. It tells cards apart; no prediction uses it.
    pub memory_gb: u32,
    /// What NVML reports as the total.
    pub nvml_total: Option<Reading>,
    /// What `cuMemGetInfo` reports as the total: the most a process can use.
    pub usable_total: Option<Reading>,
}

/// A capacity read from a card, with where the reading was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The capacity.
    pub bytes: u64,
    /// Where it was read, and how it was printed if not in bytes.
    pub source: &'static str,
}

/// Which of a card's two totals a capacity is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// What a process can use at most.
    Usable,
    /// The card's total; the driver's own part of it is unknown and still inside.
    NvmlTotal,
}

impl Gpu {
    /// Most threads resident on the whole card.
    pub fn resident_threads(&self) -> u64 {
        u64::from(self.sms) * u64::from(self.threads_per_sm)
    }

    /// The capacity to hold a prediction against, and which total that is.
    pub fn capacity(&self) -> (u64, Basis) {
        match (self.usable_total, self.nvml_total) {
            (Some(usable), _) => (usable.bytes, Basis::Usable),
            (None, Some(total)) => (total.bytes, Basis::NvmlTotal),
            (None, None) => unreachable!("a row of GPUS without a reading does not compile"),
        }
    }
}

/// Looks a card up by name, product or alias. Case, spaces, dashes, underscores
/// and a leading "NVIDIA", "Tesla" or "GeForce" do not matter.
pub fn find(name: &str) -> Option<&'static Gpu> {
    let wanted = normalize(name);
    GPUS.iter()
        .find(|gpu| names(gpu).any(|known| normalize(known) == wanted))
}

/// Every name a card answers to.
fn names(gpu: &Gpu) -> impl Iterator<Item = &'static str> {
    [gpu.name, gpu.product]
        .into_iter()
        .chain(gpu.aliases.iter().copied())
}

/// A name without what [`find`] ignores.
fn normalize(name: &str) -> String {
    let squeezed: String = name
        .chars()
        .filter(|c| !c.is_whitespace() && !matches!(c, '-' | '_'))
        .flat_map(char::to_lowercase)
        .collect();
    let mut rest = squeezed.as_str();
    while let Some(shorter) = ["nvidia", "tesla", "geforce"]
        .iter()
        .find_map(|brand| rest.strip_prefix(brand))
    {
        rest = shorter;
    }
    rest.to_owned()
}

/// A reading in bytes.
const fn bytes(bytes: u64, source: &'static str) -> Option<Reading> {
    Some(Reading { bytes, source })
}

/// A reading in whole MiB.
const fn mib(count: u64, source: &'static str) -> Option<Reading> {
    bytes(count * 1_048_576, source)
}

/// A reading in GiB, given in thousandths, rounded down to whole bytes.
const fn gib(thousandths: u64, source: &'static str) -> Option<Reading> {
    bytes(thousandths * 1_073_741_824 / 1_000, source)
}

/// A file of thamada/gls, which keeps `nvidia-smi -q` and deviceQuery of one
/// machine per card.
macro_rules! gls {
    ($file:literal) => {
        concat!("https://github.com/thamada/gls/blob/e20f22d0/gls/", $file)
    };
}

/// The cards, by generation and size.
pub const GPUS: &[Gpu] = &[
    Gpu {
        name: "k80",
        product: "Tesla K80",
        aliases: &[],
        architecture: "Kepler",
        compute_capability: (3, 7),
        sms: 13,
        threads_per_sm: 2048,
        memory_gb: 12,
        nvml_total: mib(
            11_441,
            "rcgsheffield/sheffield_hpc#1030, one die, driver 396 (net of the reserve)",
        ),
        usable_total: gib(
            11_170,
            "huggingface/sentence-transformers#304, one die, 11.17 GiB as printed, rounded",
        ),
    },
    Gpu {
        name: "p40",
        product: "Tesla P40",
        aliases: &[],
        architecture: "Pascal",
        compute_capability: (6, 1),
        sms: 30,
        threads_per_sm: 2048,
        memory_gb: 24,
        nvml_total: mib(24_576, "dphnAI/sonar#522, ECC off, driver 550"),
        usable_total: None,
    },
    Gpu {
        name: "p100-pcie-16gb",
        product: "Tesla P100-PCIE-16GB",
        aliases: &["p100", "p100-16gb", "p100-pcie"],
        architecture: "Pascal",
        compute_capability: (6, 0),
        sms: 56,
        threads_per_sm: 2048,
        memory_gb: 16,
        nvml_total: mib(
            16_280,
            "https://github.com/NVIDIA/cloud-native-docs/blob/52dcb7b8/gpu-operator/troubleshooting.rst, driver 470 (net of the reserve)",
        ),
        usable_total: gib(
            15_900,
            "huggingface/transformers#7177, 15.90 GiB as printed, rounded; the card is a 16 GB Colab one, and 16280 MiB is the P100 figure",
        ),
    },
    Gpu {
        name: "p100-sxm2-16gb",
        product: "Tesla P100-SXM2-16GB",
        aliases: &["p100-sxm2"],
        architecture: "Pascal",
        compute_capability: (6, 0),
        sms: 56,
        threads_per_sm: 2048,
        memory_gb: 16,
        nvml_total: None,
        usable_total: bytes(
            17_066_885_120,
            "https://github.com/openxla/xla/blob/4336d12e/xla/backends/gpu/target_config/specs/p100.txtpb",
        ),
    },
    Gpu {
        name: "v100-16gb",
        product: "Tesla V100-SXM2-16GB",
        aliases: &["v100-sxm2-16gb"],
        architecture: "Volta",
        compute_capability: (7, 0),
        sms: 80,
        threads_per_sm: 2048,
        memory_gb: 16,
        nvml_total: mib(16_384, gls!("V100_x8_smi.py")),
        usable_total: bytes(16_928_342_016, gls!("V100_x8_deviceQuery.py")),
    },
    Gpu {
        name: "v100-32gb",
        product: "Tesla V100-SXM2-32GB",
        aliases: &["v100-sxm2-32gb"],
        architecture: "Volta",
        compute_capability: (7, 0),
        sms: 80,
        threads_per_sm: 2048,
        memory_gb: 32,
        nvml_total: mib(
            32_768,
            "https://github.com/pc2/GPUInspector.jl/blob/b0bea3a6/docs/src/devices/v100_sxm2.md, 32.000 GiB as printed",
        ),
        usable_total: gib(
            31_749,
            "https://github.com/pc2/GPUInspector.jl/blob/b0bea3a6/docs/src/devices/v100_sxm2.md, 31.749 GiB as printed, rounded",
        ),
    },
    Gpu {
        name: "gtx-1080-ti",
        product: "NVIDIA GeForce GTX 1080 Ti",
        aliases: &["1080-ti"],
        architecture: "Pascal",
        compute_capability: (6, 1),
        sms: 28,
        threads_per_sm: 2048,
        memory_gb: 11,
        nvml_total: mib(11_264, "PromtEngineer/localGPT#14, driver 531 on Windows"),
        usable_total: bytes(
            11_720_130_560,
            "https://github.com/Huanghongru/SGEMM-Implementation-and-Optimization (README)",
        ),
    },
    Gpu {
        name: "titan-xp",
        product: "NVIDIA TITAN Xp",
        aliases: &[],
        architecture: "Pascal",
        compute_capability: (6, 1),
        sms: 30,
        threads_per_sm: 2048,
        memory_gb: 12,
        nvml_total: None,
        usable_total: mib(
            12_183,
            "https://github.com/ProjectPhysX/OpenCL-Benchmark/blob/4694a5b9/README.md, whole MiB as printed",
        ),
    },
    Gpu {
        name: "t4",
        product: "Tesla T4",
        aliases: &[],
        architecture: "Turing",
        compute_capability: (7, 5),
        sms: 40,
        threads_per_sm: 1024,
        memory_gb: 16,
        nvml_total: mib(15_360, "modal-labs/modal-client#2797"),
        usable_total: gib(
            14_563,
            "https://github.com/unslothai/notebooks/tree/bdda2efc/nb, runs of 2026, 14.563 GiB as printed, rounded; runs of 2025 print 14.741",
        ),
    },
    Gpu {
        name: "rtx-2080-super",
        product: "NVIDIA GeForce RTX 2080 SUPER",
        aliases: &["2080-super"],
        architecture: "Turing",
        compute_capability: (7, 5),
        sms: 48,
        threads_per_sm: 1024,
        memory_gb: 8,
        nvml_total: mib(
            8_192,
            "https://github.com/utkuozdemir/nvidia_gpu_exporter/blob/e656cd81/internal/captures/linux-x86_64__nvidia-geforce-rtx-2080-super__595.71.05.txt",
        ),
        usable_total: mib(
            7_784,
            "https://github.com/utkuozdemir/nvidia_gpu_exporter/blob/e656cd81/internal/captures/linux-x86_64__nvidia-geforce-rtx-2080-super__595.71.05.txt, derived: 8192 MiB less 408 MiB reserved",
        ),
    },
    Gpu {
        name: "rtx-2080-ti",
        product: "NVIDIA GeForce RTX 2080 Ti",
        aliases: &["2080-ti"],
        architecture: "Turing",
        compute_capability: (7, 5),
        sms: 68,
        threads_per_sm: 1024,
        memory_gb: 11,
        nvml_total: mib(
            11_019,
            "https://github.com/lambdal/deeplearning-benchmark/blob/aa5addb6/pytorch/results/2080Ti/PyTorch_ncf_FP16/23-06-2020_19-18-54.txt, driver 440 (net of that driver's reserve)",
        ),
        usable_total: bytes(
            11_348_675_133,
            "grgalex/nvshare#26, cuMemGetInfo total 10822.94 MiB as printed, rounded",
        ),
    },
    Gpu {
        name: "titan-rtx",
        product: "TITAN RTX",
        aliases: &[],
        architecture: "Turing",
        compute_capability: (7, 5),
        sms: 72,
        threads_per_sm: 1024,
        memory_gb: 24,
        nvml_total: mib(
            24_220,
            "https://github.com/lambdal/deeplearning-benchmark/blob/aa5addb6/pytorch/results/TitanRTX/PyTorch_ncf_FP16/10-03-2020_23-15-12.txt, driver 440 (net of that driver's reserve)",
        ),
        usable_total: None,
    },
    Gpu {
        name: "quadro-rtx-6000",
        product: "Quadro RTX 6000",
        aliases: &[],
        architecture: "Turing",
        compute_capability: (7, 5),
        sms: 72,
        threads_per_sm: 1024,
        memory_gb: 24,
        nvml_total: mib(24_576, "akash-network/provider-configs#81, driver 570"),
        usable_total: None,
    },
    Gpu {
        name: "quadro-rtx-8000",
        product: "Quadro RTX 8000",
        aliases: &["rtx-8000"],
        architecture: "Turing",
        compute_capability: (7, 5),
        sms: 72,
        threads_per_sm: 1024,
        memory_gb: 48,
        nvml_total: mib(
            48_601,
            "https://github.com/lambdal/deeplearning-benchmark/blob/aa5addb6/pytorch/results/2xQuadroRTX8000NVlink_trt/PyTorch_ncf_FP16/25-06-2020_17-48-22.txt, driver 440 (net of that driver's reserve)",
        ),
        usable_total: None,
    },
    Gpu {
        name: "a10",
        product: "NVIDIA A10",
        aliases: &[],
        architecture: "Ampere",
        compute_capability: (8, 6),
        sms: 72,
        threads_per_sm: 1536,
        memory_gb: 24,
        nvml_total: mib(23_028, gls!("A10_smi.py")),
        usable_total: bytes(23_595_909_120, gls!("A10_deviceQuery.py")),
    },
    Gpu {
        name: "a10g",
        product: "NVIDIA A10G",
        aliases: &[],
        architecture: "Ampere",
        compute_capability: (8, 6),
        sms: 80,
        threads_per_sm: 1536,
        memory_gb: 24,
        nvml_total: mib(
            23_028,
            "https://github.com/influxdata/telegraf/blob/b2726314/plugins/inputs/nvidia_smi/testdata/a10g.xml",
        ),
        usable_total: mib(
            22_593,
            "https://github.com/influxdata/telegraf/blob/b2726314/plugins/inputs/nvidia_smi/testdata/a10g.xml, derived: 23028 MiB less 435 MiB reserved; unslothai/notebooks print 22.184 GiB under another driver",
        ),
    },
    Gpu {
        name: "a30",
        product: "NVIDIA A30",
        aliases: &[],
        architecture: "Ampere",
        compute_capability: (8, 0),
        sms: 56,
        threads_per_sm: 2048,
        memory_gb: 24,
        nvml_total: mib(
            24_576,
            "https://github.com/NVIDIA/cloud-native-docs/blob/52dcb7b8/edge/nvidia-gpu-with-device-edge.rst",
        ),
        usable_total: gib(
            23_530,
            "google/RB-Modulation#5, 23.53 GiB as printed, rounded",
        ),
    },
    Gpu {
        name: "a40",
        product: "NVIDIA A40",
        aliases: &[],
        architecture: "Ampere",
        compute_capability: (8, 6),
        sms: 84,
        threads_per_sm: 1536,
        memory_gb: 48,
        nvml_total: mib(46_068, gls!("A40x10_smi.py")),
        usable_total: bytes(47_608_692_736, gls!("A40x10_deviceQuery.py")),
    },
    Gpu {
        name: "a100-40gb",
        product: "NVIDIA A100-SXM4-40GB",
        aliases: &[
            "a100-sxm4-40gb",
            "a100-sxm-40gb",
            "a100-pcie-40gb",
            "a100-40",
        ],
        architecture: "Ampere",
        compute_capability: (8, 0),
        sms: 108,
        threads_per_sm: 2048,
        memory_gb: 40,
        nvml_total: mib(
            40_960,
            "bottlerocket-os/bottlerocket-core-kit#834, driver 580",
        ),
        usable_total: bytes(
            42_298_834_944,
            "bottlerocket-os/bottlerocket#3873, deviceQuery",
        ),
    },
    Gpu {
        name: "a100-80gb",
        product: "NVIDIA A100-SXM4-80GB",
        aliases: &[
            "a100-sxm4-80gb",
            "a100-sxm-80gb",
            "a100-80gb-pcie",
            "a100-pcie-80gb",
            "a100-80",
        ],
        architecture: "Ampere",
        compute_capability: (8, 0),
        sms: 108,
        threads_per_sm: 2048,
        memory_gb: 80,
        nvml_total: mib(81_920, gls!("A100SXMx4_smi.py")),
        usable_total: mib(
            81_051,
            "ultralytics/ultralytics#22877, torch total_memory in whole MiB",
        ),
    },
    Gpu {
        name: "rtx-a2000-12gb",
        product: "NVIDIA RTX A2000 12GB",
        aliases: &["a2000-12gb"],
        architecture: "Ampere",
        compute_capability: (8, 6),
        sms: 26,
        threads_per_sm: 1536,
        memory_gb: 12,
        nvml_total: None,
        usable_total: gib(
            11_530,
            "vllm-project/vllm#12030, 11.53 GiB as printed, rounded",
        ),
    },
    Gpu {
        name: "rtx-a4000",
        product: "NVIDIA RTX A4000",
        aliases: &["a4000"],
        architecture: "Ampere",
        compute_capability: (8, 6),
        sms: 48,
        threads_per_sm: 1536,
        memory_gb: 16,
        nvml_total: mib(
            16_376,
            "geerlingguy/raspberry-pi-pcie-devices#791, ECC off, driver 580",
        ),
        usable_total: None,
    },
    Gpu {
        name: "rtx-a4500",
        product: "NVIDIA RTX A4500",
        aliases: &["a4500"],
        architecture: "Ampere",
        compute_capability: (8, 6),
        sms: 56,
        threads_per_sm: 1536,
        memory_gb: 20,
        nvml_total: mib(
            20_470,
            "https://github.com/lambdal/deeplearning-benchmark/blob/aa5addb6/pytorch/results/2xA4500/PyTorch_ncf_FP16/30-06-2022_22-03-13.txt, driver 510",
        ),
        usable_total: None,
    },
    Gpu {
        name: "rtx-a5000",
        product: "NVIDIA RTX A5000",
        aliases: &["a5000"],
        architecture: "Ampere",
        compute_capability: (8, 6),
        sms: 64,
        threads_per_sm: 1536,
        memory_gb: 24,
        nvml_total: mib(24_564, "akash-network/provider-configs#82, driver 570"),
        usable_total: None,
    },
    Gpu {
        name: "rtx-a5500",
        product: "NVIDIA RTX A5500",
        aliases: &["a5500"],
        architecture: "Ampere",
        compute_capability: (8, 6),
        sms: 80,
        threads_per_sm: 1536,
        memory_gb: 24,
        nvml_total: mib(
            24_564,
            "https://github.com/lambdal/deeplearning-benchmark/blob/aa5addb6/pytorch/results/2xA5500/PyTorch_ncf_FP16/01-07-2022_00-50-43.txt, driver 510",
        ),
        usable_total: None,
    },
    Gpu {
        name: "rtx-a6000",
        product: "NVIDIA RTX A6000",
        aliases: &["a6000"],
        architecture: "Ampere",
        compute_capability: (8, 6),
        sms: 84,
        threads_per_sm: 1536,
        memory_gb: 48,
        nvml_total: mib(
            49_140,
            "https://github.com/ObrienlabsDev/machine-learning/blob/9a0b4acd/gpus.md, ECC off, driver 537 on Windows",
        ),
        usable_total: mib(
            48_670,
            "ultralytics/ultralytics#19084, ECC off, torch total_memory in whole MiB; with ECC on thamada/gls reads 46068 and 45618 MiB",
        ),
    },
    Gpu {
        name: "rtx-3060",
        product: "NVIDIA GeForce RTX 3060",
        aliases: &["rtx-3060-12gb", "3060"],
        architecture: "Ampere",
        compute_capability: (8, 6),
        sms: 28,
        threads_per_sm: 1536,
        memory_gb: 12,
        nvml_total: mib(
            12_288,
            "geerlingguy/raspberry-pi-pcie-devices#790, driver 580",
        ),
        usable_total: mib(
            11_920,
            "https://github.com/influxdata/telegraf/blob/b2726314/plugins/inputs/nvidia_smi/testdata/rtx-3060-v12.xml, derived: 12288 MiB less 368 MiB reserved; unslothai/notebooks print 11.755 GiB under another driver",
        ),
    },
    Gpu {
        name: "rtx-3070",
        product: "NVIDIA GeForce RTX 3070",
        aliases: &["3070"],
        architecture: "Ampere",
        compute_capability: (8, 6),
        sms: 46,
        threads_per_sm: 1536,
        memory_gb: 8,
        nvml_total: mib(8_192, gls!("RTX3070_smi.py")),
        usable_total: bytes(8_351_318_016, gls!("RTX3070_deviceQuery.py")),
    },
    Gpu {
        name: "rtx-3080",
        product: "NVIDIA GeForce RTX 3080",
        aliases: &["rtx-3080-10gb", "3080"],
        architecture: "Ampere",
        compute_capability: (8, 6),
        sms: 68,
        threads_per_sm: 1536,
        memory_gb: 10,
        nvml_total: mib(10_240, gls!("RTX3080_smi.py")),
        usable_total: mib(
            9_843,
            "https://github.com/influxdata/telegraf/blob/b2726314/plugins/inputs/nvidia_smi/testdata/rtx-3080-v13.xml, derived: 10240 MiB less 397 MiB reserved; thamada/gls reads 10485956608 bytes under driver 550",
        ),
    },
    Gpu {
        name: "rtx-3090",
        product: "NVIDIA GeForce RTX 3090",
        aliases: &["3090"],
        architecture: "Ampere",
        compute_capability: (8, 6),
        sms: 82,
        threads_per_sm: 1536,
        memory_gb: 24,
        nvml_total: mib(24_576, gls!("RTX3090_smi.py")),
        usable_total: bytes(
            25_286_672_384,
            "https://github.com/Jumperkables/cuda-benchmarking/blob/76861cac/00_deviceQuery/README.md",
        ),
    },
    Gpu {
        name: "rtx-2000-ada",
        product: "NVIDIA RTX 2000 Ada Generation",
        aliases: &[],
        architecture: "Ada Lovelace",
        compute_capability: (8, 9),
        sms: 22,
        threads_per_sm: 1536,
        memory_gb: 16,
        nvml_total: mib(16_380, gls!("RTX2000Ada_smi.py")),
        usable_total: bytes(16_856_776_704, gls!("RTX2000Ada_deviceQuery.py")),
    },
    Gpu {
        name: "rtx-2000-ada-laptop",
        product: "NVIDIA RTX 2000 Ada Generation Laptop GPU",
        aliases: &[],
        architecture: "Ada Lovelace",
        compute_capability: (8, 9),
        sms: 24,
        threads_per_sm: 1536,
        memory_gb: 8,
        nvml_total: None,
        usable_total: gib(
            7_620,
            "datalab-to/marker#1014, 7.62 GiB as printed, rounded",
        ),
    },
    Gpu {
        name: "rtx-4000-ada",
        product: "NVIDIA RTX 4000 Ada Generation",
        aliases: &[],
        architecture: "Ada Lovelace",
        compute_capability: (8, 9),
        sms: 48,
        threads_per_sm: 1536,
        memory_gb: 20,
        nvml_total: mib(20_475, gls!("RTX4000Ada_smi.py")),
        usable_total: bytes(21_125_267_456, gls!("RTX4000Ada_deviceQuery.py")),
    },
    Gpu {
        name: "rtx-6000-ada",
        product: "NVIDIA RTX 6000 Ada Generation",
        aliases: &["6000-ada"],
        architecture: "Ada Lovelace",
        compute_capability: (8, 9),
        sms: 142,
        threads_per_sm: 1536,
        memory_gb: 48,
        nvml_total: mib(49_140, gls!("RTX6000Ada_x8_smi.py")),
        usable_total: bytes(51_002_867_712, gls!("RTX6000Ada_x8_deviceQuery.py")),
    },
    Gpu {
        name: "rtx-4050-laptop",
        product: "NVIDIA GeForce RTX 4050 Laptop GPU",
        aliases: &[],
        architecture: "Ada Lovelace",
        compute_capability: (8, 9),
        sms: 20,
        threads_per_sm: 1536,
        memory_gb: 6,
        nvml_total: None,
        usable_total: gib(
            5_770,
            "facebookresearch/seamless_communication#341, 5.77 GiB as printed, rounded",
        ),
    },
    Gpu {
        name: "rtx-4060-laptop",
        product: "NVIDIA GeForce RTX 4060 Laptop GPU",
        aliases: &[],
        architecture: "Ada Lovelace",
        compute_capability: (8, 9),
        sms: 24,
        threads_per_sm: 1536,
        memory_gb: 8,
        nvml_total: None,
        usable_total: gib(
            7_750,
            "ESRSchao/EdgeRegNet#2, beside a mobile processor, 7.75 GiB as printed, rounded",
        ),
    },
    Gpu {
        name: "rtx-4060-ti-16gb",
        product: "NVIDIA GeForce RTX 4060 Ti",
        aliases: &["rtx-4060-ti", "4060-ti-16gb"],
        architecture: "Ada Lovelace",
        compute_capability: (8, 9),
        sms: 34,
        threads_per_sm: 1536,
        memory_gb: 16,
        nvml_total: mib(16_380, gls!("RTX4060Ti_smi.py")),
        usable_total: bytes(16_857_038_848, gls!("RTX4060Ti_deviceQuery.py")),
    },
    Gpu {
        name: "rtx-4070",
        product: "NVIDIA GeForce RTX 4070",
        aliases: &["4070"],
        architecture: "Ada Lovelace",
        compute_capability: (8, 9),
        sms: 46,
        threads_per_sm: 1536,
        memory_gb: 12,
        nvml_total: mib(12_282, "meta-llama/llama#466, driver 530"),
        usable_total: None,
    },
    Gpu {
        name: "rtx-4070-ti-super",
        product: "NVIDIA GeForce RTX 4070 Ti SUPER",
        aliases: &["4070-ti-super"],
        architecture: "Ada Lovelace",
        compute_capability: (8, 9),
        sms: 66,
        threads_per_sm: 1536,
        memory_gb: 16,
        nvml_total: bytes(
            17_170_956_288,
            "EvilBT/ComfyUI_SLK_joy_caption_two#55, Windows: the CUDA total there lies within 1 MiB of the NVML one",
        ),
        usable_total: None,
    },
    Gpu {
        name: "rtx-4080",
        product: "NVIDIA GeForce RTX 4080",
        aliases: &["4080"],
        architecture: "Ada Lovelace",
        compute_capability: (8, 9),
        sms: 76,
        threads_per_sm: 1536,
        memory_gb: 16,
        nvml_total: mib(
            16_376,
            "ultralytics/ultralytics#4215, whole MiB, Windows: the CUDA total there lies within 1 MiB of the NVML one",
        ),
        usable_total: None,
    },
    Gpu {
        name: "rtx-4080-super",
        product: "NVIDIA GeForce RTX 4080 SUPER",
        aliases: &["4080-super"],
        architecture: "Ada Lovelace",
        compute_capability: (8, 9),
        sms: 80,
        threads_per_sm: 1536,
        memory_gb: 16,
        nvml_total: mib(
            16_376,
            "https://github.com/utkuozdemir/nvidia_gpu_exporter/blob/e656cd81/internal/captures/linux-x86_64__nvidia-geforce-rtx-4080-super__595.71.05.txt",
        ),
        usable_total: mib(
            15_942,
            "https://github.com/utkuozdemir/nvidia_gpu_exporter/blob/e656cd81/internal/captures/linux-x86_64__nvidia-geforce-rtx-4080-super__595.71.05.txt, derived: 16376 MiB less 434 MiB reserved",
        ),
    },
    Gpu {
        name: "rtx-4090",
        product: "NVIDIA GeForce RTX 4090",
        aliases: &["4090"],
        architecture: "Ada Lovelace",
        compute_capability: (8, 9),
        sms: 128,
        threads_per_sm: 1536,
        memory_gb: 24,
        nvml_total: mib(24_564, gls!("RTX4090_smi.py")),
        usable_total: gib(
            23_635,
            "https://github.com/unslothai/notebooks/tree/bdda2efc/nb, 23.635 GiB as printed, rounded; thamada/gls reads 25386352640 bytes",
        ),
    },
    Gpu {
        name: "l4",
        product: "NVIDIA L4",
        aliases: &[],
        architecture: "Ada Lovelace",
        compute_capability: (8, 9),
        sms: 58,
        threads_per_sm: 1536,
        memory_gb: 24,
        nvml_total: mib(23_034, gls!("L4_smi.py")),
        usable_total: bytes(23_570_219_008, gls!("L4_deviceQuery.py")),
    },
    Gpu {
        name: "l40",
        product: "NVIDIA L40",
        aliases: &[],
        architecture: "Ada Lovelace",
        compute_capability: (8, 9),
        sms: 142,
        threads_per_sm: 1536,
        memory_gb: 48,
        nvml_total: None,
        usable_total: gib(
            44_310,
            "escontra/gauss_gym#11, 44.31 GiB as printed, rounded; QwenLM/Qwen3-VL#2097 prints 44.40",
        ),
    },
    Gpu {
        name: "l40s",
        product: "NVIDIA L40S",
        aliases: &[],
        architecture: "Ada Lovelace",
        compute_capability: (8, 9),
        sms: 142,
        threads_per_sm: 1536,
        memory_gb: 48,
        nvml_total: mib(46_068, gls!("L40S_smi.py")),
        usable_total: mib(
            45_459,
            "https://github.com/utkuozdemir/nvidia_gpu_exporter/blob/e656cd81/internal/captures/linux-x86_64__nvidia-l40s__595.80.txt, derived: 46068 MiB less 609 MiB reserved; thamada/gls reads 47803596800 bytes under driver 550",
        ),
    },
    Gpu {
        name: "h100-pcie",
        product: "NVIDIA H100 PCIe",
        aliases: &["h100-pcie-80gb", "h100-80gb-pcie"],
        architecture: "Hopper",
        compute_capability: (9, 0),
        sms: 114,
        threads_per_sm: 2048,
        memory_gb: 80,
        nvml_total: None,
        usable_total: bytes(
            84_942_979_072,
            "https://github.com/openxla/xla/blob/4336d12e/xla/backends/gpu/target_config/specs/h100_pcie.txtpb",
        ),
    },
    Gpu {
        name: "h100-sxm",
        product: "NVIDIA H100 80GB HBM3",
        aliases: &[
            "h100",
            "h100-80gb",
            "h100-sxm5",
            "h100-sxm-80gb",
            "h100-sxm5-80gb",
        ],
        architecture: "Hopper",
        compute_capability: (9, 0),
        sms: 132,
        threads_per_sm: 2048,
        memory_gb: 80,
        nvml_total: mib(81_559, gls!("H100SXMx8_smi.py")),
        usable_total: bytes(
            84_942_979_072,
            "https://github.com/openxla/xla/blob/0774019d/xla/backends/gpu/target_config/specs/h100_sxm.txtpb; thamada/gls reads 85045477376 bytes under driver 565",
        ),
    },
    Gpu {
        name: "h100-nvl",
        product: "NVIDIA H100 NVL",
        aliases: &["h100-nvl-94gb", "h100-94gb"],
        architecture: "Hopper",
        compute_capability: (9, 0),
        sms: 132,
        threads_per_sm: 2048,
        memory_gb: 94,
        nvml_total: mib(95_830, gls!("H100NVLx2_smi.py")),
        usable_total: bytes(99_861_594_112, gls!("H100NVLx2_deviceQuery.py")),
    },
    Gpu {
        name: "gh200-96gb",
        product: "NVIDIA GH200 480GB",
        aliases: &["gh200"],
        architecture: "Hopper",
        compute_capability: (9, 0),
        sms: 132,
        threads_per_sm: 2048,
        memory_gb: 96,
        nvml_total: mib(97_871, gls!("GH200_smi.py")),
        usable_total: bytes(101_468_602_368, gls!("GH200_deviceQuery.py")),
    },
    Gpu {
        name: "h20",
        product: "NVIDIA H20",
        aliases: &["h20-96gb"],
        architecture: "Hopper",
        compute_capability: (9, 0),
        sms: 78,
        threads_per_sm: 2048,
        memory_gb: 96,
        nvml_total: mib(
            97_871,
            "https://github.com/zilangchen/LLM_KVCache_Quantization/blob/8dd5ff8b/development_history/archive_20260219_041537/env/remote_review_20260210/versions.txt",
        ),
        usable_total: None,
    },
    Gpu {
        name: "h200",
        product: "NVIDIA H200",
        aliases: &["h200-141gb", "h200-sxm"],
        architecture: "Hopper",
        compute_capability: (9, 0),
        sms: 132,
        threads_per_sm: 2048,
        memory_gb: 141,
        nvml_total: bytes(
            150_754_820_096,
            "measured by this project on an H200, driver 580, NVML",
        ),
        usable_total: bytes(
            150_109_880_320,
            "measured by this project on an H200, driver 580, cuMemGetInfo",
        ),
    },
    Gpu {
        name: "b200",
        product: "NVIDIA B200",
        aliases: &[],
        architecture: "Blackwell",
        compute_capability: (10, 0),
        sms: 148,
        threads_per_sm: 2048,
        memory_gb: 180,
        nvml_total: mib(183_359, "NVIDIA/TensorRT-LLM#10278, driver 580"),
        usable_total: bytes(
            191_514_411_008,
            "https://github.com/openxla/xla/blob/300ec95a/xla/backends/gpu/target_config/specs/b200.txtpb",
        ),
    },
    Gpu {
        name: "gb200",
        product: "NVIDIA GB200",
        aliases: &[],
        architecture: "Blackwell",
        compute_capability: (10, 0),
        sms: 152,
        threads_per_sm: 2048,
        memory_gb: 186,
        nvml_total: None,
        usable_total: bytes(
            197_897_748_480,
            "https://github.com/openxla/xla/blob/300ec95a/xla/backends/gpu/target_config/specs/gb200.txtpb",
        ),
    },
    Gpu {
        name: "b300",
        product: "NVIDIA B300 SXM6 AC",
        aliases: &["b300-sxm6"],
        architecture: "Blackwell",
        compute_capability: (10, 3),
        sms: 148,
        threads_per_sm: 2048,
        memory_gb: 288,
        nvml_total: None,
        usable_total: mib(
            274_113,
            "https://github.com/ProjectPhysX/OpenCL-Benchmark/blob/4694a5b9/README.md, whole MiB as printed",
        ),
    },
    Gpu {
        name: "gb300",
        product: "NVIDIA GB300",
        aliases: &[],
        architecture: "Blackwell",
        compute_capability: (10, 3),
        sms: 152,
        threads_per_sm: 2048,
        memory_gb: 288,
        nvml_total: None,
        usable_total: bytes(
            297_021_079_552,
            "https://github.com/openxla/xla/blob/4336d12e/xla/backends/gpu/target_config/specs/gb300.txtpb",
        ),
    },
    Gpu {
        name: "rtx-5060-ti-16gb",
        product: "NVIDIA GeForce RTX 5060 Ti",
        aliases: &["rtx-5060-ti", "5060-ti-16gb"],
        architecture: "Blackwell",
        compute_capability: (12, 0),
        sms: 36,
        threads_per_sm: 1536,
        memory_gb: 16,
        nvml_total: mib(16_311, "akash-network/provider-configs#88"),
        usable_total: mib(
            15_816,
            "Luce-Org/lucebox#407, whole MiB as printed, driver 595",
        ),
    },
    Gpu {
        name: "rtx-5070",
        product: "NVIDIA GeForce RTX 5070",
        aliases: &["5070"],
        architecture: "Blackwell",
        compute_capability: (12, 0),
        sms: 48,
        threads_per_sm: 1536,
        memory_gb: 12,
        nvml_total: mib(12_227, "llm-d/llm-d-deployer#282, driver 570"),
        usable_total: None,
    },
    Gpu {
        name: "rtx-5070-ti",
        product: "NVIDIA GeForce RTX 5070 Ti",
        aliases: &["5070-ti"],
        architecture: "Blackwell",
        compute_capability: (12, 0),
        sms: 70,
        threads_per_sm: 1536,
        memory_gb: 16,
        nvml_total: bytes(
            17_094_475_776,
            "Comfy-Org/ComfyUI#7126, Windows: the CUDA total there lies within 1 MiB of the NVML one",
        ),
        usable_total: None,
    },
    Gpu {
        name: "rtx-5080",
        product: "NVIDIA GeForce RTX 5080",
        aliases: &["5080"],
        architecture: "Blackwell",
        compute_capability: (12, 0),
        sms: 84,
        threads_per_sm: 1536,
        memory_gb: 16,
        nvml_total: mib(16_303, "utensils/comfyui-nix#80"),
        usable_total: gib(
            15_480,
            "vllm-project/vllm#14452, 15.48 GiB as printed, rounded",
        ),
    },
    Gpu {
        name: "rtx-5090",
        product: "NVIDIA GeForce RTX 5090",
        aliases: &["5090"],
        architecture: "Blackwell",
        compute_capability: (12, 0),
        sms: 170,
        threads_per_sm: 1536,
        memory_gb: 32,
        nvml_total: mib(32_607, gls!("RTX5090_smi.py")),
        usable_total: bytes(
            33_677_180_928,
            "aikitoria/open-gpu-kernel-modules#1, deviceQuery, driver 570",
        ),
    },
    Gpu {
        name: "rtx-pro-6000",
        product: "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
        aliases: &[
            "rtx-pro-6000-blackwell",
            "pro-6000",
            "rtx-pro-6000-blackwell-max-q-workstation-edition",
            "rtx-pro-6000-blackwell-server-edition",
        ],
        architecture: "Blackwell",
        compute_capability: (12, 0),
        sms: 188,
        threads_per_sm: 1536,
        memory_gb: 96,
        nvml_total: mib(
            97_887,
            "akash-network/provider-configs#79, the Max-Q edition, driver 580",
        ),
        usable_total: None,
    },
];

// A row without any reading fails the build.
const _: () = {
    let mut i = 0;
    while i < GPUS.len() {
        assert!(GPUS[i].nvml_total.is_some() || GPUS[i].usable_total.is_some());
        i += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn readings(gpu: &Gpu) -> impl Iterator<Item = Reading> {
        gpu.nvml_total.into_iter().chain(gpu.usable_total)
    }

    #[test]
    fn there_are_enough_cards() {
        assert!(GPUS.len() >= 35, "only {} cards", GPUS.len());
    }

    #[test]
    fn no_two_cards_answer_to_one_name() {
        let mut owner: BTreeMap<String, &str> = BTreeMap::new();
        for gpu in GPUS {
            for name in names(gpu) {
                let key = normalize(name);
                assert!(!key.is_empty(), "{name}");
                let first = *owner.entry(key).or_insert(gpu.name);
                assert_eq!(first, gpu.name, "{name} is taken");
            }
        }
    }

    #[test]
    fn short_names_are_plain() {
        for gpu in GPUS {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(gpu.name.chars().all(plain), "{}", gpu.name);
        }
    }

    #[test]
    fn every_reading_has_a_source() {
        for gpu in GPUS {
            for reading in readings(gpu) {
                assert!(!reading.source.trim().is_empty(), "{}", gpu.name);
                let cited = ["https://", "#", "measured by this project"];
                assert!(
                    cited.iter().any(|mark| reading.source.contains(mark)),
                    "{}: {}",
                    gpu.name,
                    reading.source
                );
            }
        }
    }

    #[test]
    fn capacities_are_near_the_marketing_size() {
        for gpu in GPUS {
            let size = u64::from(gpu.memory_gb) << 30;
            for Reading { bytes, .. } in readings(gpu) {
                assert!(bytes * 100 >= size * 90, "{}: {bytes}", gpu.name);
                assert!(bytes * 100 <= size * 102, "{}: {bytes}", gpu.name);
            }
        }
    }

    #[test]
    fn a_process_never_gets_more_than_the_card_has() {
        for gpu in GPUS {
            if let (Some(total), Some(usable)) = (gpu.nvml_total, gpu.usable_total) {
                // Both may be rounded: two decimals of a GiB are 10.24 MiB apart.
                assert!(usable.bytes <= total.bytes + (11 << 20), "{}", gpu.name);
            }
        }
    }

    #[test]
    fn compute_capability_fits_the_architecture() {
        for gpu in GPUS {
            let architecture = match gpu.compute_capability {
                (3, _) => "Kepler",
                (6, _) => "Pascal",
                (7, 0) => "Volta",
                (7, 5) => "Turing",
                (8, 0 | 6) => "Ampere",
                (8, 9) => "Ada Lovelace",
                (9, 0) => "Hopper",
                (10 | 12, _) => "Blackwell",
                other => panic!("{}: {other:?}", gpu.name),
            };
            assert_eq!(gpu.architecture, architecture, "{}", gpu.name);
        }
    }

    #[test]
    fn threads_fit_the_compute_capability() {
        for gpu in GPUS {
            let threads = match gpu.compute_capability {
                (7, 5) => 1024,
                (8, 6 | 9) | (12, _) => 1536,
                _ => 2048,
            };
            assert_eq!(gpu.threads_per_sm, threads, "{}", gpu.name);
            assert!(gpu.sms > 0, "{}", gpu.name);
        }
    }

    #[test]
    fn cards_are_found_however_they_are_written() {
        let name_of = |name| find(name).map(|gpu| gpu.name);
        for gpu in GPUS {
            for name in names(gpu) {
                assert_eq!(name_of(name), Some(gpu.name), "{name}");
            }
        }
        assert_eq!(name_of("Tesla T4"), Some("t4"));
        assert_eq!(name_of("NVIDIA GeForce RTX 4090"), Some("rtx-4090"));
        assert_eq!(name_of("rtx_4090"), Some("rtx-4090"));
        assert_eq!(name_of("A100 40GB"), Some("a100-40gb"));
        assert_eq!(name_of("NVIDIA A100-PCIE-40GB"), Some("a100-40gb"));
        assert_eq!(name_of("nvidia tesla v100 32gb"), Some("v100-32gb"));
        assert_eq!(name_of("a100"), None);
        assert_eq!(name_of("nvidia"), None);
        assert_eq!(name_of(""), None);
    }

    #[test]
    fn the_usable_total_is_preferred() {
        let h200 = find("h200").unwrap();
        assert_eq!(h200.capacity(), (150_109_880_320, Basis::Usable));
        let a5000 = find("rtx-a5000").unwrap();
        assert_eq!(a5000.capacity(), (24_564 << 20, Basis::NvmlTotal));
    }
}
