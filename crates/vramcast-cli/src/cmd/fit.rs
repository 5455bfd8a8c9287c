//! `vramcast fit`.

use crate::args;
use crate::cmd::predict::target;
use crate::{Exit, model, output};
use anyhow::{Context, Result};
use serde::Serialize;
use vramcast::config::quoted;
use vramcast::fit::{Axis, CardAnswer, Fit, OnCard, cards, fit};
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
        return every_card(args, &question);
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
        Axis::Batch => at.batch = value,
        Axis::Seq => at.seq = value,
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

/// What `--gpus all --json` prints.
#[derive(Serialize)]
struct Cards<'a> {
    schema: u32,
    model: &'a str,
    #[serde(flatten)]
    workload: &'a Workload,
    /// The smallest card that it fits into.
    smallest: Option<&'static str>,
    cards: &'a [OnCard],
}

/// Every card that is known.
fn every_card(args: &args::Fit, question: &Question<'_>) -> Result<Exit> {
    let progress = output::spinner("trying every card".to_owned());
    let found = cards(question, args.axis).with_context(|| quoted(&args.model));
    progress.finish_and_clear();
    let found = found?;
    let smallest = found.iter().find(|card| card.answer.fits());
    if args.json {
        output::print_json(&Cards {
            schema: SCHEMA,
            model: question.model,
            workload: question.workload,
            smallest: smallest.map(|card| card.gpu),
            cards: &found,
        })?;
    } else {
        output::print(&card_table(question, args.axis, smallest, &found))?;
    }
    Ok(if smallest.is_some() {
        Exit::Fine
    } else {
        Exit::DoesNotFit
    })
}

/// The smallest card first, then all.
fn card_table(
    question: &Question<'_>,
    axis: Axis,
    smallest: Option<&OnCard>,
    cards: &[OnCard],
) -> String {
    let mut text = match smallest {
        Some(card) => format!(
            "{} ({}) is the smallest card that it fits into\n",
            card.gpu, card.capacity
        ),
        None => "it fits into no card that is known\n".to_owned(),
    };
    text += &format!("{}, {}\n\n", question.model, question.workload.describe());
    let mut refused: Vec<(&str, &str)> = Vec::new();
    let mut rows = Vec::new();
    for card in cards {
        let mut row = vec![format!("  {}", card.gpu), card.capacity.to_string()];
        match &card.answer {
            CardAnswer::Predicted {
                verdict,
                peak_nvml,
                largest,
            } => row.extend([
                peak_nvml.to_string(),
                verdict.to_string(),
                largest.to_string(),
            ]),
            CardAnswer::NotPredicted { reason } => {
                row.extend([String::new(), "not predicted".to_owned(), String::new()]);
                refused.push((card.gpu, reason));
            }
        }
        rows.push(row);
    }
    let largest = match axis {
        Axis::Batch => "largest batch",
        Axis::Seq => "longest sequence",
    };
    let header = ["card", "usable", "NVML", "", largest];
    text += &format!("{}\n", output::table(&header, 1..3, rows));
    for (card, why) in refused {
        text += &format!("{card}: {why}\n");
    }
    text
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
        Axis::Batch => "batch",
        Axis::Seq => "sequence",
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
