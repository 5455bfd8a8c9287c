//! How exact the predictions of the measured jobs were, a part a runtime.

use super::job::Job;
use crate::charts::{self, Chart};
use crate::cmd::report::{spreads, spreads_of_all, title};
use crate::output;
use std::path::PathBuf;
use strum::VariantNames;
use vramcast::accuracy::{Accuracy, Compared, Confusion, Spread, summarize};
use vramcast::record::RunOutcome;
use vramcast::workload::Runtime;

/// The figures and charts of one runtime.
pub(super) struct Exactness {
    pub(super) title: String,
    /// All of it in a sentence.
    pub(super) sentence: String,
    /// Whether anything that was said to fit did not.
    pub(super) verdicts: String,
    /// Name, exact of all, near, median, 95 %, worst, signed median.
    pub(super) rows: Vec<Vec<String>>,
    pub(super) charts: Vec<String>,
}

/// Fewer runs than these are read off the table.
const MANY: usize = 8;

/// What the measured jobs come to.
///
/// # Errors
/// A record that would count twice.
pub(super) fn exactness(jobs: &[Job], files: &[PathBuf]) -> anyhow::Result<Vec<Exactness>> {
    let rows: Vec<Compared> = jobs.iter().filter_map(Job::compared).collect();
    crate::cmd::accuracy::check_ids(&rows, files)?;
    let runtimes = Runtime::VARIANTS
        .iter()
        .filter_map(|word| word.parse().ok());
    let parts = runtimes.filter_map(|runtime| {
        let rows = rows.iter().filter(|row| row.workload.runtime == runtime);
        let rows: Vec<Compared> = rows.cloned().collect();
        let accuracy = summarize(rows, Vec::new(), Vec::new(), Vec::new());
        (!accuracy.rows.is_empty()).then(|| part(runtime, &accuracy))
    });
    Ok(parts.collect())
}

fn part(runtime: Runtime, accuracy: &Accuracy) -> Exactness {
    let title = title(runtime, accuracy);
    let overall = spreads_of_all(runtime, accuracy);
    let said = |(name, spread): &(String, Spread)| {
        let name = name.trim_start_matches(&format!("{runtime} "));
        in_words(name, *spread)
    };
    let said: Vec<String> = overall.iter().map(said).collect();
    let rows = accuracy.rows.iter();
    let measured = rows.filter(|row| row.outcome == RunOutcome::Ok).count();
    let ran = if measured == accuracy.rows.len() {
        String::new()
    } else {
        format!(", of which {measured} ended well")
    };
    let (rows, charts) = if measured < MANY {
        (overall, Vec::new())
    } else {
        let charts = charts::suite(&title, runtime, accuracy);
        (spreads(runtime, accuracy), charts)
    };
    let svg = |chart: &Chart| vramcast_chart::svg(&chart.scene);
    Exactness {
        sentence: if said.is_empty() {
            format!("{title}{ran}.")
        } else {
            format!("{title}{ran}: {}.", said.join("; "))
        },
        verdicts: verdicts(accuracy.summary.verdicts),
        rows: rows
            .into_iter()
            .map(|(name, s)| output::spread(name, s))
            .collect(),
        charts: charts.iter().map(svg).collect(),
        title,
    }
}

fn in_words(name: &str, s: Spread) -> String {
    match (s.exact, s.count) {
        (exact, count) if exact == count => format!("{name} exact to the byte in all {count}"),
        (exact, count) => format!(
            "{name} exact in {exact} of {count}, at most {} off",
            output::percent(s.worst)
        ),
    }
}

/// How verdicts fared, where any was given.
fn verdicts(v: Confusion) -> String {
    let counts = [
        (v.fits_ran, "said to fit and ran"),
        (v.fits_oom, "said to fit and ran out of memory"),
        (v.tight, "tight"),
        (v.oom_oom, "said not to fit and did not"),
        (v.oom_ran, "said not to fit and ran"),
    ];
    let said = counts.into_iter().filter(|(count, _)| *count > 0);
    let said: Vec<String> = said
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    match said.as_slice() {
        [] => "No verdict was asked for.".to_owned(),
        said => format!("Verdicts: {}.", said.join(", ")),
    }
}
