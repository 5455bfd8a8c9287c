//! `vramcast fit --frontier`: batch and sequence together.

use super::target;
use crate::{Exit, args, output};
use anyhow::{Context, Result};
use serde::Serialize;
use vramcast::config::quoted;
use vramcast::fit::{Point, even, frontier};
use vramcast::predict::Question;
use vramcast::record::SCHEMA;
use vramcast::workload::Workload;

/// Sequences of the frontier that are told.
const TOLD: u64 = 16;

/// What `--json` prints.
#[derive(Serialize)]
struct Answer<'a> {
    schema: u32,
    model: &'a str,
    #[serde(flatten)]
    workload: &'a Workload,
    /// The largest batch at each sequence.
    frontier: &'a [Point],
}

pub(super) fn run(args: &args::Fit, question: &Question<'_>) -> Result<Exit> {
    let progress = output::spinner("searching the largest batch at each sequence".to_owned());
    let points = frontier(question, &even(question.config.max_sequence(), TOLD));
    progress.finish_and_clear();
    let points = points.with_context(|| quoted(&args.model))?;
    if args.json {
        output::print_json(&Answer {
            schema: SCHEMA,
            model: question.model,
            workload: question.workload,
            frontier: &points,
        })?;
    } else {
        output::print_text(&text(question, &points))?;
    }
    Ok(if points.iter().any(|point| point.fit.possible > 0) {
        Exit::Fine
    } else {
        Exit::DoesNotFit
    })
}

fn text(question: &Question<'_>, points: &[Point]) -> String {
    let into = target(question);
    let tokens = |point: &Point| point.fit.largest.saturating_mul(point.seq);
    let most = points.iter().max_by_key(|point| tokens(point));
    let longest = points.iter().rev().find(|point| point.fit.largest > 0);
    let mut text = match (longest, most) {
        (Some(longest), Some(most)) => format!(
            "up to batch {} at sequence {} fits into {into}; most tokens: {} x {}\n",
            longest.fit.largest, longest.seq, most.fit.largest, most.seq
        ),
        _ => format!("not even batch 1 fits into {into}\n"),
    };
    let what = question.workload.describe_kind();
    text += &format!("{}, {what}\n\n", question.model);
    let rows = points.iter().map(|point| {
        vec![
            format!("  {}", point.seq),
            point.fit.largest.to_string(),
            point.fit.certain.to_string(),
            point.fit.possible.to_string(),
            tokens(point).to_string(),
            point.peak_nvml.map_or_else(String::new, |p| p.to_string()),
        ]
    });
    let header = [
        "  sequence",
        "largest batch",
        "certain",
        "possible",
        "tokens",
        "NVML",
    ];
    text += &output::table(&header, 0.., rows.collect());
    text + "\n"
}
