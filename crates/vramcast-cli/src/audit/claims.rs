//! The claims as they are found, what each of them asks of the records, and why it is so.

use crate::audit::ask::Ask;
use crate::audit::emptied::Reserved;
use crate::audit::evidence::known;
use crate::audit::job::{Job, inference, training};
use crate::audit::quantity::Quantity;
use crate::audit::t4::t4;
use crate::audit::verdict::{ABOUT, Bound};
use vramcast::record::Emptied;
use vramcast::workload::Precision::{AmpBf16, AmpFp16, Bf16, Fp16};
use vramcast::workload::Runtime::{self, Candle, Torch};

/// A claim.
pub(crate) struct Claim {
    /// As it is found.
    pub(crate) text: &'static str,
    /// What it says, one thing after another.
    pub(crate) sentences: Vec<Sentence>,
    /// Why. `{name}` stands for the value of a case of that name.
    pub(crate) why: &'static str,
}

/// One thing that a claim says.
pub(crate) struct Sentence {
    /// In a few words of the claim.
    pub(crate) said: &'static str,
    pub(crate) bound: Bound,
    pub(crate) cases: Vec<Case>,
}

/// One configuration that it is held against.
pub(crate) struct Case {
    pub(crate) ask: Ask,
    /// By which the reason names its value; empty where it does not.
    pub(crate) name: &'static str,
}

const BASE: &str = "bert-base-uncased";
const LARGE: &str = "bert-large-uncased";

/// What saves no more does not help.
const WORTH: f64 = 0.01;

/// A claim's GB and MB.
const GB: f64 = 1e9;
const MB: f64 = 1e6;

fn base(runtime: Runtime, batch: u64, seq: u64) -> Job {
    training(runtime, BASE, batch, seq)
}

fn large(runtime: Runtime, batch: u64, seq: u64) -> Job {
    training(runtime, LARGE, batch, seq)
}

fn large_infer(runtime: Runtime, batch: u64, seq: u64) -> Job {
    inference(runtime, LARGE, batch, seq)
}

fn named(name: &'static str, ask: Ask) -> Case {
    Case { ask, name }
}

fn sentence(said: &'static str, bound: Bound, asks: impl IntoIterator<Item = Case>) -> Sentence {
    Sentence {
        said,
        bound,
        cases: asks.into_iter().collect(),
    }
}

impl From<Ask> for Case {
    fn from(ask: Ask) -> Self {
        Self { ask, name: "" }
    }
}

/// The same figure of several jobs.
fn each(quantity: Quantity, jobs: impl IntoIterator<Item = Job>) -> Vec<Case> {
    let ask = |job| Ask::Of(quantity, job).into();
    jobs.into_iter().map(ask).collect()
}

/// All claims, in their order.
pub(crate) fn claims() -> Vec<Claim> {
    vec![
        base_size(),
        base_training(),
        base_on_t4(),
        levers_on_t4(),
        mixed_precision(),
        checkpointing(),
        shorter(),
        growth(),
        large_size(),
        large_inference(),
        large_cards(),
        batches(),
        emptied_cache(),
        shared_card(),
    ]
}

fn base_size() -> Claim {
    let jobs = || [base(Torch, 8, 512), base(Candle, 1, 128)];
    let built = [base(Torch, 8, 512), inference(Candle, BASE, 1, 10)];
    Claim {
        text: "bert-base-uncased: 110 M parameters, about 440 MB in fp32; gradients the same again",
        sentences: vec![
            sentence(
                "110 M parameters",
                Bound::About(110e6),
                each(Quantity::Parameters, jobs()),
            ),
            sentence(
                "440 MB in fp32",
                Bound::About(440.0 * MB),
                each(Quantity::Weights, built),
            ),
            sentence(
                "gradients the same again",
                Bound::About(440.0 * MB),
                each(Quantity::Gradients, jobs()),
            ),
        ],
        why: "Four bytes a parameter, once for the weights and once for their gradients.",
    }
}

fn base_training() -> Claim {
    let job = || base(Torch, 8, 512);
    let jobs = || {
        [
            ("sdpa", job()),
            ("eager", job().eager()),
            ("vocabulary", job().eager().masked_lm()),
            ("", job().masked_lm()),
            ("candle", base(Candle, 8, 512)),
        ]
    };
    let of = |quantity| jobs().map(|(name, job)| named(name, Ask::Of(quantity, job)));
    Claim {
        text: "bert-base, batch 8, sequence 512, fp32: activations exceed 6 GB; the whole of training \
               exceeds 10 GB",
        sentences: vec![
            sentence(
                "activations exceed 6 GB",
                Bound::MoreThan(6.0 * GB),
                of(Quantity::Activations),
            ),
            sentence(
                "the whole exceeds 10 GB",
                Bound::MoreThan(10.0 * GB),
                each(Quantity::Nvml, jobs().map(|(_, job)| job)),
            ),
        ],
        why: "A fused kernel keeps no scores: activations are {sdpa}. Eager attention keeps them and \
              what dropout and softmax make of them, for every head a square of the sequence: \
              {eager}; a head over the vocabulary adds its logits: {vocabulary}. candle keeps \
              whatever an operation was made of: {candle}.",
    }
}

fn base_on_t4() -> Claim {
    let job = || base(Torch, 4, 512).eager().limited();
    Claim {
        text: "fine-tuning bert-base at batch 4 runs out of memory on a 16 GB T4",
        sentences: vec![sentence(
            "runs out of memory",
            Bound::Happens,
            [
                named("classifier", Ask::Fails(job())),
                named("vocabulary", Ask::Fails(job().masked_lm())),
                named("candle", Ask::Fails(base(Candle, 4, 512))),
            ],
        )],
        why: "The heaviest way there is, the longest sequence in single precision with eager \
              attention, leaves most of the card free. With a classifier: {classifier}; with a head over \
              the vocabulary: {vocabulary}. candle, which has no fused attention: {candle}.",
    }
}

fn levers_on_t4() -> Claim {
    let levers = || {
        base(Torch, 8, 384)
            .precision(AmpFp16)
            .checkpointing()
            .limited()
    };
    let candle = base(Candle, 8, 384).precision(AmpFp16).checkpointing();
    let compiled = |job: Job| Ask::Saved(Quantity::Allocated, [job.clone(), job.compiled()]);
    Claim {
        text: "with mixed precision, checkpointing, compile and sequence 384, batch 8 runs on that T4",
        sentences: vec![
            sentence(
                "with all of them it runs",
                Bound::Happens,
                [
                    named("all", Ask::Runs(1, levers().compiled())),
                    Ask::Runs(1, candle).into(),
                ],
            ),
            sentence(
                "and so not without one of them",
                Bound::Happens,
                [
                    named("uncompiled", Ask::Fails(levers())),
                    named("none", Ask::Fails(base(Torch, 8, 512).eager())),
                    named("candle", Ask::Fails(base(Candle, 8, 384))),
                ],
            ),
            sentence(
                "compile saves memory",
                Bound::MoreThan(WORTH),
                [
                    named("compile", compiled(base(Torch, 8, 384))),
                    named("beside", compiled(levers())),
                ],
            ),
        ],
        why: "With all of them: {all}; uncompiled: {uncompiled}. PyTorch needs none of them; sequence \
              512 in single precision with eager attention: {none}. candle without them: {candle}. torch.compile alone saves {compile} of \
              what is allocated, beside the other levers {beside}. candle compiles nothing: its rows are without.",
    }
}

fn mixed_precision() -> Claim {
    let pair = |job: Job, precision| {
        let mixed = job.clone().precision(precision);
        Ask::Saved(Quantity::Allocated, [job, mixed])
    };
    Claim {
        text: "mixed precision cuts memory by 35 to 40 %",
        sentences: vec![sentence(
            "35 to 40 %",
            Bound::Between(0.35, 0.4),
            [
                named("least", pair(base(Torch, 4, 128), AmpBf16)),
                pair(base(Torch, 8, 256), AmpBf16).into(),
                pair(base(Torch, 8, 384), AmpFp16).into(),
                pair(base(Torch, 8, 512), AmpFp16).into(),
                pair(base(Torch, 12, 512), AmpBf16).into(),
                named("most", pair(base(Torch, 64, 128), AmpFp16)),
                pair(base(Torch, 8, 512).eager(), AmpFp16).into(),
                pair(base(Torch, 16, 512).eager(), AmpFp16).into(),
                pair(large(Torch, 2, 256), AmpBf16).into(),
                pair(large(Torch, 8, 256), AmpBf16).into(),
                pair(base(Candle, 8, 128), AmpFp16).into(),
                pair(base(Candle, 8, 512), AmpFp16).into(),
                pair(base(Candle, 8, 512), AmpBf16).into(),
            ],
        )],
        why: "Weights, gradients and moments stay in single precision, and their copies in half \
              precision come on top: what is saved is a part of the activations: of the whole, \
              {least} at batch 4, sequence 128, and {most} at batch 64.",
    }
}

fn checkpointing() -> Claim {
    let jobs = || {
        [
            ("least", large(Torch, 4, 128)),
            ("", base(Torch, 8, 128)),
            ("", large(Torch, 4, 512)),
            ("", base(Torch, 8, 384).precision(AmpFp16).eager()),
            ("", base(Torch, 16, 512)),
            ("", large(Torch, 16, 512)),
            ("most", large(Torch, 16, 512).precision(Bf16)),
            ("", base(Candle, 8, 128)),
            ("candle", base(Candle, 8, 512)),
        ]
    };
    let cases = || {
        jobs().map(|(name, job)| {
            let checkpointed = job.clone().checkpointing();
            named(name, Ask::Saved(Quantity::Allocated, [job, checkpointed]))
        })
    };
    Claim {
        text: "checkpointing cuts memory by half; by 30 to 50 %",
        sentences: vec![
            sentence("half", Bound::About(0.5), cases()),
            sentence("30 to 50 %", Bound::Between(0.3, 0.5), cases()),
        ],
        why: "It leaves one tensor a layer of what grows with batch and sequence, and nothing of what \
              does not: where weights and moments are most of it, it saves {least}, where activations \
              are, {most}; on candle {candle} at batch 8, sequence 512.",
    }
}

fn shorter() -> Claim {
    let pair = |job: Job| Ask::SavedBytes(Quantity::Allocated, [job.clone(), job.seq(384)]);
    Claim {
        text: "sequence 512 to 384 saves 1 to 2 GB",
        sentences: vec![sentence(
            "1 to 2 GB",
            Bound::Between(GB, 2.0 * GB),
            [
                named("sdpa", pair(base(Torch, 8, 512))),
                named("eager", pair(base(Torch, 8, 512).eager())),
                pair(base(Torch, 8, 512).precision(AmpFp16)).into(),
                pair(base(Torch, 16, 512)).into(),
                pair(large(Torch, 8, 512)).into(),
                named("candle", pair(base(Candle, 8, 512))),
            ],
        )],
        why: "It is a share of the activations, so it grows with the batch and with the model. At batch \
              8 of bert-base it is {sdpa} with a fused kernel, {eager} with eager attention, {candle} \
              on candle.",
    }
}

fn growth() -> Claim {
    let doubled = |quantity, job: Job| Ask::Times(quantity, [job.clone(), job.seq(512)]);
    let layers = |runtime, seq| {
        let six = training(runtime, "google/bert_uncased_L-6_H-768_A-12", 8, seq);
        let twelve = base(runtime, 8, seq);
        let more = training(runtime, "probes/models/bert-24-layers.json", 8, seq);
        [[six, twelve.clone()], [twelve, more]].map(|pair| Ask::Times(Quantity::Activations, pair))
    };
    let [torch_12, torch_24] = layers(Torch, 512);
    let [candle_12, candle_24] = layers(Candle, 128);
    Claim {
        text: "memory grows with the square of the sequence length (256 to 512); twice the layers, \
               nearly twice the activations",
        sentences: vec![
            sentence(
                "with the square of the sequence",
                Bound::About(4.0),
                [
                    named("sdpa", doubled(Quantity::Activations, base(Torch, 8, 256))),
                    named(
                        "eager",
                        doubled(Quantity::Activations, base(Torch, 8, 256).eager()),
                    ),
                    named(
                        "candle",
                        doubled(Quantity::Activations, base(Candle, 8, 256)),
                    ),
                    doubled(Quantity::Allocated, base(Torch, 8, 256)).into(),
                    doubled(Quantity::Allocated, base(Torch, 8, 256).eager()).into(),
                    doubled(Quantity::Allocated, base(Candle, 8, 256)).into(),
                ],
            ),
            sentence(
                "twice the layers, nearly twice the activations",
                Bound::Between(1.8, 2.0),
                [
                    named("layers", torch_12),
                    torch_24.into(),
                    candle_12.into(),
                    candle_24.into(),
                ],
            ),
        ],
        why: "Only the scores of attention grow with the square, and a fused kernel keeps none: twice \
              the sequence, {sdpa} the activations. Eager attention keeps scores beside what grows \
              with the sequence itself: {eager}, and {candle} on candle. Layers are alike, and the \
              embeddings below them stay: {layers}.",
    }
}

fn large_size() -> Claim {
    let jobs = || [large(Torch, 4, 512), large(Candle, 1, 384)];
    let built = [large(Torch, 4, 512), large_infer(Candle, 1, 10)];
    let sizes = [
        ("", large(Torch, 1, 512)),
        ("short", large(Torch, 4, 128)),
        ("", large(Torch, 4, 512)),
        ("", large(Torch, 8, 512)),
        ("", large(Torch, 8, 512).eager()),
        ("", large(Torch, 1, 128).precision(Bf16)),
        ("", large(Candle, 1, 10)),
        ("", large(Candle, 1, 384)),
        ("", large(Candle, 8, 384)),
    ];
    Claim {
        text: "bert-large: 334 M parameters, 1.34 GB; gradients 1.34 GB; AdamW 2.68 GB; about 5.4 GB \
               before activations; training beyond 8 to 10 GB",
        sentences: vec![
            sentence(
                "334 M parameters",
                Bound::About(334e6),
                each(Quantity::Parameters, jobs()),
            ),
            sentence(
                "1.34 GB",
                Bound::About(1.34 * GB),
                each(Quantity::Weights, built),
            ),
            sentence(
                "gradients 1.34 GB",
                Bound::About(1.34 * GB),
                each(Quantity::Gradients, jobs()),
            ),
            sentence(
                "AdamW 2.68 GB",
                Bound::About(2.68 * GB),
                each(Quantity::State, jobs()),
            ),
            sentence(
                "5.4 GB before activations",
                Bound::About(5.4 * GB),
                each(Quantity::Held, jobs()),
            ),
            sentence(
                "training beyond 8 GB",
                Bound::MoreThan(8.0 * GB),
                sizes.map(|(name, job)| named(name, Ask::Of(Quantity::Nvml, job))),
            ),
        ],
        why: "Four bytes a parameter four times over. What comes on top is the larger of two: the \
              activations, or one more copy of the parameters, which the optimizer makes in a step \
              that updates all at once. At batch 4, sequence 128, it is the second: {short} by NVML.",
    }
}

fn large_inference() -> Claim {
    let ten = |runtime| large_infer(runtime, 1, 10);
    let general = [
        ten(Torch),
        ten(Torch).precision(Fp16),
        large_infer(Torch, 8, 128).eager(),
        large_infer(Torch, 16, 512).eager(),
        ten(Candle),
        ten(Candle).precision(Fp16),
        large_infer(Candle, 32, 128),
        large_infer(Candle, 32, 512),
    ];
    Claim {
        text: "bert-large inference, batch 1, ten tokens: 1.76 GB allocated, 2.00 GB reserved in fp32; \
               about 900 MB in fp16; inference 1.5 to 2.5 GB in general",
        sentences: vec![
            sentence(
                "1.76 GB allocated",
                Bound::About(1.76 * GB),
                [
                    named("torch", Ask::Of(Quantity::Allocated, ten(Torch))),
                    named("candle", Ask::Of(Quantity::Allocated, ten(Candle))),
                ],
            ),
            sentence(
                "2.00 GB reserved",
                Bound::About(2.0 * GB),
                each(Quantity::Reserved, [ten(Torch), ten(Candle)]),
            ),
            sentence(
                "900 MB in fp16",
                Bound::About(900.0 * MB),
                [
                    named(
                        "half",
                        Ask::Of(Quantity::Allocated, ten(Torch).precision(Fp16)),
                    ),
                    Ask::Of(Quantity::Allocated, ten(Candle).precision(Fp16)).into(),
                ],
            ),
            sentence(
                "1.5 to 2.5 GB in general",
                Bound::Between(1.5 * GB, 2.5 * GB),
                each(Quantity::Nvml, general),
            ),
        ],
        why: "The weights and next to nothing else: {torch} on PyTorch, {candle} on candle; half of \
              that in fp16, and a workspace of the matrix library: {half}. NVML's figure has the \
              context on top.",
    }
}

fn large_cards() -> Claim {
    // The next smaller card of 24 GB is one of 16; that of 8 GB one of half.
    let small = known("rtx-3070").capacity().0 as f64;
    let (smaller, big) = (
        t4().capacity().0 as f64,
        known("rtx-3090").capacity().0 as f64,
    );
    Claim {
        text: "bert-large needs an 8 GB card for inference and a 24 GB card for training",
        sentences: vec![
            sentence(
                "8 GB for inference",
                Bound::Card(small / 2.0, small),
                [
                    named("one", Ask::Of(Quantity::Nvml, large_infer(Torch, 1, 10))),
                    Ask::Of(Quantity::Nvml, large_infer(Torch, 8, 128).eager()).into(),
                    Ask::Of(Quantity::Nvml, large_infer(Torch, 16, 512).eager()).into(),
                    Ask::Of(Quantity::Nvml, large_infer(Candle, 1, 10)).into(),
                    Ask::Of(Quantity::Nvml, large_infer(Candle, 32, 128)).into(),
                    Ask::Of(Quantity::Nvml, large_infer(Candle, 32, 512)).into(),
                ],
            ),
            sentence(
                "24 GB for training",
                Bound::Card(smaller, big),
                [
                    named("short", Ask::Of(Quantity::Nvml, large(Torch, 4, 128))),
                    named("long", Ask::Of(Quantity::Nvml, large(Torch, 8, 512))),
                    Ask::Of(Quantity::Nvml, large(Torch, 16, 512)).into(),
                    named(
                        "eager",
                        Ask::Of(Quantity::Nvml, large(Torch, 8, 512).eager()),
                    ),
                    Ask::Of(Quantity::Nvml, large(Torch, 16, 512).checkpointing()).into(),
                    Ask::Of(Quantity::Nvml, large(Candle, 1, 384)).into(),
                    Ask::Of(Quantity::Nvml, large(Candle, 5, 127)).into(),
                    Ask::Of(Quantity::Nvml, large(Candle, 8, 384)).into(),
                ],
            ),
        ],
        why: "Inference takes {one} of a card. Training takes {short} at batch 4, sequence 128, and \
              {long} at batch 8, sequence 512, which a T4 has, too; with eager attention \
              it takes {eager}. A need is exaggerated where the next smaller card meets it, and understated \
              where it is more than the card has.",
    }
}

fn batches() -> Claim {
    let torch = || [1, 2, 4, 8, 16, 32, 64].map(|batch| base(Torch, batch, 128));
    let candle = || [1, 2, 8, 16, 64].map(|batch| base(Candle, batch, 128));
    let bent = |quantity| {
        [
            Ask::Bent(quantity, torch().to_vec()),
            Ask::Bent(quantity, candle().to_vec()),
        ]
    };
    let [activations, of_candle] = bent(Quantity::Activations);
    let [allocated, requested] = bent(Quantity::Allocated);
    let [nvml, nvml_of_candle] = bent(Quantity::Nvml);
    Claim {
        text: "memory grows linearly with the batch",
        sentences: vec![sentence(
            "linearly with the batch",
            Bound::AtMost(ABOUT),
            [
                named("activations", activations),
                named("allocated", allocated),
                nvml.into(),
                of_candle.into(),
                requested.into(),
                nvml_of_candle.into(),
            ],
        )],
        why: "The value is the largest distance from the straight line through the smallest and the \
              largest batch, and a line holds within a tenth. Activations are {activations} off it. The \
              peak is {allocated} off: for small batches it lies in the optimizer's step, which no \
              batch changes.",
    }
}

fn emptied_cache() -> Claim {
    use Reserved::{After, Highest};
    Claim {
        text: "emptying the cache after each epoch helps",
        sentences: vec![
            sentence(
                "helps after each epoch",
                Bound::MoreThan(WORTH),
                [
                    named("highest", Ask::Emptied(Emptied::Epoch, Highest)),
                    named("after", Ask::Emptied(Emptied::Epoch, After)),
                    named("rescued", Ask::Rescued(Emptied::Epoch)),
                ],
            ),
            sentence(
                "more so after each step",
                Bound::MoreThan(WORTH),
                [
                    named("step", Ask::Emptied(Emptied::Step, Highest)),
                    named("each", Ask::Rescued(Emptied::Step)),
                ],
            ),
            sentence(
                "and costs no time",
                Bound::AtMost(WORTH),
                [
                    Ask::Slowed(Emptied::Epoch).into(),
                    named("slowed", Ask::Slowed(Emptied::Step)),
                ],
            ),
        ],
        why: "Batches differed in length. The most is reserved before the first epoch ends, and falls by \
              {highest}; between epochs {after} less is reserved, which other processes can use. An \
              allocator that runs short gives back the segments that are wholly free by itself, but in \
              the middle of a step few are. With its limit near what the longest batch needs, emptied \
              after each epoch: {rescued}; after each step: {each}, with {step} less reserved where \
              nothing limits it, for {slowed} more time. To help is to save more than 1 %, or to run \
              where it did not. candle offers no such call.",
    }
}

fn shared_card() -> Claim {
    let tune = |runtime, seq| large(runtime, 8, seq);
    let infer = |runtime, batch| large_infer(runtime, batch, 128);
    Claim {
        text: "several bert-large instances can share a T4 for fine-tuning; for inference",
        sentences: vec![
            sentence(
                "for fine-tuning",
                Bound::Happens,
                [
                    named("two", Ask::Runs(2, tune(Torch, 128))),
                    named("three", Ask::Runs(3, tune(Torch, 128))),
                    named("long", Ask::Runs(2, tune(Torch, 512))),
                    Ask::Runs(2, large(Candle, 1, 127)).into(),
                    Ask::Runs(2, tune(Candle, 127)).into(),
                ],
            ),
            sentence(
                "for inference",
                Bound::Happens,
                [
                    named("four", Ask::Runs(4, infer(Torch, 8))),
                    Ask::Runs(4, infer(Candle, 32)).into(),
                ],
            ),
        ],
        why: "Each takes its own weights and its own context. Two fine-tunings of batch 8, sequence \
              128: {two}; three: {three}; two of sequence 512: {long}. Four inferences: {four}. \
              candle's are measured alone and added up.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::evidence::Evidence;
    use crate::{records, suite};
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn every_name_in_a_reason_is_that_of_one_case_and_every_named_case_is_in_one() {
        for claim in claims() {
            let parts = claim.why.split('{').skip(1);
            let said: BTreeSet<&str> = parts.filter_map(|part| part.split('}').next()).collect();
            let cases = claim.sentences.iter().flat_map(|sentence| &sentence.cases);
            let named = cases.map(|case| case.name).filter(|name| !name.is_empty());
            let named: BTreeSet<&str> = named.collect();
            assert_eq!(said, named, "{}", claim.text);
        }
    }

    #[test]
    fn every_job_has_a_record_or_is_in_a_suite() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let records = root.join("reports/records");
        let files = std::fs::read_dir(&records).unwrap();
        let files = files.map(|entry| entry.unwrap().path());
        // What others cannot read is read by tests alone.
        let lines = files.filter_map(|file| records::read(&file).ok());
        let evidence = Evidence::new(lines.flatten());
        let suites = [
            "advice-h200.toml",
            "advice-h200-compile.toml",
            "advice-h200-levers.toml",
        ];
        let suites = suites.map(|file| suite::read(&root.join("probes").join(file)).unwrap());
        let entries: Vec<_> = suites.iter().flatten().collect();
        let planned = |job: &Job| {
            entries.iter().any(|entry| {
                entry.model == job.model
                    && entry.workload == job.workload
                    && entry.allocator_limit.is_some() == job.limited
            })
        };
        let claims = claims();
        let sentences = claims.iter().flat_map(|claim| &claim.sentences);
        for case in sentences.flat_map(|sentence| &sentence.cases) {
            // A script of its own runs several at once.
            let alone = !matches!(case.ask, Ask::Runs(2.., _)) || case.ask.runtime() == Candle;
            for job in case.ask.jobs().iter().filter(|_| alone) {
                assert!(evidence.run(job).is_some() || planned(job), "{job:?}");
            }
        }
    }
}
