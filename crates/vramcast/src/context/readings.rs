//! Contexts of PyTorch's processes in public reports of memory that ran out.
//!
//! Since PyTorch 2.1 the message ends with what the process has of the card by NVML, what of it is
//! allocated by PyTorch, and what is reserved but unallocated. The rest is the context with all that
//! was loaded. Other tenants do not matter: the figures are the process's own. In runs of this project
//! that ended so, the sum is NVML's figure within 11 MiB (`tests/calibration.rs`).
//!
//! What to know about them:
//!
//! * GiB and MiB have two decimals, so a context is off by up to three half units: 5 to 15 MiB.
//! * The card is the one that the report names, or the only known one with the capacity that was
//!   printed, where the source says so. Messages that tell neither were left out, and so were those of
//!   Windows, WSL and graphs with pools of their own, which do not add up.
//! * Such processes do more than a prediction is for: other libraries' kernels and buffers are in the
//!   figures. Those of jobs over several cards hold NCCL's, too; they are kept apart.

use crate::bytes::MIB;

/// What one process had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The card's short name.
    pub gpu: &'static str,
    /// What the process has of the card.
    process: Printed,
    /// What PyTorch allocated of it.
    allocated: Printed,
    /// What PyTorch reserved beside that.
    unallocated: Printed,
    /// Whether it was one of several that work together, each on a card.
    pub ranks: bool,
    /// Where it was read: `owner/repository#number` of a GitHub issue or pull request.
    pub source: &'static str,
}

impl Reading {
    /// The context in bytes: what is neither allocated nor reserved.
    pub fn context(&self) -> u64 {
        self.process
            .bytes()
            .saturating_sub(self.allocated.bytes() + self.unallocated.bytes())
    }

    /// Bytes by which the context may differ, since the figures are rounded.
    pub fn rounding(&self) -> u64 {
        [self.process, self.allocated, self.unallocated]
            .map(|printed| printed.unit / 200)
            .iter()
            .sum()
    }
}

/// A size as PyTorch prints it, with two decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Printed {
    hundredths: u64,
    unit: u64,
}

impl Printed {
    fn bytes(self) -> u64 {
        self.hundredths * self.unit / 100
    }
}

const fn gib(hundredths: u64) -> Printed {
    Printed {
        hundredths,
        unit: 1024 * MIB,
    }
}

const fn mib(hundredths: u64) -> Printed {
    Printed {
        hundredths,
        unit: MIB,
    }
}

const fn kib(hundredths: u64) -> Printed {
    Printed {
        hundredths,
        unit: MIB / 1024,
    }
}

const fn one(
    gpu: &'static str,
    [process, allocated, unallocated]: [Printed; 3],
    source: &'static str,
) -> Reading {
    Reading {
        gpu,
        process,
        allocated,
        unallocated,
        ranks: false,
        source,
    }
}

const fn rank(gpu: &'static str, sizes: [Printed; 3], source: &'static str) -> Reading {
    Reading {
        ranks: true,
        ..one(gpu, sizes, source)
    }
}

/// By card, as [`crate::gpu::GPUS`] has them.
pub const READINGS: &[Reading] = &[
    one(
        "p100-pcie-16gb",
        [gib(1_582), gib(1_536), mib(16_802)],
        "andimarafioti/florence2-finetuning#17, the card by its capacity",
    ),
    one(
        "t4",
        [gib(411), gib(372), mib(26_421)],
        "Zheng-Chong/CatVTON#133",
    ),
    one(
        "t4",
        [gib(1_132), gib(840), gib(280)],
        "AlphaGPU/leetgpu-challenges#52",
    ),
    one(
        "t4",
        [gib(1_452), gib(1_406), mib(33_042)],
        "FoundationVision/GenerateU#10, the card by its capacity",
    ),
    one(
        "t4",
        [gib(1_453), gib(1_386), mib(55_841)],
        "facebookresearch/tribev2#28",
    ),
    one(
        "t4",
        [gib(1_467), gib(1_455), mib(2_338)],
        "hpcaitech/Open-Sora#697",
    ),
    one(
        "t4",
        [gib(1_474), gib(1_404), mib(58_033)],
        "Farzad-R/Finetune-LLAVA-NEXT#2, the card by its capacity",
    ),
    one(
        "a10",
        [gib(2_191), gib(2_169), mib(155)],
        "zai-org/CogVLM#236",
    ),
    one(
        "a10",
        [gib(1_871), gib(1_829), mib(14_204)],
        "OpenBMB/MiniCPM-V#640",
    ),
    one(
        "a10g",
        [gib(2_209), gib(2_115), mib(64_942)],
        "Lightning-AI/litgpt#136",
    ),
    one(
        "a100-40gb",
        [gib(1_425), gib(1_287), mib(91_201)],
        "TianheWu/CoSeR#10",
    ),
    rank(
        "a100-40gb",
        [gib(3_746), gib(3_604), mib(32_137)],
        "awslabs/keys_values#92",
    ),
    one(
        "a100-80gb",
        [gib(925), gib(827), mib(50_038)],
        "lianqi1008/Control-GIC#6",
    ),
    one(
        "a100-80gb",
        [gib(1_654), gib(1_594), mib(20_565)],
        "HiDream-ai/VAREdit#6",
    ),
    rank(
        "a100-80gb",
        [gib(7_228), gib(5_670), gib(1_415)],
        "wbfwonderful/Vad-R1#11",
    ),
    one(
        "rtx-a4000",
        [gib(1_551), gib(1_501), mib(30_192)],
        "DengKaiCQ/VGGT-Long#6",
    ),
    one(
        "rtx-a6000",
        [gib(4_735), gib(4_708), mib(1_445)],
        "black-forest-labs/flux2#23",
    ),
    one(
        "rtx-3070",
        [gib(739), gib(721), mib(522)],
        "meta-llama/codellama#82",
    ),
    one(
        "rtx-3080",
        [gib(943), gib(904), mib(14_212)],
        "bcmi/libcom#54, the card by its capacity",
    ),
    one(
        "rtx-3090",
        [gib(1_949), gib(1_910), mib(7_680)],
        "3DTopia/OpenLRM#42",
    ),
    one(
        "rtx-3090",
        [gib(2_357), gib(2_222), gib(104)],
        "Lightning-AI/litgpt#459",
    ),
    one(
        "rtx-2000-ada-laptop",
        [gib(735), gib(718), mib(4_785)],
        "datalab-to/marker#1014, PyTorch 2.10.0+cu126",
    ),
    one(
        "rtx-6000-ada",
        [gib(4_440), gib(4_394), mib(4_195)],
        "DINGYANB/MTVCrafter#21",
    ),
    one(
        "rtx-4050-laptop",
        [gib(548), gib(534), mib(2_294)],
        "facebookresearch/seamless_communication#341",
    ),
    one(
        "rtx-4060-laptop",
        [gib(746), gib(713), mib(22_283)],
        "ESRSchao/EdgeRegNet#2",
    ),
    one(
        "rtx-4060-ti-16gb",
        [gib(246), gib(214), mib(16_620)],
        "datalab-to/marker#269",
    ),
    one(
        "rtx-4090",
        [gib(1_456), gib(1_386), mib(21_320)],
        "3DTopia/Phidias-Diffusion#8",
    ),
    one(
        "rtx-4090",
        [gib(2_288), gib(1_975), mib(99_990)],
        "ali-vilab/VGen#104",
    ),
    one(
        "rtx-4090",
        [gib(2_269), gib(2_172), mib(52_054)],
        "pinokiofactory/flux-webui#11",
    ),
    one(
        "rtx-4090",
        [gib(2_161), gib(2_116), mib(1_105)],
        "Soul-AILab/SoulX-FlashTalk#5",
    ),
    one(
        "rtx-4090",
        [gib(2_117), gib(1_891), gib(158)],
        "nv-tlabs/3dgrut#163",
    ),
    one(
        "rtx-4090",
        [gib(2_280), gib(2_210), mib(22_214)],
        "pytorch/torchchat#1341, PyTorch 2.6.0.dev20241002+cu121",
    ),
    one(
        "l4",
        [gib(2_078), gib(1_866), gib(189)],
        "ArcInstitute/evo2#190",
    ),
    one(
        "l40",
        [gib(1_113), gib(1_025), mib(39_450)],
        "QwenLM/Qwen3-VL#2097",
    ),
    one(
        "l40",
        [gib(3_967), gib(3_584), gib(327)],
        "escontra/gauss_gym#11",
    ),
    one(
        "l40s",
        [gib(4_443), gib(4_393), mib(1_876)],
        "Wan-Video/Wan2.1#205",
    ),
    one(
        "l40s",
        [gib(4_447), gib(4_389), mib(7_961)],
        "huggingface/sentence-transformers#3214",
    ),
    rank(
        "l40s",
        [gib(4_429), gib(4_388), kib(58_200)],
        "stepfun-ai/Step-Video-T2V#8",
    ),
    one(
        "h100-nvl",
        [gib(9_191), gib(8_610), gib(515)],
        "ali-vilab/VACE#56",
    ),
    rank(
        "h200",
        [gib(13_669), gib(11_921), gib(1_404)],
        "simplescaling/s1#106",
    ),
    one(
        "rtx-5090",
        [gib(3_134), gib(3_074), mib(1_941)],
        "Wan-Video/Wan2.1#465",
    ),
];
