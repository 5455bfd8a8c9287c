//! `vramcast advise`.

use crate::args;
use crate::cmd::predict::{status, target};
use crate::{Exit, charts, model, output};
use anyhow::{Context, Result};
use serde::Serialize;
use vramcast::advise::{Advice, Step, Suggestion, advise};
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
pub(crate) fn best(advice: &Advice) -> Option<&Suggestion> {
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

/// Advice in words, as the terminal and the page show it.
pub(crate) struct Told {
    /// The cheapest that fits, in one line.
    pub(crate) headline: String,
    /// Each lever alone: name, NVML's figure, what it saves, verdict, what it costs.
    pub(crate) alone: Vec<[String; 5]>,
    /// What the combinations have in common.
    pub(crate) title: &'static str,
    /// Combinations: names, NVML's figure, what they save.
    pub(crate) combinations: Vec<[String; 3]>,
    /// How many more there are.
    pub(crate) more: usize,
    /// What to do, if anything helps.
    pub(crate) how: Option<How>,
    /// How many jobs were predicted.
    pub(crate) tried: usize,
}

/// How to do what a suggestion says.
pub(crate) struct How {
    pub(crate) names: String,
    /// Each of its levers, and what to write.
    pub(crate) changes: Vec<(String, String)>,
}

/// Puts advice in words.
pub(crate) fn tell(question: &Question<'_>, advice: &Advice) -> Told {
    let now = &advice.now;
    let row = |s: &Suggestion| {
        let peak = s.prediction.peak_nvml.to_string();
        [names(s), peak, saved(now, &s.prediction)]
    };
    let alone = |s: &Suggestion| {
        let [name, peak, saves] = row(s);
        let cost = s.steps.iter().map(|step| step.caveat).collect();
        [name, peak, saves, word(&s.prediction).to_owned(), cost]
    };
    let shown = advice.combinations.iter().take(SHOWN);
    let change = |step: &Step| (step.lever.clone(), step.change.clone());
    Told {
        headline: headline(question, advice),
        alone: advice.levers.iter().map(alone).collect(),
        title: match now.verdict {
            Verdict::Unknown | Verdict::Fits => "the cheapest way to each peak",
            Verdict::Tight | Verdict::Oom => "what fits, the cheapest first",
        },
        combinations: shown.map(row).collect(),
        more: advice.combinations.len().saturating_sub(SHOWN),
        how: best(advice).map(|best| How {
            names: names(best),
            changes: best.steps.iter().map(change).collect(),
        }),
        tried: advice.tried,
    }
}

/// The answer, the job as it is, each lever, the combinations, and how to do the first.
fn text(question: &Question<'_>, advice: &Advice) -> String {
    let (now, told) = (&advice.now, tell(question, advice));
    let mut text = format!(
        "{}\n{}, {}\nas it is: {}\n",
        told.headline,
        now.model,
        now.workload.describe(),
        output::headline(now)
    );
    if !told.alone.is_empty() {
        let rows = told.alone.into_iter().map(indented).collect();
        let header = ["each alone", "NVML", "saves", "", "what it costs"];
        text += &format!("\n{}\n", output::table(&header, 1..3, rows));
    }
    if !told.combinations.is_empty() {
        let rows = told.combinations.into_iter().map(indented).collect();
        let table = output::table(&[told.title, "NVML", "saves"], 1.., rows);
        text += &format!("\n{table}\n");
        if told.more > 0 {
            text += &format!("  and {} more in --json\n", told.more);
        }
    }
    if let Some(how) = told.how {
        text += &format!("\nto do {}:\n", how.names);
        for (lever, change) in how.changes {
            text += &format!("  {lever}: {change}\n");
        }
    }
    text += &format!("{} jobs were predicted\n", told.tried);
    text
}

/// A row below a heading in its first column.
fn indented<const N: usize>(mut cells: [String; N]) -> Vec<String> {
    cells[0].insert_str(0, "  ");
    cells.into()
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
