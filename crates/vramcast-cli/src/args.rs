//! What the user typed. Words are those of the records; the doc comments are the help texts.

use crate::gate::evidence::Injection;
use crate::{calibration, model};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args as ClapArgs, Parser, Subcommand};
use clap_complete::Shell;
use std::path::PathBuf;
use std::str::FromStr;
use strum::VariantNames;
use vramcast::bytes::Bytes;
use vramcast::config::ModelConfig;
use vramcast::fit::Axis;
use vramcast::gpu::Gpu;
use vramcast::predict::Question;
use vramcast::shadow::torch::Build;
use vramcast::workload::{
    Attention, Code, Loop, Mode, Optimizer, Placement, Precision, Runtime, Task, Workload,
};
use vramcast_tokens::Format;

/// Says, before a job runs, how much GPU memory it needs, whether it fits, and why; then proves the
/// answer by running the job and measuring it.
#[derive(Debug, Parser)]
#[command(
    name = "vramcast",
    version,
    max_term_width = 100,
    after_help = "Exit status: 0 it fits, or nothing says that it does not; 1 it does not fit; \
                  2 the question could not be answered.\n\nExamples:\n  \
                  vramcast predict bert-large-uncased --batch 16 --seq 512 --gpu a100-40gb\n  \
                  vramcast probe bert-base-uncased --batch 1 --seq 32\n  \
                  vramcast gpus"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// How much memory a step needs, whether it fits, and what it is made of.
    #[command(after_help = "Examples:\n  \
        vramcast predict bert-base-uncased --batch 32 --seq 128 --gpu t4\n  \
        vramcast predict ./my-model --mode infer --capacity 8GiB --json\n  \
        vramcast predict bert-large-uncased --batch 8 --seq 512 --charts out --png")]
    Predict(Predict),
    /// The largest batch or the longest sequence that fits, on one card or on all.
    #[command(after_help = "Examples:\n  \
        vramcast fit bert-base-uncased --seq 384 --precision amp-fp16 --gpu t4\n  \
        vramcast fit bert-large-uncased --axis seq --batch 8 --capacity 24GiB\n  \
        vramcast fit bert-large-uncased --batch 16 --seq 512 --gpus all\n  \
        vramcast fit bert-base-uncased --gpu t4 --frontier --charts out --png\n  \
        vramcast fit bert-base-uncased --mode infer --batch 4 --seq 256 --gpu l4 --instances\n  \
        vramcast fit bert-base-uncased --seq 512 --allocator-limit 15GiB --json")]
    Fit(Fit),
    /// What to change so that it takes less memory, or fits.
    #[command(after_help = "Examples:\n  \
        vramcast advise bert-base-uncased --batch 32 --seq 512 --gpu t4\n  \
        vramcast advise bert-large-uncased --batch 16 --seq 384 --loop trainer --charts out --png")]
    Advise(Advise),
    /// How long texts are in tokens, what a max_length cuts off, and what batches of them need.
    #[command(after_help = "Examples:\n  \
        vramcast lengths reviews.csv --field review --tokenizer tokenizer.json\n  \
        vramcast lengths train.jsonl --tokenizer tokenizer.json --model bert-base-uncased --batch 32 \
        --gpu t4\n  \
        vramcast lengths papers.jsonl.gz --tokenizer tokenizer.json --window 512 --stride 128 --charts \
        out --png")]
    Lengths(Lengths),
    /// Run a step for real, measure it, compare it with the prediction, draw the charts.
    #[command(after_help = "Examples:\n  \
        vramcast probe google/bert_uncased_L-4_H-256_A-4 --batch 2 --seq 64 --device cpu\n  \
        vramcast probe bert-base-uncased --batch 8 --seq 128 --device cuda\n  \
        vramcast probe --suite probes/candle-h200.toml --device cuda --out reports/mine")]
    Probe(Probe),
    /// The gate of a CI job: workloads against their baseline, their budgets and their card.
    #[command(
        after_help = "Exit status: 0 passed, with or without warnings; 1 failed; 2 the question \
        could not be answered.\n\nExamples:\n  \
        vramcast check --update\n  \
        vramcast check --github --markdown summary.md --junit memory.xml\n  \
        vramcast check --inject 10%\n  \
        vramcast check ci/vramcast.toml --probe --python .venv/bin/python"
    )]
    Check(Check),
    /// What changed between two predictions, records or baselines.
    #[command(after_help = "Examples:\n  \
        vramcast diff before.json after.json\n  \
        vramcast diff old/vramcast-baseline.json vramcast-baseline.json --charts out --png")]
    Diff(Diff),
    /// Predictions against measured records.
    #[command(after_help = "Example:\n  vramcast accuracy reports/records/candle-h200.jsonl")]
    Accuracy(Accuracy),
    /// A page of records and predictions: for people one in HTML, or how exact predictions are.
    #[command(after_help = "Examples:\n  \
        vramcast report vramcast-probe/record.jsonl --out probe.html\n  \
        vramcast predict bert-large-uncased --batch 64 --seq 512 --gpu t4 --json > asked.json\n  \
        vramcast report asked.json reports/records/torch-h200-suite.jsonl --out jobs.html\n  \
        vramcast report reports/records/candle-h200.jsonl --out reports")]
    Report(Report),
    /// Common advice on GPU memory beside predictions and records, with verdicts: the page advice.md.
    #[command(after_help = "Example:\n  \
        vramcast audit reports/records/candle-h200.jsonl --out reports")]
    Audit(Audit),
    /// The models known by name.
    #[command(after_help = "Example:\n  vramcast models --json")]
    Models(Json),
    /// The cards known, with their capacities and where those were read.
    #[command(after_help = "Example:\n  vramcast gpus --json")]
    Gpus(Json),
    /// Measure this machine's card: contexts and capacity, which predictions for it then use.
    #[command(after_help = "Examples:\n  \
        vramcast calibrate\n  \
        vramcast calibrate --python .venv/bin/python --device cuda:1")]
    Calibrate(Calibrate),
    /// What this machine can do: CUDA, NVML, other tenants, PyTorch, calibrations.
    #[command(after_help = "Example:\n  vramcast doctor --python .venv/bin/python")]
    Doctor(Doctor),
    /// A script that completes this command's words in a shell.
    #[command(after_help = "Example:\n  \
        vramcast completions bash > ~/.local/share/bash-completion/completions/vramcast")]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// The manual's pages.
    #[command(after_help = "Example:\n  vramcast man --out ~/.local/share/man/man1")]
    Man {
        /// The folder for the pages.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Runs one job read from stdin, in a process that may die.
    #[command(hide = true)]
    ProbeChild,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Json {
    /// Print JSON.
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Calibrate {
    /// Which card: `cuda`, `cuda:1`, or `auto` for the first.
    #[arg(long, default_value = "auto")]
    pub(crate) device: Device,
    /// A Python with torch and transformers; `python3` by default.
    #[arg(long, value_name = "PATH")]
    pub(crate) python: Option<PathBuf>,
    /// Print JSON.
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Doctor {
    /// The Python in which to look for torch and transformers; `python3` by default.
    #[arg(long, value_name = "PATH")]
    pub(crate) python: Option<PathBuf>,
    /// Print JSON.
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Predict {
    /// A known name, a path to a config.json, or a folder that holds one.
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    #[command(flatten)]
    pub(crate) target: Target,
    /// Draw the timeline and the peaks over batch and sequence into this folder.
    #[arg(long, help_heading = "Output", value_name = "DIR")]
    pub(crate) charts: Option<PathBuf>,
    /// Charts as PNG too.
    #[arg(long, help_heading = "Output")]
    pub(crate) png: bool,
    /// Print JSON.
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Fit {
    /// A known name, a path to a config.json, or a folder that holds one.
    pub(crate) model: String,
    /// What is searched; the workload's own value of it does not matter.
    #[arg(long, default_value_t, value_parser = axis())]
    pub(crate) axis: Axis,
    /// The largest batch at every sequence instead.
    #[arg(long, conflicts_with_all = ["axis", "gpus", "instances"])]
    pub(crate) frontier: bool,
    /// How many processes of the job share the card instead, and in inference on PyTorch how many
    /// models one process holds.
    #[arg(long, conflicts_with_all = ["axis", "gpus", "charts"])]
    pub(crate) instances: bool,
    /// A table of every known card instead: whether the job fits, and the largest that does.
    #[arg(
        long,
        value_name = "all",
        value_parser = ["all"],
        conflicts_with_all = ["gpu", "capacity", "charts"]
    )]
    pub(crate) gpus: Option<String>,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    #[command(flatten)]
    pub(crate) target: Target,
    /// Draw the peak over batch and sequence, with what fits, into this folder.
    #[arg(long, help_heading = "Output", value_name = "DIR")]
    pub(crate) charts: Option<PathBuf>,
    /// Charts as PNG too.
    #[arg(long, help_heading = "Output", requires = "charts")]
    pub(crate) png: bool,
    /// Print JSON.
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Advise {
    /// A known name, a path to a config.json, or a folder that holds one.
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    #[command(flatten)]
    pub(crate) target: Target,
    /// Draw the way down from the peak into this folder.
    #[arg(long, help_heading = "Output", value_name = "DIR")]
    pub(crate) charts: Option<PathBuf>,
    /// Charts as PNG too.
    #[arg(long, help_heading = "Output")]
    pub(crate) png: bool,
    /// Print JSON.
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Lengths {
    /// The documents: a text with one a line (blank lines are none), JSON lines or CSV, compressed
    /// where the name ends in `.gz`; `-` is stdin.
    pub(crate) file: PathBuf,
    /// The tokenizer.json that lies beside a model.
    #[arg(long, value_name = "FILE")]
    pub(crate) tokenizer: PathBuf,
    /// How documents lie in the file; as its name ends by default, and `text` for any other end.
    #[arg(long, value_parser = words::<Format>())]
    pub(crate) format: Option<Format>,
    /// The field of JSON lines, or the column of a CSV, that holds the text.
    #[arg(long, value_name = "NAME", default_value = "text")]
    pub(crate) field: String,
    /// Leave broken lines out, instead of failing at the first.
    #[arg(long)]
    pub(crate) skip_broken: bool,
    /// Where documents are cut, in tokens; may be given several times. 64 to 8192 by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_length: Vec<u64>,
    /// Slide a window of so many tokens over long documents, instead of cutting them.
    #[arg(long, value_name = "N", conflicts_with = "max_length")]
    pub(crate) window: Option<u64>,
    /// Tokens that a window shares with the one before.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "window")]
    pub(crate) stride: u64,
    /// What batches need of this model: a known name, a path to a config.json, or a folder that
    /// holds one. The workload's own sequence does not matter.
    #[arg(long)]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    #[command(flatten)]
    pub(crate) target: Target,
    /// Draw the histogram into this folder.
    #[arg(long, help_heading = "Output", value_name = "DIR")]
    pub(crate) charts: Option<PathBuf>,
    /// Charts as PNG too.
    #[arg(long, help_heading = "Output")]
    pub(crate) png: bool,
    /// Print JSON.
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Probe {
    /// A known name, a path to a config.json, or a folder that holds one.
    #[arg(required_unless_present = "suite", conflicts_with = "suite")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    #[command(flatten)]
    pub(crate) target: Target,
    /// Where to run: `cpu`, `cuda`, `cuda:1`, or `auto` for CUDA where this build and machine
    /// have it.
    #[arg(long, default_value = "auto", help_heading = "Run")]
    pub(crate) device: Device,
    /// A Python with torch and transformers: the probe of PyTorch runs in it.
    #[arg(long, help_heading = "Run", value_name = "PATH")]
    pub(crate) python: Option<PathBuf>,
    /// Keep the trace of PyTorch's allocator, and compare it event by event.
    #[arg(long, help_heading = "Run")]
    pub(crate) trace: bool,
    /// Run every workload of a suite (TOML) instead of one.
    #[arg(long, help_heading = "Run", value_name = "FILE")]
    pub(crate) suite: Option<PathBuf>,
    /// The folder for the record and the charts.
    #[arg(
        long,
        help_heading = "Output",
        value_name = "DIR",
        default_value = "vramcast-probe"
    )]
    pub(crate) out: PathBuf,
    /// Charts as PNG too.
    #[arg(long, help_heading = "Output")]
    pub(crate) png: bool,
    /// Print JSON.
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Check {
    /// The workloads, their budgets, their card and the tolerances (TOML).
    #[arg(default_value = "vramcast.toml")]
    pub(crate) file: PathBuf,
    /// Accept the figures as they are now: write the baseline, and say what changed.
    #[arg(long)]
    pub(crate) update: bool,
    /// Make activations look larger by a size, or by a share of the peak: the gate must then fail.
    #[arg(long, value_name = "SIZE|SHARE", conflicts_with = "update")]
    pub(crate) inject: Option<Injection>,
    /// Run each workload and judge what was measured, instead of predictions.
    #[arg(long, help_heading = "Run")]
    pub(crate) probe: bool,
    /// Where to run: `cpu`, `cuda`, `cuda:1`, or `auto` for CUDA where this build and machine
    /// have it.
    #[arg(long, default_value = "auto", help_heading = "Run", requires = "probe")]
    pub(crate) device: Device,
    /// A Python with torch and transformers: probes of PyTorch run in it.
    #[arg(long, help_heading = "Run", value_name = "PATH", requires = "probe")]
    pub(crate) python: Option<PathBuf>,
    /// Print annotations for GitHub Actions after the text.
    #[arg(long, help_heading = "Output", conflicts_with = "json")]
    pub(crate) github: bool,
    /// Write the answer as Markdown, for a pull request or the summary of a job.
    #[arg(long, help_heading = "Output", value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Write the answer as JUnit XML.
    #[arg(long, help_heading = "Output", value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Print JSON.
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Diff {
    /// What was: a prediction as `--json` prints it, a file of records, a baseline, or what
    /// `torch.cuda.memory_stats()` returned.
    #[arg(value_name = "A")]
    pub(crate) before: PathBuf,
    /// What is.
    #[arg(value_name = "B")]
    pub(crate) after: PathBuf,
    /// Draw what changed into this folder.
    #[arg(long, help_heading = "Output", value_name = "DIR")]
    pub(crate) charts: Option<PathBuf>,
    /// Charts as PNG too.
    #[arg(long, help_heading = "Output")]
    pub(crate) png: bool,
    /// Print JSON.
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Accuracy {
    /// Record files (JSON lines).
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Report {
    /// Files of records (JSON lines), or for an HTML page of what `predict --json` prints, too.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// A name that ends in `.html`: one page that needs nothing beside it, of verdicts, ledgers,
    /// charts, advice and how to reproduce them. Any other: the folder for the accuracy page
    /// and its charts, of records of one runtime.
    #[arg(long, value_name = "FILE.html|DIR")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Audit {
    /// Record files (JSON lines).
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The folder for the page and the chart.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

/// What runs. Everything but batch and sequence has a default.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Workload")]
pub(crate) struct WorkloadArgs {
    /// The head.
    #[arg(long, default_value_t, value_parser = words::<Task>())]
    task: Task,
    /// Training or inference.
    #[arg(long, default_value_t, value_parser = words::<Mode>())]
    mode: Mode,
    /// Sequences in a batch.
    #[arg(long, default_value_t = 8)]
    batch: u64,
    /// Tokens in a sequence.
    #[arg(long, default_value_t = 128)]
    seq: u64,
    /// Types of weights and activations.
    #[arg(long, default_value_t, value_parser = words::<Precision>())]
    precision: Precision,
    /// How attention is computed; `sdpa` by default, `eager` on candle.
    #[arg(long, value_parser = words::<Attention>())]
    attention: Option<Attention>,
    /// What updates the parameters; `adamw` by default, `adamw-fused` in the Trainer's loop.
    #[arg(long, value_parser = words::<Optimizer>())]
    optimizer: Option<Optimizer>,
    /// The software that runs it; `torch` by default, `candle` in a probe without --python.
    #[arg(long, value_parser = words::<Runtime>())]
    runtime: Option<Runtime>,
    /// Whose model code: this project's, in which every parameter trains, or candle's stock models.
    #[arg(long, default_value_t, value_parser = words::<Code>())]
    code: Code,
    /// Recompute layers in the backward pass.
    #[arg(long)]
    checkpointing: bool,
    /// Forward and backward passes per optimizer step, 1 to 4096.
    #[arg(long, default_value_t = 1)]
    accumulation: u32,
    /// Drop no elements in training, whatever the model's configuration says.
    #[arg(long)]
    no_dropout: bool,
    /// Free candle's graph before the optimizer's step; PyTorch always does.
    #[arg(long)]
    drop_graph: bool,
    /// The batch has padded rows.
    #[arg(long)]
    padding: bool,
    /// Who calls the model, in training on PyTorch.
    #[arg(long = "loop", default_value_t, value_parser = words::<Loop>())]
    training_loop: Loop,
    /// How the weights come to the device, on PyTorch; the Trainer moves them (`to`).
    #[arg(long, value_parser = words::<Placement>())]
    placement: Option<Placement>,
    /// The rank of LoRA's adapters on queries and values; 0 for none.
    #[arg(long, default_value_t = 0)]
    lora_rank: u64,
    /// The model is compiled by `torch.compile`, on PyTorch.
    #[arg(long)]
    compile: bool,
    /// Models like this one that the process holds and runs in turn, in inference on PyTorch.
    #[arg(long, default_value_t = 1)]
    models: u64,
    /// Options of PyTorch's allocator, as in PYTORCH_CUDA_ALLOC_CONF.
    #[arg(long, default_value = "", value_name = "OPTIONS")]
    allocator_conf: String,
}

impl WorkloadArgs {
    /// The workload, on `default` where no runtime was named.
    pub(crate) fn workload(&self, default: Runtime) -> Workload {
        let runtime = self.runtime.unwrap_or(default);
        let (optimizer, placement) = of_loop(self.training_loop);
        Workload {
            precision: self.precision,
            attention: self.attention.unwrap_or(runtime.attention()),
            optimizer: self.optimizer.unwrap_or(optimizer),
            code: self.code,
            checkpointing: self.checkpointing,
            accumulation: self.accumulation,
            dropout: !self.no_dropout,
            drop_graph: self.drop_graph,
            padding: self.padding,
            training_loop: self.training_loop,
            placement: self.placement.unwrap_or(placement),
            lora_rank: self.lora_rank,
            compile: self.compile,
            models: self.models,
            allocator_conf: self.allocator_conf.clone(),
            ..Workload::new(runtime, self.task, self.mode, self.batch, self.seq)
        }
    }
}

/// The optimizer and the placement where nothing else is asked for: the Trainer's as transformers has
/// it.
pub(crate) fn of_loop(training_loop: Loop) -> (Optimizer, Placement) {
    match training_loop {
        Loop::Plain => (Optimizer::default(), Placement::default()),
        Loop::Trainer => (Optimizer::AdamwFused, Placement::To),
    }
}

/// What it must fit into.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Card")]
pub(crate) struct Target {
    /// A card, as `vramcast gpus` lists them.
    #[arg(long, value_name = "NAME")]
    pub(crate) gpu: Option<String>,
    /// A capacity instead of a card's, such as 16GiB.
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    pub(crate) capacity: Option<Bytes>,
    /// What PyTorch's allocator may reserve, as `torch.cuda.set_per_process_memory_fraction` sets
    /// it; the context comes on top.
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    pub(crate) allocator_limit: Option<Bytes>,
    /// Which PyTorch: 2.11, 2.10, 2.9, or a build such as 2.10.0+cu130.
    #[arg(long, value_name = "VERSION", default_value = "2.11", value_parser = build)]
    pub(crate) torch: &'static Build,
}

impl Target {
    /// What is asked of a job, with what was measured here of the card.
    ///
    /// # Errors
    /// A card that is not known, a calibration that cannot be read.
    pub(crate) fn question<'a>(
        &self,
        model: &'a str,
        config: &'a ModelConfig,
        workload: &'a Workload,
    ) -> anyhow::Result<Question<'a>> {
        let calibration = calibration::of(self.card()?, workload.runtime, self.torch)?;
        Ok(Question {
            calibration,
            ..self.question_anywhere(model, config, workload)?
        })
    }

    /// What is asked of a job, the same on every machine.
    ///
    /// # Errors
    /// A card that is not known.
    pub(crate) fn question_anywhere<'a>(
        &self,
        model: &'a str,
        config: &'a ModelConfig,
        workload: &'a Workload,
    ) -> anyhow::Result<Question<'a>> {
        Ok(Question {
            gpu: self.card()?,
            capacity: self.capacity,
            allocator_limit: self.allocator_limit,
            build: self.torch,
            ..Question::new(model, config, workload)
        })
    }

    /// Whether something must be fit into.
    pub(crate) fn limits(&self) -> bool {
        self.gpu.is_some() || self.capacity.is_some() || self.allocator_limit.is_some()
    }

    /// The card that was named.
    ///
    /// # Errors
    /// A card that is not known.
    pub(crate) fn card(&self) -> anyhow::Result<Option<&'static Gpu>> {
        self.gpu.as_deref().map(model::card).transpose()
    }
}

fn build(version: &str) -> Result<&'static Build, String> {
    Build::find(version).ok_or_else(|| format!("known: {}", Build::known()))
}

/// Where a probe runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    Auto,
    Cpu,
    Cuda(usize),
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("cuda:")) {
            ("auto", _) => Ok(Self::Auto),
            ("cpu", _) => Ok(Self::Cpu),
            ("cuda", _) => Ok(Self::Cuda(0)),
            (_, Some(ordinal)) => ordinal
                .parse()
                .map(Self::Cuda)
                .map_err(|_| format!("`{ordinal}` is no number")),
            _ => Err("known: auto, cpu, cuda, cuda:N".to_owned()),
        }
    }
}

/// What `--axis` names: the sizes of a job.
fn axis() -> impl TypedValueParser<Value = Axis> {
    PossibleValuesParser::new([Axis::Batch, Axis::Seq].map(<&str>::from))
        .try_map(|word| word.parse::<Axis>())
}

/// The words of an enum, listed in the help and in the error for any other.
fn words<T>() -> impl TypedValueParser<Value = T>
where
    T: VariantNames + FromStr<Err = strum::ParseError> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(T::VARIANTS).try_map(|word| word.parse::<T>())
}
