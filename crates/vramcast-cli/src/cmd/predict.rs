//! `vramcast predict`.

use crate::args::{Predict, Target};
use crate::{Exit, charts, model, output};
use anyhow::{Context, Result};
use vramcast::compare::ledger;
use vramcast::config::quoted;
use vramcast::gpu::Gpu;
use vramcast::predict::{Prediction, Question, Verdict, predict_with_timeline};
use vramcast::shadow::candle::Flavour;

pub(crate) fn run(args: &Predict) -> Result<Exit> {
    let config = model::model(&args.model)?;
    let workload = args.workload.workload();
    let question = Question {
        model: &args.model,
        config: &config,
        workload: &workload,
        flavour: Flavour::Cuda,
        gpu: card(&args.target)?,
        capacity: args.target.capacity,
        range: true,
    };
    let (prediction, timeline) =
        predict_with_timeline(&question).with_context(|| quoted(&args.model))?;
    if let Some(folder) = &args.charts {
        let drawn = [
            charts::timeline(&prediction, &timeline),
            charts::peaks(&args.model, &config, &workload, question.gpu),
        ];
        for file in charts::write(folder, &drawn, args.png)? {
            output::remark(&format!("chart: {}", file.display()));
        }
    }
    if args.json {
        output::print_json(&prediction)?;
    } else {
        output::print(&text(&prediction))?;
    }
    Ok(status(prediction.verdict))
}

pub(crate) fn card(target: &Target) -> Result<Option<&'static Gpu>> {
    target.gpu.as_deref().map(model::card).transpose()
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
        "{}\n{}, {}\n\n{}\n",
        output::headline(prediction),
        prediction.model,
        prediction.workload.describe(),
        output::ledger(&ledger(prediction, None, true)),
    );
    let phases: Vec<String> = prediction
        .phases
        .iter()
        .map(|p| format!("{} {}", p.name, p.peak_requested))
        .collect();
    text += &format!(
        "\npeak in {}; highest requested: {}\n",
        prediction.peak_phase,
        phases.join(", ")
    );
    for note in &prediction.notes {
        text += &format!("note: {note}\n");
    }
    text
}
