//! The gate in CI: what a file of workloads says of each, held against the baseline, its budget and
//! its card. Every format of the answer is made of one [`Report`].

pub(crate) mod baseline;
pub(crate) mod evidence;
pub(crate) mod file;
pub(crate) mod format;
pub(crate) mod measured;
pub(crate) mod problem;
mod table;

use crate::output;
use baseline::{Accepted, Measurement};
use evidence::Evidence;
use file::Job;
use measured::Seen;
use std::path::PathBuf;
use strum::IntoEnumIterator;
use vramcast::bytes::Bytes;
use vramcast::diff::Difference;
use vramcast::figures::{Figure, Figures};
use vramcast::gate::{Finding, Level, What, against_baseline, against_budget, worst};
use vramcast::gpu;
use vramcast::predict::{Prediction, Verdict};

/// The whole answer.
#[derive(Debug)]
pub(crate) struct Report {
    /// The file that lists the workloads.
    pub(crate) file: PathBuf,
    pub(crate) baseline: PathBuf,
    pub(crate) workloads: Vec<Checked>,
    /// What was written, if the baseline was to be replaced.
    pub(crate) update: Option<String>,
    /// What else is worth knowing.
    pub(crate) notes: Vec<String>,
}

impl Report {
    pub(crate) fn level(&self) -> Level {
        let levels = self.workloads.iter().map(Checked::level);
        levels.max().unwrap_or(Level::Pass)
    }
}

/// The answer for one workload.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) name: String,
    /// Where it is in the file.
    pub(crate) line: usize,
    /// What runs, where that is known.
    pub(crate) title: Option<String>,
    /// Where the figures come from: `predicted`, `measured on NVIDIA H200`.
    pub(crate) source: String,
    pub(crate) figures: Figures,
    pub(crate) findings: Vec<Finding>,
    /// What became of the baseline's figures, where there are some.
    pub(crate) difference: Option<Difference>,
    /// Whether components and layers are predicted for peaks that were measured.
    pub(crate) explained: bool,
}

impl Checked {
    pub(crate) fn level(&self) -> Level {
        worst(&self.findings)
    }

    /// Whether it is worth showing what changed.
    pub(crate) fn grew(&self) -> bool {
        let grew = |finding: &Finding| matches!(finding.what, What::Grew { .. });
        self.findings.iter().any(grew)
    }
}

/// Holds a workload against everything that it must meet.
pub(crate) fn check(job: &Job, evidence: &Evidence, accepted: Option<&Accepted>) -> Checked {
    let (source, figures, judged) = match &evidence.measured {
        None => (
            "predicted".to_owned(),
            evidence.predicted.clone().unwrap_or_default(),
            Figure::iter().collect(),
        ),
        Some(seen) => (
            measured_where(job, seen),
            seen.figures.clone(),
            seen.judged.to_vec(),
        ),
    };
    let mut findings = Vec::new();
    let mut difference = None;
    let mut explained = false;
    match before(job, evidence, accepted) {
        Ok(before) => {
            let mut all = Difference::new(before, &figures);
            findings.extend(against_baseline(&all, &job.tolerances, &judged));
            let predicted = accepted.and_then(|a| a.predicted.as_ref());
            if let Some((before, after)) = predicted.zip(evidence.predicted.as_ref())
                && evidence.measured.is_some()
            {
                let expected = Difference::new(before, after);
                explained = !expected.components.is_empty();
                (all.components, all.layers) = (expected.components, expected.layers);
            }
            difference = Some(all);
        }
        Err(text) => findings.push(Finding {
            level: Level::Warn,
            what: What::NoBaseline { text },
        }),
    }
    findings.extend(budget(job, evidence, &figures));
    findings.extend(match &evidence.measured {
        None => evidence.prediction.as_ref().and_then(foreseen_on_card),
        Some(seen) => seen_on_card(job, seen),
    });
    findings.extend(
        evidence
            .measured
            .iter()
            .flat_map(|seen| seen.findings.clone()),
    );
    Checked {
        name: job.name.clone(),
        line: job.line("name"),
        title: evidence.title.clone(),
        source,
        figures,
        findings,
        difference,
        explained,
    }
}

/// `measured on NVIDIA H200`, `measured in memory-stats.json`.
fn measured_where(job: &Job, seen: &Seen) -> String {
    let on = seen.on.iter().map(|on| format!(" on {on}"));
    let file = job.measured.iter().map(|file| format!(" in {}", file.name));
    format!("measured{}", on.chain(file).collect::<String>())
}

/// The figures that the baseline has of the same, or why there are none.
fn before<'a>(
    job: &Job,
    evidence: &Evidence,
    accepted: Option<&'a Accepted>,
) -> Result<&'a Figures, String> {
    let update = "`vramcast check --update` accepts it";
    let Some(accepted) = accepted else {
        return Err(format!("not in the baseline; {update}"));
    };
    let Some(seen) = &evidence.measured else {
        let before = accepted.predicted.as_ref();
        return before.ok_or_else(|| format!("the baseline has no prediction; {update}"));
    };
    if let Some(measured) = &accepted.measured
        && measured.on == seen.on
    {
        return Ok(&measured.figures);
    }
    // A prediction for the card that it ran on is as good.
    let ran_on = seen.on.as_deref().and_then(gpu::find).map(|gpu| gpu.name);
    if let Some(predicted) = &accepted.predicted
        && ran_on.is_some()
        && ran_on == job.gpu.map(|gpu| gpu.name)
    {
        return Ok(predicted);
    }
    let on = seen.on.as_deref().unwrap_or("an unnamed card");
    let update = match job.measured {
        Some(_) => "`vramcast check --update` accepts it",
        None => "`vramcast check --probe --update` accepts it",
    };
    Err(format!(
        "the baseline has nothing measured on {on}; {update}"
    ))
}

fn budget(job: &Job, evidence: &Evidence, figures: &Figures) -> Vec<Finding> {
    // A measurement is what it is; a prediction has a range.
    let prediction = match evidence.measured {
        None => evidence.prediction.as_ref(),
        Some(_) => None,
    };
    let highest = |figure: Figure, p: &Prediction| match figure {
        Figure::Requested => Some(p.peak_requested),
        Figure::Allocated => Some(p.peak_allocated_high),
        Figure::Reserved => Some(p.peak_reserved_high),
        Figure::Nvml => Some(p.peak_nvml_high),
        Figure::Need => p.need_high,
    };
    let held = job.budget.iter().filter_map(|(&figure, &budget)| {
        let Some(bytes) = figures.peak(figure) else {
            return Some(Finding {
                level: Level::Warn,
                what: What::NotKnown { figure },
            });
        };
        let high = prediction.and_then(|p| highest(figure, p)).unwrap_or(bytes);
        against_budget(figure, budget, bytes, high)
    });
    held.collect()
}

/// Whether a predicted run fits, if it must fit anything.
fn foreseen_on_card(prediction: &Prediction) -> Option<Finding> {
    let level = match prediction.verdict {
        Verdict::Fits | Verdict::Unknown => return None,
        Verdict::Tight => Level::Warn,
        Verdict::Oom => Level::Fail,
    };
    Some(Finding {
        level,
        what: What::Card {
            text: output::headline(prediction),
        },
    })
}

/// Whether what was measured fits the card that is named.
fn seen_on_card(job: &Job, seen: &Seen) -> Option<Finding> {
    let gpu = job.gpu?;
    let capacity = Bytes(gpu.capacity().0);
    let beyond = |figure: Figure, level: Level| {
        let bytes = seen
            .figures
            .peak(figure)
            .filter(|bytes| *bytes > capacity)?;
        Some(Finding {
            level,
            what: What::Card {
                text: format!(
                    "{figure} of {bytes} is beyond {} with its {capacity}",
                    gpu.name
                ),
            },
        })
    };
    // An allocator short of room gives its cache back: what it reserves may be more than there is.
    beyond(Figure::Allocated, Level::Fail)
        .or_else(|| beyond(Figure::Requested, Level::Fail))
        .or_else(|| beyond(Figure::Reserved, Level::Warn))
        .or_else(|| beyond(Figure::Nvml, Level::Warn))
}

/// The entry of a workload in a new baseline. What was measured stays where nothing was measured
/// now and the configuration is the same.
pub(crate) fn accept(job: &Job, evidence: &Evidence, before: Option<&Accepted>) -> Accepted {
    let kept = before.filter(|before| before.configuration == evidence.configuration);
    let measured = match &evidence.measured {
        Some(seen) => Some(Measurement {
            on: seen.on.clone(),
            figures: seen.figures.clone(),
        }),
        None => kept.and_then(|before| before.measured.clone()),
    };
    Accepted {
        name: job.name.clone(),
        configuration: evidence.configuration.clone(),
        predicted: evidence.predicted.clone(),
        measured,
    }
}
