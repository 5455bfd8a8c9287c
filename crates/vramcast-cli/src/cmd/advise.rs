//! `vramcast advise`.

use crate::args;
use crate::cmd::predict::{status, target};
use crate::{Exit, charts, model, output};
use anyhow::{Context, Result};
use serde::Serialize;
use vramcast::advise::{Advice, Suggestion, advise};
use vramcast::bytes::Bytes;
use vramcast::config::quoted;
use vramcast::predict::{Prediction, Question, Verdict};
use vramcast::record::SCHEMA;
use vramcast::workload::Runtime;

/// What `--json` prints.
#[derive(Serialize)]
struct Answer<'a> {
    schema: u32,
    #[serde(flatten)]
    advice: &'a Advice,
}

/// More combinations than these are only in the JSON.
const SHOWN: usize = 12;

pub(crate) fn run(args: &args::Advise) -> Result<Exit> {
    let config = model::model(&args.model)?;
    let workload = args.workload.workload(Runtime::Torch);
    let question = args.target.question(&args.model, &config, &workload)?;
    let progress = output::spinner("pulling levers".to_owned());
    let advice = advise(&question).with_context(|| quoted(&args.model));
    progress.finish_and_clear();
    let advice = advice?;
    if let (Some(folder), Some(best)) = (&args.charts, best(&advice)) {
        charts::draw(folder, &[charts::waterfall(&advice.now, best)], args.png)?;
    }
    if args.json {
        output::print_json(&Answer {
            schema: SCHEMA,
            advice: &advice,
        })?;
    } else {
        output::print(&text(&question, &advice))?;
    }
    // Whether anything helps.
    Ok(match best(&advice) {
        Some(best) => status(best.prediction.verdict),
        None => status(advice.now.verdict),
    })
}

/// What to do: the cheapest that fits; where nothing limits, what goes lowest without another
/// way of training and without cutting texts.
fn best(advice: &Advice) -> Option<&Suggestion> {
    match advice.now.verdict {
        Verdict::Unknown => {
            let mild = |s: &&Suggestion| s.steps.iter().all(|step| !step.cost.changes_training());
            advice.combinations.iter().rfind(mild)
        }
        Verdict::Fits => None,
        Verdict::Tight | Verdict::Oom => advice.combinations.first(),
    }
}

/// What to do about a job that does not fit.
pub(crate) fn in_a_line(question: &Question<'_>) -> Result<String> {
    let advice = advise(question)?;
    let how = match best(&advice) {
        Some(_) => "; `vramcast advise` with the same options says how",
        None => "",
    };
    Ok(format!("{}{how}\n", headline(question, &advice)))
}

/// The names of a suggestion's levers.
fn names(suggestion: &Suggestion) -> String {
    let names: Vec<&str> = suggestion.steps.iter().map(|s| s.lever.as_str()).collect();
    names.join(" + ")
}

/// The cheapest that fits, in one line.
fn headline(question: &Question<'_>, advice: &Advice) -> String {
    let into = target(question);
    match (advice.now.verdict, best(advice)) {
        (Verdict::Fits, _) => format!("it fits into {into} as it is"),
        (Verdict::Unknown, Some(best)) => format!(
            "with {} it takes {} by NVML instead of {}",
            names(best),
            best.prediction.peak_nvml,
            advice.now.peak_nvml
        ),
        (Verdict::Unknown, None) => "nothing would save memory".to_owned(),
        (verdict, best) => {
            let sure = match verdict {
                Verdict::Tight => " for certain",
                _ => "",
            };
            match best {
                Some(best) => format!("with {} it fits into {into}{sure}", names(best)),
                None => format!("none of the levers makes it fit into {into}{sure}"),
            }
        }
    }
}

/// The answer, the job as it is, each lever, the combinations, and how to do the first.
fn text(question: &Question<'_>, advice: &Advice) -> String {
    let now = &advice.now;
    let mut text = format!(
        "{}\n{}, {}\nas it is: {}\n",
        headline(question, advice),
        now.model,
        now.workload.describe(),
        output::headline(now)
    );
    let row = |s: &Suggestion| {
        vec![
            format!("  {}", names(s)),
            s.prediction.peak_nvml.to_string(),
            saved(now, &s.prediction),
        ]
    };
    if !advice.levers.is_empty() {
        let row = |s: &Suggestion| {
            let mut cells = row(s);
            cells.push(word(&s.prediction).to_owned());
            cells.push(s.steps.iter().map(|step| step.caveat).collect());
            cells
        };
        let rows = advice.levers.iter().map(row).collect();
        let header = ["each alone", "NVML", "saves", "", "what it costs"];
        text += &format!("\n{}\n", output::table(&header, 1..3, rows));
    }
    if !advice.combinations.is_empty() {
        let shown = &advice.combinations[..advice.combinations.len().min(SHOWN)];
        let rows = shown.iter().map(row).collect();
        let title = match now.verdict {
            Verdict::Unknown | Verdict::Fits => "the cheapest way to each peak",
            Verdict::Tight | Verdict::Oom => "what fits, the cheapest first",
        };
        text += &format!(
            "\n{}\n",
            output::table(&[title, "NVML", "saves"], 1.., rows)
        );
        if advice.combinations.len() > SHOWN {
            let more = advice.combinations.len() - SHOWN;
            text += &format!("  and {more} more in --json\n");
        }
    }
    if let Some(best) = best(advice) {
        text += &format!("\nto do {}:\n", names(best));
        for step in &best.steps {
            text += &format!("  {}: {}\n", step.lever, step.change);
        }
    }
    text += &format!("{} jobs were predicted\n", advice.tried);
    text
}

/// The verdict in a table.
pub(crate) fn word(prediction: &Prediction) -> &'static str {
    match prediction.verdict {
        Verdict::Fits => "fits",
        Verdict::Tight => "tight",
        Verdict::Oom => "no",
        Verdict::Unknown => "",
    }
}

/// By how much NVML's figure is lower.
fn saved(now: &Prediction, then: &Prediction) -> String {
    let less = now.peak_nvml.minus(then.peak_nvml);
    let sign = if less < 0 { "-" } else { "" };
    let size = u64::try_from(less.unsigned_abs()).unwrap_or(u64::MAX);
    format!("{sign}{}", Bytes(size))
}
