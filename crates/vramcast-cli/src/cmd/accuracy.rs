//! `vramcast accuracy`.

use crate::args::Accuracy as AccuracyArgs;
use crate::{Exit, model, output, records};
use anyhow::{Result, bail};
use std::path::PathBuf;
use vramcast::accuracy::{Accuracy, Unpredicted, compare, summarize};
use vramcast::config::ModelConfig;
use vramcast::gpu;
use vramcast::predict::{Prediction, Question, predict};
use vramcast::record::Record;
use vramcast::shadow::candle::Flavour;

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
    let (mut rows, mut unpredicted) = (Vec::new(), Vec::new());
    for file in files {
        let (records, skipped) = records::read(file)?;
        let skipped = skipped.into_iter();
        unpredicted.extend(skipped.map(|s| Unpredicted {
            id: s.id,
            reason: s.reason,
        }));
        for record in &records {
            progress.set_message(format!("predicting {} {}", record.model, record.id));
            match predicted(record) {
                Ok(prediction) => rows.push(compare(record, &prediction)),
                Err(error) => unpredicted.push(Unpredicted {
                    id: record.id.clone(),
                    reason: format!("{error:#}"),
                }),
            }
        }
    }
    progress.finish_and_clear();
    if rows.is_empty() && unpredicted.is_empty() {
        bail!("no records in {}", names(files));
    }
    let mut ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    ids.sort_unstable();
    if let Some(twice) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
        bail!("record {} is there twice in {}", twice[0], names(files));
    }
    Ok(summarize(rows, unpredicted))
}

pub(crate) fn names(files: &[PathBuf]) -> String {
    files
        .iter()
        .map(|file| file.display().to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

fn predicted(record: &Record) -> Result<Prediction> {
    let config = model::model(&record.model)?;
    Ok(predict(&question(record, &config))?)
}

/// What a record answers.
pub(crate) fn question<'a>(record: &'a Record, config: &'a ModelConfig) -> Question<'a> {
    Question {
        model: &record.model,
        config,
        workload: &record.workload,
        flavour: if record.device == "cpu" {
            Flavour::Cpu
        } else {
            Flavour::Cuda
        },
        gpu: record.gpu.as_deref().and_then(gpu::find),
        capacity: None,
        range: true,
    }
}

fn text(accuracy: &Accuracy) -> String {
    let mut rows = Vec::new();
    for group in &accuracy.summary.groups {
        let name = |figure: &str| {
            format!(
                "{} {} {} {figure}",
                group.runtime, group.mode, group.precision
            )
        };
        for (figure, spread) in [
            ("requested", group.requested),
            ("reserved", group.reserved),
            ("nvml", group.nvml),
        ] {
            rows.extend(spread.map(|s| output::spread(name(figure), s)));
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
        output::table(&header, 1, rows),
        v.fits_ran,
        v.fits_oom,
        v.tight,
        v.oom_oom,
        v.oom_ran
    );
    for row in &accuracy.summary.unpredicted {
        text += &format!("not predicted: {}: {}\n", row.id, row.reason);
    }
    text
}
