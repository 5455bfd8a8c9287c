//! `vramcast fit --gpus all`: every card that is known.

use crate::args;
use crate::{Exit, output};
use anyhow::{Context, Result};
use serde::Serialize;
use vramcast::bytes::{Bytes, signed};
use vramcast::config::quoted;
use vramcast::fit::{Axis, CardAnswer, OnCard, cards};
use vramcast::predict::{Question, Verdict};
use vramcast::record::SCHEMA;
use vramcast::workload::Workload;

/// What `--json` prints.
#[derive(Serialize)]
struct Answer<'a> {
    schema: u32,
    model: &'a str,
    #[serde(flatten)]
    workload: &'a Workload,
    /// The smallest card that it fits into.
    smallest: Option<&'static str>,
    cards: &'a [OnCard],
}

pub(super) fn run(args: &args::Fit, question: &Question<'_>) -> Result<Exit> {
    let progress = output::spinner("trying every card".to_owned());
    let found = cards(question, args.axis).with_context(|| quoted(&args.model));
    progress.finish_and_clear();
    let found = found?;
    let smallest = found.iter().find(|card| card.answer.fits());
    if args.json {
        output::print_json(&Answer {
            schema: SCHEMA,
            model: question.model,
            workload: question.workload,
            smallest: smallest.map(|card| card.gpu),
            cards: &found,
        })?;
    } else {
        output::print_text(&text(question, args.axis, smallest, &found))?;
    }
    Ok(if smallest.is_some() {
        Exit::Fine
    } else {
        Exit::DoesNotFit
    })
}

/// The smallest card first, then all.
fn text(
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
                headroom,
                largest,
                verdict_at_largest,
            } => row.extend([
                peak_nvml.to_string(),
                match u64::try_from(*headroom) {
                    Ok(left) => Bytes(left).to_string(),
                    Err(_) => signed(*headroom),
                },
                verdict.to_string(),
                match verdict_at_largest {
                    Verdict::Tight => format!("{largest} (tight)"),
                    Verdict::Fits | Verdict::Oom | Verdict::Unknown => largest.to_string(),
                },
            ]),
            CardAnswer::NotPredicted { reason } => {
                row.extend(["", "", "not predicted", ""].map(str::to_owned));
                refused.push((card.gpu, reason));
            }
        }
        rows.push(row);
    }
    let largest = match axis {
        Axis::Seq => "longest sequence",
        Axis::Batch | Axis::Processes | Axis::Models => "largest batch",
    };
    let header = ["card", "usable", "NVML", "headroom", "", largest];
    text += &format!("{}\n", output::table(&header, 1..4, rows));
    for (card, why) in refused {
        text += &format!("{card}: {why}\n");
    }
    text
}
