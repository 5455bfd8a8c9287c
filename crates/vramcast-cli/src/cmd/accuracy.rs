//! `vramcast accuracy`.

use crate::args::Accuracy as AccuracyArgs;
use crate::records::Line;
use crate::{Exit, model, output, records};
use anyhow::{Context, Result, anyhow, bail};
use indicatif::ProgressBar;
use std::collections::BTreeMap;
use std::path::PathBuf;
use vramcast::accuracy::{
    Accuracy, Compared, SearchedBatch, SearchedNeed, Unpredicted, compare, compare_batch,
    compare_need, measures, summarize,
};
use vramcast::bytes::{Bytes, grouped};
use vramcast::config::ModelConfig;
use vramcast::fit::{Axis, fit};
use vramcast::gpu;
use vramcast::predict::{Question, predict};
use vramcast::record::{BatchSearch, NeedSearch, Record};
use vramcast::shadow::candle::Flavour;
use vramcast::shadow::torch::{BUILDS, Build, Card, Process};
use vramcast::workload::{Runtime, Workload};

pub(crate) fn run(args: &AccuracyArgs) -> Result<Exit> {
    let accuracy = of_files(&args.files)?;
    if args.json {
        output::print_json(&accuracy)?;
    } else {
        output::print(&text(&accuracy))?;
    }
    Ok(Exit::Fine)
}

/// Every record of some files beside its prediction.
pub(crate) fn of_files(files: &[PathBuf]) -> Result<Accuracy> {
    let progress = output::spinner("predicting".to_owned());
    let mut predicted = Predicted::default();
    for file in files {
        for line in records::read(file)? {
            predicted.add(line, &progress);
        }
    }
    progress.finish_and_clear();
    let Predicted {
        rows,
        batches,
        needs,
        unpredicted,
    } = predicted;
    let accuracy = summarize(rows, batches, needs, unpredicted);
    if accuracy.is_empty() {
        bail!("no records in {}", names(files));
    }
    check_ids(&accuracy.rows, files)?;
    Ok(accuracy)
}

/// Refuses a record that would count twice.
pub(crate) fn check_ids(rows: &[Compared], files: &[PathBuf]) -> Result<()> {
    let mut ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    ids.sort_unstable();
    match ids.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => bail!("record {} is there twice in {}", twice[0], names(files)),
        None => Ok(()),
    }
}

/// What has been compared so far.
#[derive(Default)]
struct Predicted {
    rows: Vec<Compared>,
    batches: Vec<SearchedBatch>,
    needs: Vec<SearchedNeed>,
    unpredicted: Vec<Unpredicted>,
}

impl Predicted {
    /// Compares a record with its prediction; where there is none, the reason takes its place.
    fn add(&mut self, line: Line, progress: &ProgressBar) {
        let (id, compared) = match line {
            Line::Unknown { id, reason } => (id, Err(anyhow!(reason))),
            Line::Prediction(p) => (p.model, Err(anyhow!("a prediction measured nothing"))),
            Line::Epochs(epochs) => (epochs.id, Err(anyhow!("an emptied cache is not predicted"))),
            Line::Sharing(group) => (group.id, Err(anyhow!("one process is predicted at a time"))),
            Line::Run(record) => {
                progress.set_message(format!("predicting {} {}", record.model, record.id));
                let row = run_of(&record);
                (record.id.clone(), row.map(|row| self.rows.push(row)))
            }
            Line::BatchSearch(search) => {
                progress.set_message(format!("searching {} {}", search.model, search.id));
                let row = batch_of(&search);
                (search.id.clone(), row.map(|row| self.batches.push(row)))
            }
            Line::NeedSearch(search) => {
                let row = need_of(&search);
                (search.id.clone(), row.map(|row| self.needs.push(row)))
            }
        };
        if let Err(error) = compared {
            self.unpredicted.push(Unpredicted {
                id,
                reason: format!("{error:#}"),
            });
        }
    }
}

fn run_of(record: &Record) -> Result<Compared> {
    let config = model::model(&record.model)?;
    Ok(compare(record, &predict(&question(record, &config)?)?))
}

pub(crate) fn batch_of(search: &BatchSearch) -> Result<SearchedBatch> {
    let config = model::model(&search.model)?;
    let question = Question {
        allocator_limit: Some(search.cap_bytes),
        ..after_another(&search.model, &config, &search.workload)
    };
    Ok(compare_batch(search, &fit(&question, Axis::Batch)?))
}

pub(crate) fn need_of(search: &NeedSearch) -> Result<SearchedNeed> {
    let config = model::model(&search.model)?;
    let prediction = predict(&after_another(&search.model, &config, &search.workload))?;
    compare_need(search, &prediction).context("no need was predicted")
}

/// A search runs many times in one process, and does not say what that held.
fn after_another<'a>(
    model: &'a str,
    config: &'a ModelConfig,
    workload: &'a Workload,
) -> Question<'a> {
    Question {
        process: Process::Used {
            checkpointed: workload.checkpointing,
        },
        ..Question::new(model, config, workload)
    }
}

pub(crate) fn names(files: &[PathBuf]) -> String {
    files
        .iter()
        .map(|file| file.display().to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

/// What a record answers.
///
/// # Errors
/// A record that says that its process held what no known process holds.
pub(crate) fn question<'a>(record: &'a Record, config: &'a ModelConfig) -> Result<Question<'a>> {
    let held = record.measured.base_allocated.unwrap_or(Bytes(0));
    let process = Process::holding(held.0, Card::H200).with_context(|| {
        format!("the process held {held} before the run (`base_allocated`), which is not explained")
    })?;
    let build = match record.workload.runtime {
        Runtime::Candle => &BUILDS[0],
        Runtime::Torch => Build::find(&record.runtime_version)
            .with_context(|| format!("PyTorch {} is not known", record.runtime_version))?,
    };
    Ok(Question {
        build,
        cudnn_last: record.cudnn_last,
        flavour: if record.device == "cpu" {
            Flavour::Cpu
        } else {
            Flavour::Cuda
        },
        gpu: record.gpu.as_deref().and_then(gpu::find),
        allocator_limit: record.cap_bytes,
        process,
        ..Question::new(&record.model, config, &record.workload)
    })
}

fn text(accuracy: &Accuracy) -> String {
    let mut rows = Vec::new();
    for group in &accuracy.summary.groups {
        for measure in measures(group.runtime) {
            let name = format!(
                "{} {} {} {}",
                group.runtime, group.mode, group.precision, measure.name
            );
            rows.extend((measure.over)(group).map(|s| output::spread(name, s)));
        }
    }
    let header = [
        "",
        "exact",
        "near",
        "median",
        "p95",
        "worst",
        "signed median",
    ];
    let v = accuracy.summary.verdicts;
    let mut text = format!(
        "{} records predicted, {} not\n\n{}\n\n\
         verdicts: fits {} ran, {} oom; tight {}; oom {} oom, {} ran\n",
        accuracy.rows.len(),
        accuracy.summary.unpredicted.len(),
        output::table(&header, 1.., rows),
        v.fits_ran,
        v.fits_oom,
        v.tight,
        v.oom_oom,
        v.oom_ran
    );
    for row in &accuracy.batches {
        text += &format!("largest batch: {} {}\n", row.id, batch(row));
    }
    for row in &accuracy.needs {
        text += &format!("need: {} {}\n", row.id, need(row));
    }
    for (reason, ids) in by_reason(accuracy) {
        text += &format!("not predicted, {reason}: {}\n", ids.join(", "));
    }
    text
}

/// Records without a prediction, by reason.
pub(crate) fn by_reason(accuracy: &Accuracy) -> BTreeMap<&str, Vec<&str>> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in &accuracy.summary.unpredicted {
        reasons.entry(&row.reason).or_default().push(&row.id);
    }
    reasons
}

/// A searched batch in one line.
pub(crate) fn batch(row: &SearchedBatch) -> String {
    let found = if row.measured == row.predicted {
        "exact".to_owned()
    } else {
        format!("{} predicted", row.predicted)
    };
    let band = match (row.certain, row.possible) {
        (certain, possible) if certain == possible => String::new(),
        (certain, possible) => format!(", {certain} to {possible} declared"),
    };
    format!("{} ran, {found}{band}", row.measured)
}

/// A searched need in one line.
pub(crate) fn need(row: &SearchedNeed) -> String {
    format!(
        "ran with {} B, not with {} B; {} B predicted",
        grouped(row.need.measured.0.into()),
        grouped(row.fails_at.0.into()),
        grouped(row.need.predicted.0.into())
    )
}
