//! `vramcast fit --instances`: how many servers of a job share what there is.

use super::target;
use crate::{Exit, args, output};
use anyhow::{Context, Result};
use serde::Serialize;
use vramcast::bytes::Bytes;
use vramcast::config::quoted;
use vramcast::fit::{Fit, Instances, instances};
use vramcast::predict::Question;
use vramcast::record::SCHEMA;
use vramcast::workload::Runtime;

/// What `--json` prints.
#[derive(Serialize)]
struct Answer<'a> {
    schema: u32,
    #[serde(flatten)]
    instances: &'a Instances,
}

pub(super) fn run(args: &args::Fit, question: &Question<'_>) -> Result<Exit> {
    let progress = output::spinner("searching how many fit".to_owned());
    let found = instances(question).with_context(|| quoted(&args.model));
    progress.finish_and_clear();
    let found = found?;
    if args.json {
        output::print_json(&Answer {
            schema: SCHEMA,
            instances: &found,
        })?;
    } else {
        output::print_text(&text(question, &found))?;
    }
    let models = found.models.as_ref().map_or(0, |m| m.fit.possible);
    Ok(match found.processes.possible.max(models) {
        0 => Exit::DoesNotFit,
        _ => Exit::Fine,
    })
}

fn text(question: &Question<'_>, found: &Instances) -> String {
    let (alone, processes) = (&found.alone, found.processes.largest);
    let into = target(question);
    let mut text = match (processes, &found.models) {
        (0, _) => format!("none: not even one process fits into {into}\n"),
        (_, Some(models)) => format!(
            "{into} holds {}, or one process with {}\n",
            count(PROCESSES, &found.processes),
            count(["model", "models"], &models.fit)
        ),
        (_, None) => format!("{into} holds {}\n", count(PROCESSES, &found.processes)),
    };
    let workload = question.workload;
    text += &format!("{}, {}\n\n", question.model, workload.describe());
    let mut rows = vec![row(
        "processes",
        &found.processes,
        Some(alone.peak_nvml),
        Some(Bytes(alone.peak_nvml.0.saturating_mul(processes))),
    )];
    if let Some(models) = &found.models {
        let each = models.peak_nvml.map(|peak| {
            let beside = peak.0.saturating_sub(alone.context.0);
            Bytes(beside / models.fit.largest.max(1))
        });
        let name = "models in one process";
        rows.push(row(name, &models.fit, each, models.peak_nvml));
    }
    let header = ["", "largest", "certain", "possible", "each", "in all"];
    text += &format!("{}\n\n", output::table(&header, 1.., rows));
    text += &format!(
        "each process takes {} by NVML, {} of it for a context of its own\n",
        alone.peak_nvml, alone.context
    );
    if found.models.is_some() {
        text += "models in one process run in turn and share one context and one cache\n";
    }
    if found
        .models
        .as_ref()
        .is_some_and(|m| m.fit.bounded_by_model)
    {
        text += "more models in one process are not predicted\n";
    }
    if let Some(fraction) = fraction(question, found) {
        text += &format!(
            "{} are sure where each calls set_per_process_memory_fraction({fraction})\n",
            found.processes.certain
        );
    }
    for note in &alone.notes {
        text += &format!("note: {note}\n");
    }
    text
}

/// The word for one and for more.
const PROCESSES: [&str; 2] = ["process", "processes"];

/// `22 processes (16 for certain)`.
fn count([one, many]: [&str; 2], fit: &Fit) -> String {
    let certain = match fit.certain == fit.largest {
        true => String::new(),
        false => format!(" ({} for certain)", fit.certain),
    };
    let what = match fit.largest {
        1 => one,
        _ => many,
    };
    format!("{} {what}{certain}", fit.largest)
}

fn row(name: &str, fit: &Fit, each: Option<Bytes>, all: Option<Bytes>) -> Vec<String> {
    let size = |bytes: Option<Bytes>| match (fit.largest, bytes) {
        (1.., Some(bytes)) => bytes.to_string(),
        _ => String::new(),
    };
    vec![
        format!("  {name}"),
        fit.largest.to_string(),
        fit.certain.to_string(),
        fit.possible.to_string(),
        size(each),
        size(all),
    ]
}

/// The share of the card that PyTorch's allocator may take in each of the processes that are certain
/// to fit, beside a context that may be at its highest; rounded down.
fn fraction(question: &Question<'_>, found: &Instances) -> Option<String> {
    question.gpu.filter(|_| question.capacity.is_none())?;
    if question.workload.runtime != Runtime::Torch || found.processes.certain < 2 {
        return None;
    }
    let capacity = question.capacity()?.0;
    let context = found.alone.peak_nvml_high.0 - found.alone.peak_reserved_high.0;
    let share = (capacity / found.processes.certain).checked_sub(context)?;
    let millionths = u128::from(share) * 1_000_000 / u128::from(capacity);
    Some(format!("0.{millionths:06}"))
}
