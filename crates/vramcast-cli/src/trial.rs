//! A job run for real: where it runs, what is expected of it, and what came.

use crate::args::{Device, Target};
use crate::child::{self, Ended};
use crate::suite::Entry;
use crate::{calibration, model, nvml, output, python, records};
use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::Path;
use std::time::SystemTime;
use vramcast::bytes::Bytes;
use vramcast::config::{ModelConfig, quoted};
use vramcast::context::Loaded;
use vramcast::gpu::{self, Gpu};
use vramcast::predict::{Prediction, Question, predict_with_timeline, steps};
use vramcast::record::{Record, RunOutcome, SCHEMA};
use vramcast::shadow::MOST_PASSES;
use vramcast::shadow::candle::Flavour;
use vramcast::shadow::torch;
use vramcast::timeline::Timeline;
use vramcast::workload::Runtime;
use vramcast_candle::HAS_CUDA;

/// How jobs are run.
pub(crate) struct Trials<'a> {
    target: &'a Target,
    device: Device,
    python: Option<&'a Path>,
    /// Where traces of PyTorch's allocator are kept, if they are.
    traces: Option<&'a Path>,
    /// Whether what was measured of the card before is used.
    calibrated: bool,
    /// What is known of each runtime's place; warnings about it are said once.
    places: Vec<(Runtime, Place)>,
}

/// A job that makes sense, with its prediction: what is left is to run it.
pub(crate) struct Trial {
    place: Place,
    pub(crate) entry: Entry,
    config: ModelConfig,
    pub(crate) prediction: Prediction,
    pub(crate) timeline: Timeline,
    /// What its process will have loaded.
    pub(crate) loaded: Loaded,
}

/// A record, and how the allocator's trace compares with the prediction if one was asked for.
pub(crate) struct Probed {
    pub(crate) record: Record,
    pub(crate) trace: Option<String>,
}

/// Where the probes of one runtime happen.
#[derive(Clone)]
struct Place {
    cuda: Option<usize>,
    card: Option<nvml::Card>,
    known: Option<&'static Gpu>,
}

impl Place {
    fn name(&self) -> String {
        self.cuda
            .map_or_else(|| "cpu".to_owned(), |ordinal| format!("cuda:{ordinal}"))
    }
}

impl Trial {
    /// The device it runs on: `cpu` or `cuda:0`.
    pub(crate) fn device(&self) -> String {
        self.place.name()
    }
}

impl<'a> Trials<'a> {
    /// Jobs on a device, PyTorch's in `python`; `traces` is the folder for those of its allocator,
    /// which are taken only where it is given.
    pub(crate) fn new(
        target: &'a Target,
        device: Device,
        python: Option<&'a Path>,
        traces: Option<&'a Path>,
    ) -> Self {
        Self {
            target,
            device,
            python,
            traces,
            calibrated: false,
            places: Vec::new(),
        }
    }

    /// The same jobs, predicted with what was measured of the card before.
    pub(crate) fn calibrated(self) -> Self {
        Self {
            calibrated: true,
            ..self
        }
    }

    /// Predicts a job on the device where it will run.
    ///
    /// # Errors
    /// A device that is not there, a model that is not known, a job that is not predicted.
    pub(crate) fn plan(&mut self, entry: Entry) -> Result<Trial> {
        let place = self.place(entry.workload.runtime)?;
        let config = model::model(&entry.model)?;
        let calibration = match (self.calibrated, place.cuda) {
            (true, Some(_)) => {
                calibration::of(place.known, entry.workload.runtime, self.target.torch)?
            }
            _ => None,
        };
        let question = Question {
            flavour: if place.cuda.is_some() {
                Flavour::Cuda
            } else {
                Flavour::Cpu
            },
            gpu: place.known,
            calibration,
            allocator_limit: self.limit(&entry),
            ..self
                .target
                .question_anywhere(&entry.model, &config, &entry.workload)?
        };
        let loaded = question.loaded();
        let answer = predict_with_timeline(&question);
        let (prediction, timeline) = answer.with_context(|| quoted(&entry.model))?;
        Ok(Trial {
            loaded,
            place,
            entry,
            config,
            prediction,
            timeline,
        })
    }

    /// What the allocator may reserve: a suite's own limit stands instead of the command line's.
    fn limit(&self, entry: &Entry) -> Option<Bytes> {
        entry.allocator_limit.or(self.target.allocator_limit)
    }

    fn place(&mut self, runtime: Runtime) -> Result<Place> {
        if let Some((_, place)) = self.places.iter().find(|(of, _)| *of == runtime) {
            return Ok(place.clone());
        }
        let place = place(self.device, runtime, self.target.card()?)?;
        self.places.push((runtime, place.clone()));
        Ok(place)
    }

    /// Runs a job in a process of its own.
    ///
    /// # Errors
    /// A child that cannot be started. What goes wrong in it is an outcome.
    pub(crate) fn measure(&self, trial: &Trial) -> Result<Probed> {
        let workload = &trial.entry.workload;
        let steps = steps(workload.runtime, workload.mode);
        match workload.runtime {
            Runtime::Candle => {
                let job = vramcast_candle::Job {
                    config: trial.config.clone(),
                    workload: workload.clone(),
                    cuda: trial.place.cuda,
                    steps,
                };
                let ended = child::candle::measure(&job, trial.place.card.as_ref())?;
                let version = vramcast::candle::VERSION.to_owned();
                Ok(Probed {
                    record: record(trial, ended, version),
                    trace: None,
                })
            }
            Runtime::Torch => {
                let python = python::named(self.python);
                let job = child::torch::Job {
                    config: trial.config.with_dropout(workload.dropout).to_json(),
                    workload: workload.clone(),
                    steps,
                    cap_bytes: self.limit(&trial.entry),
                    device: trial.place.cuda.unwrap_or_default(),
                    trace: self.traces.is_some(),
                    python,
                };
                let run = child::torch::measure(&job, trial.place.card.as_ref())?;
                let version = run.runtime_version.unwrap_or_default();
                let predicted = &trial.prediction.runtime_version;
                if !version.is_empty() && version != *predicted {
                    output::remark(&format!(
                        "warning: this Python has torch {}; the prediction is for {predicted}, see --torch",
                        quoted(&version)
                    ));
                }
                if let Some(n) = run.ended.measured.n_params
                    && n != trial.prediction.n_params
                {
                    output::remark(&format!(
                        "warning: the model that ran has {n} parameters, not {}",
                        trial.prediction.n_params
                    ));
                }
                let record = Record {
                    transformers_version: run.transformers_version,
                    cap_bytes: job.cap_bytes,
                    cudnn_last: run.cudnn_last,
                    ..record(trial, run.ended, version)
                };
                let trace = match run.events.zip(self.traces) {
                    Some((events, folder)) if record.outcome == RunOutcome::Ok => {
                        Some(compare_trace(folder, trial, &record, &events)?)
                    }
                    _ => None,
                };
                Ok(Probed { record, trace })
            }
        }
    }
}

/// Keeps the trace beside the record and says where it first differs from the prediction.
fn compare_trace(
    folder: &Path,
    trial: &Trial,
    record: &Record,
    events: &[child::torch::Event],
) -> Result<String> {
    let mut line = serde_json::to_value(record)?;
    line["events"] = serde_json::to_value(events)?;
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    serde_json::to_writer(&mut packed, &line)?;
    packed.write_all(b"\n")?;
    let file = folder.join(format!("trace-{}.jsonl.gz", record.id));
    records::write_file(&file, &packed.finish()?)?;
    let seen = child::torch::seen(events);
    let passes = record.workload.accumulation;
    let said = if passes > MOST_PASSES {
        format!(
            "the trace is not compared: a prediction follows {} of {passes} passes a step",
            MOST_PASSES
        )
    } else {
        match torch::difference(&trial.timeline, &record.workload, &seen) {
            None => format!("all {} allocations and frees are as predicted", seen.len()),
            Some(difference) => format!("the trace differs: {difference}"),
        }
    };
    Ok(format!("{said} ({})", file.display()))
}

fn place(device: Device, runtime: Runtime, asked: Option<&'static Gpu>) -> Result<Place> {
    let cuda = match (runtime, device) {
        (Runtime::Candle, Device::Cpu) => None,
        (Runtime::Candle, Device::Auto) => (HAS_CUDA && nvml::card(0).is_ok()).then_some(0),
        (Runtime::Candle, Device::Cuda(_)) if !HAS_CUDA => {
            bail!("this build has no CUDA: build with `--features cuda`, or use --device cpu")
        }
        (Runtime::Torch, Device::Cpu) => {
            bail!("PyTorch is probed on CUDA alone; `--runtime candle` runs on the CPU, too")
        }
        (Runtime::Torch, Device::Auto) => Some(0),
        (_, Device::Cuda(ordinal)) => Some(ordinal),
    };
    let card = match (runtime, cuda.map(nvml::card).transpose()) {
        // Whether there is a card is Python's to say, and it reads NVML itself.
        (Runtime::Torch, Err(error)) => {
            output::remark(&format!("warning: {error}; its figures may be missing"));
            None
        }
        (_, card) => card?,
    };
    if let Some(card) = &card {
        if card.mig {
            output::remark(
                "warning: the card is cut into instances (MIG); NVML shows the whole card",
            );
        }
        if !card.tenants.is_empty() {
            output::remark(&format!(
                "warning: {} other process(es) on the card hold {}; NVML's figures include what they \
                 do meanwhile",
                card.tenants.len(),
                card.used
            ));
        }
    }
    let known = asked.or_else(|| card.as_ref().and_then(|card| gpu::find(&card.name)));
    Ok(Place { cuda, card, known })
}

fn record(trial: &Trial, ended: Ended, runtime_version: String) -> Record {
    let card = trial.place.card.as_ref();
    let mut record = Record {
        schema: SCHEMA,
        id: String::new(),
        model: trial.entry.model.clone(),
        workload: trial.entry.workload.clone(),
        runtime_version,
        transformers_version: None,
        device: trial.device(),
        gpu: card.map(|card| card.name.clone()),
        capacity: card.map(|card| card.total),
        cap_bytes: None,
        cudnn_last: false,
        driver: card.map(|card| card.driver.clone()),
        outcome: ended.outcome,
        error: ended.error,
        measured: ended.measured,
    };
    record.id = id(&record);
    record
}

/// Twelve hexadecimal digits that no other record has: of what ran, and when.
fn id(record: &Record) -> String {
    let mut hasher = DefaultHasher::new();
    (&record.model, &record.workload, &record.device, &record.gpu).hash(&mut hasher);
    (SystemTime::now(), std::process::id()).hash(&mut hasher);
    format!("{:012x}", hasher.finish() >> 16)
}
