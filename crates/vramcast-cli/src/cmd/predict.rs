//! `vramcast predict`.

use crate::args::Predict;
use crate::cmd::advise;
use crate::{Exit, charts, model, output};
use anyhow::{Context, Result};
use vramcast::bytes::Bytes;
use vramcast::compare::ledger;
use vramcast::config::quoted;
use vramcast::predict::{PhasePrediction, Prediction, Question, Verdict, predict_with_timeline};
use vramcast::workload::Runtime;

pub(crate) fn run(args: &Predict) -> Result<Exit> {
    let config = model::model(&args.model)?;
    let workload = args.workload.workload(Runtime::Torch);
    let question = args.target.question(&args.model, &config, &workload)?;
    let (prediction, timeline) =
        predict_with_timeline(&question).with_context(|| quoted(&args.model))?;
    if let Some(folder) = &args.charts {
        let drawn = [
            charts::timeline(&prediction, &timeline),
            charts::peaks(&args.model, &config, &workload, question.gpu),
        ];
        charts::draw(folder, &drawn, args.png)?;
    }
    if args.json {
        output::print_json(&prediction)?;
    } else {
        let mut text = text(&prediction);
        if prediction.verdict == Verdict::Oom {
            text += &advise::in_a_line(&question)?;
        }
        output::print(&text)?;
    }
    Ok(status(prediction.verdict))
}

/// What it must fit into, in words.
pub(crate) fn target(question: &Question<'_>) -> String {
    let mut words = Vec::new();
    match (question.capacity, question.gpu) {
        (Some(capacity), _) => words.push(capacity.to_string()),
        (None, Some(gpu)) => words.push(format!("{} ({})", gpu.name, Bytes(gpu.capacity().0))),
        (None, None) => {}
    }
    if let Some(limit) = question.allocator_limit {
        words.push(format!("an allocator limited to {limit}"));
    }
    words.join(" and ")
}

/// The exit status that a verdict means. `tight` and `unknown` say nothing against running it.
pub(crate) fn status(verdict: Verdict) -> Exit {
    match verdict {
        Verdict::Oom => Exit::DoesNotFit,
        Verdict::Fits | Verdict::Tight | Verdict::Unknown => Exit::Fine,
    }
}

/// The answer first, then what was asked, then what it is made of.
fn text(prediction: &Prediction) -> String {
    let mut text = format!(
        "{}\n{}, {}\n\n{}\n\n",
        output::headline(prediction),
        prediction.model,
        prediction.workload.describe(),
        output::ledger(&ledger(prediction, None, true)),
    );
    for line in details(prediction) {
        text += &format!("{line}\n");
    }
    for note in &prediction.notes {
        text += &format!("note: {note}\n");
    }
    text
}

/// What is said below a ledger, a line each.
pub(crate) fn details(prediction: &Prediction) -> Vec<String> {
    let phase = |p: &PhasePrediction| format!("{} {}", p.name, p.peak_allocated);
    let phases: Vec<String> = prediction.phases.iter().map(phase).collect();
    // candle's pool counts what was requested.
    let counted = match prediction.workload.runtime {
        Runtime::Candle => "requested",
        Runtime::Torch => "allocated",
    };
    let mut lines = vec![format!(
        "peak in {}; highest {counted}: {}",
        prediction.peak_phase,
        phases.join(", ")
    )];
    if prediction.workload.runtime == Runtime::Torch {
        lines.extend(of_torch(prediction));
    }
    lines
}

/// What only PyTorch's allocator has: a need below what it reserves, and a place where it fails.
fn of_torch(p: &Prediction) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(need) = p.need {
        let range = match (p.need_low, p.need_high) {
            (Some(low), Some(high)) if low != high => format!(" ({low} to {high})"),
            _ => String::new(),
        };
        lines.push(format!(
            "the allocator needs {need}{range}; where there is room it keeps {} more as cache",
            Bytes(p.peak_reserved.0.saturating_sub(need.0))
        ));
    }
    if p.peak_allocated_low != p.peak_allocated_high {
        lines.push(format!(
            "as the driver places segments, allocated may be {} less or {} more",
            Bytes(p.peak_allocated.0 - p.peak_allocated_low.0),
            Bytes(p.peak_allocated_high.0 - p.peak_allocated.0)
        ));
    }
    if let Some(s) = &p.shortage {
        let place = if s.scope.is_empty() {
            String::new()
        } else {
            format!(" of {}", s.scope)
        };
        lines.push(format!(
            "it would end in {}, at {}{place}: \"CUDA out of memory. Tried to allocate {}\", with \
             {} allocated and {} reserved but unallocated",
            s.phase,
            s.op,
            s.tried,
            s.allocated,
            Bytes(s.reserved.0 - s.allocated.0)
        ));
    }
    lines
}
