//! How exact the predictions of the measured jobs were, a part a runtime.

use super::job::Job;
use crate::cmd::report::{spreads, title};
use crate::{charts, output};
use std::path::PathBuf;
use strum::VariantNames;
use vramcast::accuracy::{Accuracy, Compared, summarize};
use vramcast::workload::Runtime;

/// The figures and charts of one runtime.
pub(super) struct Exactness {
    pub(super) title: String,
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
    let charts = if accuracy.rows.len() < MANY {
        Vec::new()
    } else {
        charts::suite(&title, runtime, accuracy)
    };
    let spreads = spreads(runtime, accuracy).into_iter();
    Exactness {
        verdicts: verdicts(accuracy),
        rows: spreads.map(|(name, s)| output::spread(name, s)).collect(),
        charts: charts
            .iter()
            .map(|c| vramcast_chart::svg(&c.scene))
            .collect(),
        title,
    }
}

fn verdicts(accuracy: &Accuracy) -> String {
    let v = accuracy.summary.verdicts;
    format!(
        "Verdicts: {} said to fit and ran, {} said to fit and ran out of memory, {} tight, {} said \
         not to fit and did not, {} said not to fit and ran.",
        v.fits_ran, v.fits_oom, v.tight, v.oom_oom, v.oom_ran
    )
}
