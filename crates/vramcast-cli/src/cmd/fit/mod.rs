//! `vramcast fit`: the largest batch or the longest sequence, and in a file each the frontier of
//! both, all cards, and instances.

mod cards;
mod frontier;
mod instances;

use crate::args;
use crate::cmd::predict::target;
use crate::{Exit, charts, model, output};
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::Path;
use vramcast::config::quoted;
use vramcast::fit::{Axis, Fit, fit, grid};
use vramcast::predict::{Prediction, Question, Verdict, predict};
use vramcast::record::SCHEMA;
use vramcast::workload::{Runtime, Workload};

/// What `--json` prints.
#[derive(Serialize)]
struct Answer<'a> {
    schema: u32,
    #[serde(flatten)]
    fit: &'a Fit,
    /// The prediction for the largest value, if any fits.
    at_largest: Option<&'a Prediction>,
}

pub(crate) fn run(args: &args::Fit) -> Result<Exit> {
    let config = model::model(&args.model)?;
    let workload = args.workload.workload(Runtime::Torch);
    let question = args.target.question(&args.model, &config, &workload)?;
    if args.gpus.is_some() {
        return cards::run(args, &question);
    }
    if args.instances {
        return instances::run(args, &question);
    }
    if let Some(folder) = &args.charts {
        draw(folder, args, &question)?;
    }
    if args.frontier {
        return frontier::run(args, &question);
    }
    let progress = output::spinner(format!("searching the largest {}", args.axis));
    let found = fit(&question, args.axis).with_context(|| quoted(&args.model));
    progress.finish_and_clear();
    let found = found?;
    // Where none fits, the smallest is told of.
    let value = match found.largest {
        0 => smallest(&found),
        largest => largest,
    };
    let mut at = workload.clone();
    match args.axis {
        Axis::Seq => at.seq = value,
        Axis::Batch | Axis::Processes | Axis::Models => at.batch = value,
    }
    let at_largest = (found.largest > 0)
        .then(|| {
            predict(&Question {
                workload: &at,
                ..question
            })
        })
        .transpose()?;
    if args.json {
        output::print_json(&Answer {
            schema: SCHEMA,
            fit: &found,
            at_largest: at_largest.as_ref(),
        })?;
    } else {
        output::print(&text(&question, &at, &found, at_largest.as_ref()))?;
    }
    Ok(if found.possible == 0 {
        Exit::DoesNotFit
    } else {
        Exit::Fine
    })
}

/// Points of the heat map.
const ROWS: u64 = 64;
const COLUMNS: u64 = 32;

/// Draws peaks over batch and sequence.
fn draw(folder: &Path, args: &args::Fit, question: &Question<'_>) -> Result<()> {
    let progress = output::spinner(format!("predicting {ROWS} x {COLUMNS} jobs"));
    let grid = grid(question, ROWS, COLUMNS);
    progress.finish_and_clear();
    let grid = grid.with_context(|| quoted(&args.model))?;
    let chart = charts::heatmap(question, &grid);
    let chart = chart.context("the chart needs --gpu or --capacity")?;
    charts::draw(folder, &[chart], args.png)
}

/// What was looked at first.
fn smallest(fit: &Fit) -> u64 {
    fit.tried.first().map_or(1, |tried| tried.value)
}

/// The answer, what was asked, how sure it is, and what was tried.
fn text(
    question: &Question<'_>,
    workload: &Workload,
    fit: &Fit,
    at: Option<&Prediction>,
) -> String {
    let what = match fit.axis {
        Axis::Seq => "sequence",
        Axis::Batch | Axis::Processes | Axis::Models => "batch",
    };
    let into = target(question);
    let mut text = match at {
        None if fit.possible > 0 => format!(
            "tight: {what} {} may fit into {into}, and up to {} may, but none is sure to\n",
            smallest(fit),
            fit.possible
        ),
        None => format!("none: not even {what} {} fits into {into}\n", smallest(fit)),
        Some(at) => {
            let word = match at.verdict {
                Verdict::Tight => " (tight)",
                Verdict::Fits | Verdict::Oom | Verdict::Unknown => "",
            };
            format!(
                "{what} {}{word} is the largest that fits into {into}\n",
                fit.largest
            )
        }
    };
    text += &format!("{}, {}\n\n", question.model, workload.describe());
    if let Some(at) = at {
        text += &format!(
            "there it takes {} by NVML, {} of it reserved",
            at.peak_nvml, at.peak_reserved
        );
        if let Some(need) = at.need {
            text += &format!(", and needs {need} beside its context");
        }
        text += "\n";
    }
    if fit.bounded_by_model {
        text += &format!("the model, not the card, refuses a larger {what}\n");
    }
    if (fit.certain, fit.possible) != (fit.largest, fit.largest) {
        text += &format!(
            "certain up to {}, possible up to {}: between them it depends on what is not known\n",
            fit.certain, fit.possible
        );
    }
    if !fit.beyond.is_empty() {
        let beyond: Vec<String> = fit.beyond.iter().map(u64::to_string).collect();
        text += &format!(
            "not monotonic: {} would run too, though {} does not\n",
            beyond.join(", "),
            fit.largest + 1
        );
    }
    let tried: Vec<String> = fit
        .tried
        .iter()
        .map(|t| format!("{}{}", t.value, if t.runs { "" } else { " no" }))
        .collect();
    text += &format!("tried: {}\n", tried.join(", "));
    text
}
