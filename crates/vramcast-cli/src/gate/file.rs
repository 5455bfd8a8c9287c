//! `vramcast.toml`: the workloads that a gate watches, their budgets, the card that they must fit and
//! the tolerances. Paths in it are relative to the file.

use super::problem::{Problem, line_at};
use super::table::{File, Levels, Table};
use crate::args::of_loop;
use crate::model;
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use vramcast::bytes::Bytes;
use vramcast::config::{ModelConfig, quoted};
use vramcast::figures::Figure;
use vramcast::gate::{Tolerance, Tolerances};
use vramcast::gpu::Gpu;
use vramcast::shadow::torch::{BUILDS, Build};
use vramcast::workload::Workload;

/// Where the baseline is if the file does not say.
const BASELINE: &str = "vramcast-baseline.json";

/// What the gate watches.
#[derive(Debug)]
pub(crate) struct GateFile {
    pub(crate) path: PathBuf,
    pub(crate) baseline: PathBuf,
    pub(crate) jobs: Vec<Job>,
}

/// One workload.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) name: String,
    /// What runs; absent for figures of a program that is not described.
    pub(crate) run: Option<Run>,
    /// Figures that another program measured.
    pub(crate) measured: Option<Measured>,
    pub(crate) gpu: Option<&'static Gpu>,
    pub(crate) budget: BTreeMap<Figure, Bytes>,
    pub(crate) tolerances: Tolerances,
    /// Where each key is in the file; `name` always is.
    lines: BTreeMap<String, usize>,
}

/// A job that can be predicted.
#[derive(Debug)]
pub(crate) struct Run {
    /// As the file names it.
    pub(crate) model: String,
    /// A name, or a path that exists.
    pub(crate) found: String,
    pub(crate) workload: Workload,
    pub(crate) allocator_limit: Option<Bytes>,
    pub(crate) build: &'static Build,
}

/// A file of figures.
#[derive(Debug)]
pub(crate) struct Measured {
    /// As the file names it.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

impl Job {
    /// The line of a key; of the workload's name where the key is absent.
    pub(crate) fn line(&self, key: &str) -> usize {
        let line = self.lines.get(key).or_else(|| self.lines.get("name"));
        line.copied().unwrap_or(1)
    }
}

impl Run {
    /// The model's configuration.
    pub(crate) fn config(&self) -> Result<ModelConfig> {
        model::model(&self.found)
    }
}

/// Keys that say nothing of what runs.
const NOT_OF_A_RUN: [&str; 5] = ["name", "measured", "gpu", "budget", "tolerance"];

/// Reads the file of a gate.
///
/// # Errors
/// The line, and what is wrong there.
pub(crate) fn read(path: &Path) -> Result<GateFile, Problem> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Problem::new(path, 1, format!("cannot be read: {error}")))?;
    let of_toml = |error: toml::de::Error| Problem::of_toml(path, &text, &error);
    let file: File = toml::from_str(&text).map_err(of_toml)?;
    let lines = lines(&text).map_err(of_toml)?;
    let reader = Reader {
        path,
        text: &text,
        folder: path.parent().unwrap_or(Path::new("")),
        gpu: file.gpu.as_ref(),
        torch: file.torch.as_ref(),
        tolerance: file.tolerance.as_ref(),
    };
    let mut jobs: Vec<Job> = Vec::new();
    for (table, lines) in file.workload.into_iter().zip(lines) {
        let job = reader.job(table, lines)?;
        if let Some(other) = jobs.iter().find(|other| other.name == job.name) {
            let text = format!(
                "another workload has the name `{}`, in line {}",
                quoted(&job.name),
                other.line("name")
            );
            return Err(Problem::new(path, job.line("name"), text));
        }
        jobs.push(job);
    }
    if jobs.is_empty() {
        return Err(Problem::new(
            path,
            1,
            "the suite is empty; add a [[workload]]",
        ));
    }
    Ok(GateFile {
        path: path.to_owned(),
        baseline: reader.folder.join(file.baseline.unwrap_or(BASELINE.into())),
        jobs,
    })
}

/// The line of each key of each workload.
fn lines(text: &str) -> Result<Vec<BTreeMap<String, usize>>, toml::de::Error> {
    let document = DeTable::parse(text)?;
    let Some(DeValue::Array(tables)) = document.get_ref().get("workload").map(Spanned::get_ref)
    else {
        return Ok(Vec::new());
    };
    let of = |table: &Spanned<DeValue<'_>>| {
        let keys = table.get_ref().as_table().into_iter().flatten();
        keys.map(|(key, _)| (key.get_ref().to_string(), line_at(text, key.span().start)))
            .collect()
    };
    Ok(tables.iter().map(of).collect())
}

/// What all workloads of a file share.
struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    folder: &'a Path,
    gpu: Option<&'a Spanned<String>>,
    torch: Option<&'a Spanned<String>>,
    tolerance: Option<&'a Spanned<Levels>>,
}

impl Reader<'_> {
    fn job(&self, table: Table, lines: BTreeMap<String, usize>) -> Result<Job, Problem> {
        let line = |key: &str| lines.get(key).or(lines.get("name")).copied().unwrap_or(1);
        let problem = |key: &str, text: String| Problem::new(self.path, line(key), text);
        let name = table.name.get_ref().clone();
        if name.trim().is_empty() || name.chars().any(char::is_control) {
            return Err(problem("name", "a name must be a line of text".to_owned()));
        }
        let gpu = match table.gpu.as_ref().or(self.gpu) {
            None => None,
            Some(gpu) => {
                Some(model::card(gpu.get_ref()).map_err(|error| self.at(gpu, error.to_string()))?)
            }
        };
        let mut tolerances = Tolerances::default();
        for levels in [self.tolerance, table.tolerance.as_ref()]
            .into_iter()
            .flatten()
        {
            self.tolerate(&mut tolerances, levels)?;
        }
        let run = match (&table.model, &table.measured) {
            (Some(model), _) => Some(self.run(&table, model, &problem)?),
            (None, None) => {
                let text = "a workload needs a `model`, or a file of figures as `measured`";
                return Err(problem("name", text.to_owned()));
            }
            (None, Some(_)) => {
                let stray = lines
                    .keys()
                    .find(|key| !NOT_OF_A_RUN.contains(&key.as_str()));
                if let Some(key) = stray {
                    return Err(problem(
                        key,
                        format!("`{key}` says nothing without a `model`"),
                    ));
                }
                None
            }
        };
        Ok(Job {
            name,
            run,
            measured: table.measured.map(|name| Measured {
                path: self.folder.join(&name),
                name,
            }),
            gpu,
            budget: table.budget.0,
            tolerances,
            lines,
        })
    }

    fn run(
        &self,
        table: &Table,
        model: &str,
        problem: &impl Fn(&str, String) -> Problem,
    ) -> Result<Run, Problem> {
        let needed = |key: &str, value: Option<u64>| {
            value.ok_or_else(|| problem(key, format!("a workload with a model needs a `{key}`")))
        };
        let shapes = (needed("batch", table.batch)?, needed("seq", table.seq)?);
        let build = match table.torch.as_ref().or(self.torch) {
            None => &BUILDS[0],
            Some(version) => Build::find(version.get_ref()).ok_or_else(|| {
                let asked = quoted(version.get_ref());
                let text = format!("torch {asked} is not known; known: {}", Build::known());
                self.at(version, text)
            })?,
        };
        let (optimizer, placement) = of_loop(table.training_loop);
        let plain = Workload::new(table.runtime, table.task, table.mode, shapes.0, shapes.1);
        let workload = Workload {
            precision: table.precision,
            attention: table.attention.unwrap_or(plain.attention),
            optimizer: table.optimizer.unwrap_or(optimizer),
            code: table.code,
            checkpointing: table.checkpointing,
            accumulation: table.accumulation.unwrap_or(plain.accumulation),
            dropout: table.dropout.unwrap_or(plain.dropout),
            drop_graph: table.drop_graph,
            padding: table.padding,
            training_loop: table.training_loop,
            placement: table.placement.unwrap_or(placement),
            lora_rank: table.lora_rank,
            compile: table.compile,
            models: table.models.unwrap_or(plain.models),
            allocator_conf: table.allocator_conf.clone(),
            ..plain
        };
        let here = self.folder.join(model);
        let found = match here.is_file() || here.join("config.json").exists() {
            true => here.display().to_string(),
            false => model.to_owned(),
        };
        Ok(Run {
            model: model.to_owned(),
            found,
            workload,
            allocator_limit: table.allocator_limit.map(|size| size.0),
            build,
        })
    }

    /// Puts tolerances that are given in the place of those that were there.
    fn tolerate(&self, all: &mut Tolerances, levels: &Spanned<Levels>) -> Result<(), Problem> {
        let given = levels.get_ref();
        let pairs = [
            (&mut all.allocator, given.allocator),
            (&mut all.nvml, given.nvml),
        ];
        for (tolerance, level) in pairs {
            let Some(level) = level else { continue };
            let fail = level.fail.unwrap_or(tolerance.fail);
            if let Some(warn) = level.warn.filter(|warn| *warn > fail) {
                let text = format!("a growth of {fail} fails before the warning at {warn}");
                return Err(self.at(levels, text));
            }
            *tolerance = Tolerance {
                warn: level.warn.unwrap_or(tolerance.warn.min(fail)),
                fail,
            };
        }
        Ok(())
    }

    fn at<T>(&self, value: &Spanned<T>, text: String) -> Problem {
        Problem::new(self.path, line_at(self.text, value.span().start), text)
    }
}
