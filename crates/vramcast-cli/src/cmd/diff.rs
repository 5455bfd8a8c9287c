//! `vramcast diff`: what changed between two files of predictions, records or baselines.

use crate::args::Diff;
use crate::gate::evidence::described;
use crate::gate::{baseline, measured};
use crate::records::{self, Line};
use crate::{Exit, charts, difference, output};
use anyhow::{Result, bail};
use serde_json::{Map, Value, json};
use std::path::Path;
use vramcast::config::quoted;
use vramcast::diff::Difference;
use vramcast::figures::Figures;
use vramcast::record::SCHEMA;
use vramcast::workload::Workload;

/// A run of one of the files.
struct Side {
    /// A baseline's name or a record's id.
    name: Option<String>,
    /// What runs, in the words of a configuration.
    configuration: Map<String, Value>,
    title: String,
    figures: Figures,
}

/// A run in both files.
struct Pair {
    title: String,
    /// Fields of the configuration that differ: their names, then and now.
    fields: Vec<[String; 3]>,
    difference: Difference,
}

pub(crate) fn run(args: &Diff) -> Result<Exit> {
    let (before, after) = (sides(&args.before)?, sides(&args.after)?);
    let (pairs, alone) = pair(args, before, after);
    if pairs.is_empty() {
        bail!(
            "no run of {} has a partner in {}; runs are paired by name, by id or by what runs",
            args.before.display(),
            args.after.display()
        );
    }
    if let Some(folder) = &args.charts {
        let drawn: Vec<charts::Chart> = pairs.iter().enumerate().map(chart).collect();
        charts::draw(folder, &drawn, args.png)?;
    }
    if args.json {
        output::print_json(&answer(&pairs, &alone))?;
    } else {
        output::print(&text(&pairs, &alone))?;
    }
    Ok(Exit::Fine)
}

/// Every run of a file.
fn sides(path: &Path) -> Result<Vec<Side>> {
    let text = records::text(path)?;
    if baseline::is_one(&text) {
        let read = baseline::parse(path, text)?;
        let sides = read.baseline.workloads.into_iter().flat_map(|accepted| {
            let side = |suffix: &str, figures: Figures| Side {
                title: format!("{}{suffix}", quoted(&accepted.name)),
                name: Some(format!("{}{suffix}", accepted.name)),
                configuration: accepted.configuration.clone(),
                figures,
            };
            let predicted = accepted.predicted.clone().map(|figures| side("", figures));
            // A prediction of the same stands beside it.
            let suffix = if predicted.is_some() {
                ", measured"
            } else {
                ""
            };
            let measured = accepted.measured.clone().map(|m| side(suffix, m.figures));
            predicted.into_iter().chain(measured).collect::<Vec<_>>()
        });
        return Ok(sides.collect());
    }
    // What torch.cuda.memory_stats() returned has no configuration.
    if let Some(seen) = measured::stats(path, &text)? {
        return Ok(vec![Side {
            name: None,
            configuration: Map::new(),
            title: path.display().to_string(),
            figures: seen.figures,
        }]);
    }
    let mut sides = Vec::new();
    for line in records::lines(text.as_bytes(), path)? {
        match line {
            Line::Prediction(p) => {
                sides.push(Side {
                    name: None,
                    configuration: described(&p.model, &p.workload),
                    title: title(&p.model, &p.workload),
                    figures: Figures::from(p.as_ref()),
                });
            }
            Line::Run(record) => {
                let Ok(seen) = measured::of_record(&record) else {
                    continue;
                };
                sides.push(Side {
                    name: Some(record.id.clone()),
                    configuration: described(&record.model, &record.workload),
                    title: title(&record.model, &record.workload),
                    figures: seen.figures,
                });
            }
            _ => {}
        }
    }
    if sides.is_empty() {
        bail!("{}:1: no prediction, record or baseline", path.display());
    }
    Ok(sides)
}

/// Runs of both, by name or id, then by what runs; two files of one run each are a pair. Those that
/// are alone are named.
fn pair(args: &Diff, before: Vec<Side>, after: Vec<Side>) -> (Vec<Pair>, Vec<String>) {
    let mut left: Vec<Option<Side>> = before.into_iter().map(Some).collect();
    let (mut pairs, mut alone) = (Vec::new(), Vec::new());
    let single = left.len() == 1 && after.len() == 1;
    for side in after {
        let by = |same: &dyn Fn(&Side) -> bool| {
            left.iter()
                .position(|other| other.as_ref().is_some_and(same))
        };
        let found = by(&|other| other.name.is_some() && other.name == side.name)
            .or_else(|| by(&|other| runs_the_same(other, &side)))
            .or_else(|| by(&|_| single));
        match found.and_then(|at| left[at].take()) {
            Some(before) => pairs.push(Pair {
                fields: fields(&before, &side),
                difference: Difference::new(&before.figures, &side.figures),
                title: side.title,
            }),
            None => alone.push(format!("only in {}: {}", args.after.display(), side.title)),
        }
    }
    for side in left.into_iter().flatten() {
        alone.push(format!("only in {}: {}", args.before.display(), side.title));
    }
    (pairs, alone)
}

/// Fields that not all kinds of files have.
const NOT_EVERYWHERE: [&str; 4] = ["torch", "gpu", "allocator_limit", "measured"];

fn runs_the_same(a: &Side, b: &Side) -> bool {
    !a.configuration.is_empty() && fields(a, b).is_empty()
}

/// The fields in which the configurations differ, as far as both have one.
fn fields(before: &Side, after: &Side) -> Vec<[String; 3]> {
    let (before, after) = (&before.configuration, &after.configuration);
    if before.is_empty() || after.is_empty() {
        return Vec::new();
    }
    let in_both = |key: &String| before.contains_key(key) && after.contains_key(key);
    let mut fields = baseline::differences(before, after);
    fields.retain(|[key, ..]| !NOT_EVERYWHERE.contains(&key.as_str()) || in_both(key));
    fields
}

fn title(model: &str, workload: &Workload) -> String {
    format!("{}, {}", quoted(model), workload.describe())
}

fn chart((i, pair): (usize, &Pair)) -> charts::Chart {
    let name = match i {
        0 => "difference".to_owned(),
        i => format!("difference-{}", i + 1),
    };
    let changed = pair.fields.iter().map(said);
    let summary = difference::summary(&pair.difference);
    let caption: Vec<String> = std::iter::once(summary).chain(changed).collect();
    let caption = caption.join("; ");
    charts::difference(name, &pair.title, &caption, &pair.difference)
}

/// `precision: fp32 before, amp-fp16 after`.
fn said([field, before, after]: &[String; 3]) -> String {
    format!("{field}: {before} before, {after} after")
}

fn text(pairs: &[Pair], alone: &[String]) -> String {
    let changed = pairs.iter().filter(|pair| !pair.difference.is_empty());
    let mut text = match (pairs, changed.count()) {
        ([pair], _) => format!("{}\n", difference::summary(&pair.difference)),
        (pairs, 0) => format!("none of {} runs changed\n", pairs.len()),
        (pairs, n) => format!("{n} of {} runs changed\n", pairs.len()),
    };
    for pair in pairs {
        if pairs.len() > 1 {
            let summary = difference::summary(&pair.difference);
            text += &format!("\n{}: {summary}\n", pair.title);
        } else {
            text += &format!("{}\n", pair.title);
        }
        for field in &pair.fields {
            text += &format!("{}\n", said(field));
        }
        if pair.difference.is_empty() {
            continue;
        }
        let explanation = difference::explanation(&pair.difference);
        let told = explanation
            .into_iter()
            .chain(difference::phases(&pair.difference));
        for line in told {
            text += &format!("{line}\n");
        }
        let header = difference::header("before", "after");
        let rows = difference::rows(&pair.difference);
        text += &format!("\n{}\n", output::table(&header, 1.., rows));
        if let Some(unchanged) = difference::unchanged(&pair.difference) {
            text += &format!("{unchanged}\n");
        }
    }
    if !alone.is_empty() {
        text.push('\n');
    }
    for line in alone {
        text += &format!("{line}\n");
    }
    text
}

fn answer(pairs: &[Pair], alone: &[String]) -> Value {
    let pair = |pair: &Pair| {
        let field = |[field, before, after]: &[String; 3]| json!({ "field": field, "before": before, "after": after });
        json!({
            "what": pair.title,
            "summary": difference::summary(&pair.difference),
            "configuration": pair.fields.iter().map(field).collect::<Vec<_>>(),
            "difference": pair.difference,
        })
    };
    json!({
        "schema": SCHEMA,
        "pairs": pairs.iter().map(pair).collect::<Vec<_>>(),
        "alone": alone,
    })
}
