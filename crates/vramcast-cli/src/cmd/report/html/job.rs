//! One job of the page: a record or a prediction of the files, and what is said of it today.

use crate::cmd::accuracy;
use crate::command_line::Asked;
use crate::model;
use anyhow::{Context, Result};
use vramcast::accuracy::{Compared, Figure, compare};
use vramcast::bytes::Bytes;
use vramcast::config::ModelConfig;
use vramcast::gpu;
use vramcast::predict::{Prediction, Question, Verdict, predict};
use vramcast::record::{Record, RunOutcome};
use vramcast::shadow::torch::{BUILDS, Build};
use vramcast::workload::{Runtime, Workload};

/// Where a job comes from.
pub(super) enum Source {
    Run(Box<Record>),
    Prediction(Box<Prediction>),
}

/// A job, with its prediction: that of the file, or for a record today's.
pub(super) struct Job {
    source: Source,
    config: Result<ModelConfig, String>,
    prediction: Result<Prediction, String>,
}

impl Job {
    pub(super) fn new(source: Source) -> Self {
        let name = match &source {
            Source::Run(record) => &record.model,
            Source::Prediction(prediction) => &prediction.model,
        };
        let config = model::model(name).map_err(reason);
        let prediction = match &source {
            Source::Prediction(prediction) => Ok((**prediction).clone()),
            Source::Run(record) => config.clone().and_then(|config| {
                let question = accuracy::question(record, &config).map_err(reason)?;
                predict(&question).map_err(|error| error.to_string())
            }),
        };
        Self {
            source,
            config,
            prediction,
        }
    }

    pub(super) fn model(&self) -> &str {
        match &self.source {
            Source::Run(record) => &record.model,
            Source::Prediction(prediction) => &prediction.model,
        }
    }

    pub(super) fn workload(&self) -> &Workload {
        match &self.source {
            Source::Run(record) => &record.workload,
            Source::Prediction(prediction) => &prediction.workload,
        }
    }

    pub(super) fn record(&self) -> Option<&Record> {
        match &self.source {
            Source::Run(record) => Some(record),
            Source::Prediction(_) => None,
        }
    }

    /// The prediction, or why there is none.
    pub(super) fn prediction(&self) -> Result<&Prediction, &str> {
        self.prediction.as_ref().map_err(String::as_str)
    }

    pub(super) fn verdict(&self) -> Option<Verdict> {
        self.prediction().ok().map(|p| p.verdict)
    }

    /// The model, which is needed to predict it again.
    pub(super) fn config(&self) -> Result<&ModelConfig, &str> {
        self.config.as_ref().map_err(String::as_str)
    }

    /// What asks for it again.
    ///
    /// # Errors
    /// A card or a PyTorch that is not known.
    pub(super) fn question<'a>(&'a self, config: &'a ModelConfig) -> Result<Question<'a>> {
        let p = match &self.source {
            Source::Run(record) => return accuracy::question(record, config),
            Source::Prediction(p) => p,
        };
        let build = match p.workload.runtime {
            Runtime::Candle => &BUILDS[0],
            Runtime::Torch => Build::find(&p.runtime_version)
                .with_context(|| format!("PyTorch {} is not known", p.runtime_version))?,
        };
        Ok(Question {
            gpu: p.gpu.as_deref().map(model::card).transpose()?,
            capacity: own_capacity(p),
            allocator_limit: p.allocator_limit,
            build,
            ..Question::new(&p.model, config, &p.workload)
        })
    }

    /// What a command line says of it.
    pub(super) fn asked(&self) -> Asked<'_> {
        let torch = self.workload().runtime == Runtime::Torch;
        let (gpu, capacity, allocator_limit, version) = match &self.source {
            Source::Run(r) => {
                let card = r.gpu.as_deref().and_then(gpu::find);
                (
                    card.map(|card| card.name),
                    None,
                    r.cap_bytes,
                    &r.runtime_version,
                )
            }
            Source::Prediction(p) => (
                p.gpu.as_deref(),
                own_capacity(p),
                p.allocator_limit,
                &p.runtime_version,
            ),
        };
        Asked {
            model: self.model(),
            workload: self.workload(),
            gpu,
            capacity,
            allocator_limit,
            torch: torch.then_some(version),
        }
    }

    /// Where it runs, or should.
    pub(super) fn place(&self) -> String {
        let (place, limit) = match &self.source {
            Source::Run(r) => (Some(r.gpu.clone().unwrap_or(r.device.clone())), r.cap_bytes),
            Source::Prediction(p) => {
                let given = own_capacity(p).map(|capacity| format!("a card of {capacity}"));
                (given.or(p.gpu.clone()), p.allocator_limit)
            }
        };
        let limit = limit.map(|limit| format!("an allocator limited to {limit}"));
        let words: Vec<String> = place.into_iter().chain(limit).collect();
        words.join(", ")
    }

    /// Whether it runs, or ran, on a card.
    pub(super) fn on_device(&self) -> bool {
        self.record().is_none_or(|record| record.device != "cpu")
    }

    /// A record beside its prediction.
    pub(super) fn compared(&self) -> Option<Compared> {
        let record = self.record()?;
        Some(compare(record, self.prediction().ok()?))
    }

    /// Whether it does not fit for certain, or was run and did not end well.
    pub(super) fn wants_a_look(&self) -> bool {
        let verdict = matches!(self.verdict(), Some(Verdict::Tight | Verdict::Oom));
        verdict || self.record().is_some_and(|_| !self.ran())
    }

    /// Whether it was measured and ended well.
    pub(super) fn ran(&self) -> bool {
        self.record().is_some_and(|r| r.outcome == RunOutcome::Ok)
    }
}

/// What was measured of a row that is furthest from the allocator: NVML's figure, or what else there
/// is of it.
pub(super) fn figure(row: &Compared) -> Option<(&'static str, Figure)> {
    let figures = [
        ("nvml", row.nvml),
        ("reserved", row.reserved),
        ("allocated", row.allocated),
        ("requested", row.requested),
    ];
    // What candle allocates is what it requests.
    let candle = row.workload.runtime == Runtime::Candle;
    let mut figures = figures
        .into_iter()
        .filter(|(name, _)| !(candle && *name == "allocated"));
    figures.find_map(|(name, figure)| Some((name, figure?)))
}

/// A capacity that was given instead of the card's.
fn own_capacity(p: &Prediction) -> Option<Bytes> {
    let card = p.gpu.as_deref().and_then(gpu::find);
    let of_card = card.map(|card| Bytes(card.capacity().0));
    p.capacity.filter(|&capacity| Some(capacity) != of_card)
}

fn reason(error: anyhow::Error) -> String {
    format!("{error:#}")
}
