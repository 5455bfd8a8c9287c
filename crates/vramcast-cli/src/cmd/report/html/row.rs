//! The table of all jobs, and the answer above it.

use super::job::{Job, figure};
use super::section::Section;
use crate::cmd::probe;
use crate::output;
use vramcast::predict::{Prediction, Verdict};
use vramcast::record::RunOutcome;

/// A verdict as a mark: a word, and the class that colours it.
#[derive(Clone, Copy)]
pub(super) struct Badge {
    pub(super) word: &'static str,
    pub(super) class: &'static str,
}

impl Badge {
    pub(super) fn of(verdict: Option<Verdict>) -> Self {
        let (word, class) = match verdict {
            Some(Verdict::Fits) => ("fits", "fits"),
            Some(Verdict::Tight) => ("tight", "tight"),
            Some(Verdict::Oom) => ("does not fit", "oom"),
            Some(Verdict::Unknown) => ("no card named", "open"),
            None => ("not predicted", "open"),
        };
        Self { word, class }
    }
}

/// A job in one row.
pub(super) struct Row {
    pub(super) number: usize,
    /// The section that says more, if there is one.
    pub(super) anchor: Option<String>,
    pub(super) model: String,
    pub(super) what: String,
    pub(super) place: String,
    pub(super) badge: Badge,
    /// How a run ended.
    pub(super) ended: &'static str,
    /// Which peak the sizes are, where it is not NVML's.
    pub(super) other: &'static str,
    pub(super) predicted: String,
    pub(super) measured: String,
    pub(super) error: String,
}

/// The name of a job's section.
pub(super) fn anchor(index: usize) -> String {
    format!("job-{}", index + 1)
}

impl Row {
    pub(super) fn new(index: usize, job: &Job, has_section: bool) -> Self {
        let compared = job.compared();
        let measured = compared.as_ref().and_then(figure);
        let (name, predicted) = match (measured, job.prediction()) {
            (Some((name, figure)), _) => (name, figure.predicted.to_string()),
            (None, Ok(p)) if job.on_device() => ("nvml", p.peak_nvml.to_string()),
            (None, Ok(p)) => ("requested", p.peak_requested.to_string()),
            (None, Err(_)) => ("nvml", String::new()),
        };
        Self {
            number: index + 1,
            anchor: has_section.then(|| anchor(index)),
            model: job.model().to_owned(),
            what: job.workload().describe(),
            place: job.place(),
            badge: Badge::of(job.verdict()),
            ended: ended(job),
            other: if name == "nvml" { "" } else { name },
            predicted,
            measured: measured.map_or_else(String::new, |(_, f)| f.measured.to_string()),
            error: measured.map_or_else(String::new, |(_, f)| error(f.error)),
        }
    }
}

/// How a run ended.
fn ended(job: &Job) -> &'static str {
    match job.record().map(|record| record.outcome) {
        None => "",
        Some(RunOutcome::Ok) => "ran",
        Some(RunOutcome::Oom) => "ran out of memory",
        Some(RunOutcome::Failed) => "failed",
    }
}

/// A relative error, with its sign.
fn error(error: f64) -> String {
    match output::percent(error) {
        _ if error == 0.0 => "exact".to_owned(),
        text if error > 0.0 => format!("+{text}"),
        text => text,
    }
}

/// The answer at the top of the page.
pub(super) struct Answer {
    pub(super) class: &'static str,
    pub(super) sentence: String,
    /// What to do about one job.
    pub(super) advice: Option<String>,
    /// Of several, those that do not fit for certain or did not end well.
    pub(super) doubtful: Vec<Doubtful>,
    /// How many more there are.
    pub(super) more: usize,
}

/// A job that does not fit for certain, or did not end well.
pub(super) struct Doubtful {
    pub(super) anchor: String,
    pub(super) number: usize,
    pub(super) name: String,
    pub(super) badge: Badge,
    /// How a run ended.
    pub(super) ended: &'static str,
    /// What to do about it.
    pub(super) advice: Option<String>,
}

/// More jobs than these are only in the table.
const NAMED: usize = 6;

impl Answer {
    /// What is said of all jobs. Those that it names have sections.
    pub(super) fn new(jobs: &[Job], sections: &[Section]) -> Self {
        let advice = |s: &Section| s.advice.as_ref().map(|told| told.headline.clone());
        if let ([job], [section]) = (jobs, sections) {
            return Self {
                class: section.badge.class,
                sentence: one(job),
                advice: advice(section),
                doubtful: Vec::new(),
                more: 0,
            };
        }
        let count = |verdict| jobs.iter().filter(|job| job.verdict() == verdict).count();
        let (oom, tight) = (count(Some(Verdict::Oom)), count(Some(Verdict::Tight)));
        let fits = count(Some(Verdict::Fits));
        let looked_at = jobs.iter().filter(|job| job.wants_a_look()).count();
        let doubtful = sections
            .iter()
            .filter(|section| jobs[section.number - 1].wants_a_look());
        let doubtful = doubtful.take(NAMED).map(|section| Doubtful {
            anchor: section.anchor.clone(),
            number: section.number,
            name: format!("{}, {}", section.model, section.what),
            badge: section.badge,
            ended: ended(&jobs[section.number - 1]),
            advice: advice(section),
        });
        Self {
            class: match (oom, tight, fits) {
                (0, 0, 0) => "open",
                (0, 0, _) => "fits",
                (0, ..) => "tight",
                _ => "oom",
            },
            sentence: format!("{} jobs: {}.", jobs.len(), tally(jobs)),
            advice: None,
            doubtful: doubtful.collect(),
            more: looked_at.saturating_sub(NAMED),
        }
    }
}

/// How many fit, and how many do not.
fn tally(jobs: &[Job]) -> String {
    let groups = [
        (Some(Verdict::Fits), "fits", "fit"),
        (Some(Verdict::Tight), "is tight", "are tight"),
        (Some(Verdict::Oom), "does not fit", "do not fit"),
        (Some(Verdict::Unknown), "names no card", "name no card"),
        (None, "is not predicted", "are not predicted"),
    ];
    let said = groups.into_iter().filter_map(|(verdict, one, many)| {
        match jobs.iter().filter(|job| job.verdict() == verdict).count() {
            0 => None,
            1 => Some(format!("1 {one}")),
            n if n == jobs.len() => Some(format!("all {many}")),
            n => Some(format!("{n} {many}")),
        }
    });
    said.collect::<Vec<_>>().join(", ")
}

/// What is said of one job.
pub(super) fn one(job: &Job) -> String {
    match job.prediction() {
        Ok(prediction) => format!("{}.", sentence(job, prediction)),
        Err(reason) => format!("Not predicted: {reason}"),
    }
}

/// As the terminal says it, of a run what it says of that, too.
fn sentence(job: &Job, prediction: &Prediction) -> String {
    let Some(record) = job.record() else {
        return output::headline(prediction);
    };
    let measured = match record.outcome {
        RunOutcome::Ok => probe::headline(prediction, record),
        // What it said is long, and stands below.
        RunOutcome::Oom | RunOutcome::Failed => format!("it {}", ended(job)),
    };
    if job.on_device() {
        format!("{}. Measured: {measured}", output::headline(prediction))
    } else {
        // Without a pool and a device there is nothing to fit into.
        measured
    }
}
