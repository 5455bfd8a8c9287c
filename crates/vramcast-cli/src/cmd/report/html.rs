//! `vramcast report --out FILE.html`: one page of any records and predictions, which needs no network,
//! no script and no file beside it, and is a pure function of its files and models.

pub(crate) mod escape;
mod exactness;
mod job;
mod row;
mod section;

use crate::args::Report;
use crate::cmd::accuracy;
use crate::records::Line;
use crate::{Exit, output, records};
use anyhow::{Context, Result, bail};
use askama::Template;
use exactness::{Exactness, exactness};
use job::{Job, Source, figure};
use rayon::prelude::*;
use row::{Answer, Row};
use section::Section;
use std::path::{Path, PathBuf};
use vramcast_chart::{Colour, DARK};

/// Jobs with a section of their own. A section has three or four charts of 10 to 100 KB each: a page
/// stays below 3 MB.
const MOST_SECTIONS: usize = 10;

const STYLE: &str = include_str!("html/style.css");

#[derive(Template)]
#[template(path = "page.html")]
struct Page {
    version: &'static str,
    style: &'static str,
    dark: &'static [(Colour, Colour)],
    title: String,
    answer: Answer,
    rows: Vec<Row>,
    exactness: Vec<Exactness>,
    sections: Vec<Section>,
    /// The headings of a section's parts: those of a page of one job are the page's.
    part: &'static str,
    others: Vec<Other>,
    files: Vec<String>,
}

/// A line of the files that is no job: a search, or what this version does not predict.
struct Other {
    id: String,
    said: String,
}

pub(crate) fn run(args: &Report) -> Result<Exit> {
    let mut lines = Vec::new();
    for file in &args.files {
        lines.extend(records::read(file)?);
    }
    if lines.is_empty() {
        bail!(
            "no records and no predictions in {}",
            accuracy::names(&args.files)
        );
    }
    // Whatever is asked for must be predicted first; better to know now that it cannot be written.
    records::prepare(folder(&args.out))?;
    let page = page(lines, &args.files)?;
    let text = page.render().context("the page cannot be rendered")?;
    records::write_file(&args.out, text.as_bytes())?;
    output::remark(&format!("report: {}", args.out.display()));
    Ok(Exit::Fine)
}

fn folder(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn page(lines: Vec<Line>, files: &[PathBuf]) -> Result<Page> {
    let progress = output::bar(lines.len()).with_message("predicting");
    let read = lines.into_par_iter().map(|line| {
        let read = job_or_other(line);
        progress.inc(1);
        read
    });
    let read: Vec<Result<Job, Other>> = read.collect();
    progress.finish_and_clear();
    let (mut jobs, mut others) = (Vec::new(), Vec::new());
    for read in read {
        match read {
            Ok(job) => jobs.push(job),
            Err(other) => others.push(other),
        }
    }
    if jobs.is_empty() {
        bail!(
            "no job in {}; searches are in the page that --out DIR makes",
            accuracy::names(files)
        );
    }
    let exactness = exactness(&jobs, files)?;
    let chosen = chosen(&jobs);
    let progress = output::bar(chosen.len()).with_message("drawing and advising");
    let sections = chosen.par_iter().map(|&i| {
        let section = Section::new(i, &jobs[i]);
        progress.inc(1);
        section
    });
    let sections: Vec<Section> = sections.collect();
    progress.finish_and_clear();
    let row = |(i, job)| Row::new(i, job, chosen.contains(&i));
    Ok(Page {
        version: env!("CARGO_PKG_VERSION"),
        style: STYLE,
        dark: &DARK,
        title: match jobs.as_slice() {
            [job] => format!("GPU memory of {}", job.model()),
            jobs => format!("GPU memory of {} jobs", jobs.len()),
        },
        answer: Answer::new(&jobs, &sections),
        rows: jobs.iter().enumerate().map(row).collect(),
        exactness,
        sections,
        part: if jobs.len() > 1 { "h3" } else { "h2" },
        others,
        files: files
            .iter()
            .map(|file| file.display().to_string())
            .collect(),
    })
}

/// What a line of a file is on the page.
fn job_or_other(line: Line) -> Result<Job, Other> {
    let (id, said) = match line {
        Line::Run(record) => return Ok(Job::new(Source::Run(record))),
        Line::Prediction(prediction) => return Ok(Job::new(Source::Prediction(prediction))),
        Line::BatchSearch(search) => {
            let row = accuracy::batch_of(&search);
            let said = row.map(|row| {
                let what = row.workload.describe();
                format!(
                    "largest batch of {}, {what}: {}",
                    row.model,
                    accuracy::batch(&row)
                )
            });
            (search.id, said)
        }
        Line::NeedSearch(search) => {
            let row = accuracy::need_of(&search);
            let said = row.map(|row| {
                let what = row.workload.describe();
                format!("need of {}, {what}: {}", row.model, accuracy::need(&row))
            });
            (search.id, said)
        }
        Line::Epochs(epochs) => (epochs.id, Ok("epochs: not predicted".to_owned())),
        Line::Sharing(group) => (
            group.id,
            Ok("processes that share a card: not predicted".to_owned()),
        ),
        Line::Unknown { id, reason } => (id, Ok(reason)),
    };
    let said = said.unwrap_or_else(|error| format!("{error:#}"));
    Err(Other { id, said })
}

/// The jobs with sections: those that do not fit for certain or did not end well, then those furthest
/// off, in the order of the files.
fn chosen(jobs: &[Job]) -> Vec<usize> {
    let mut ranked: Vec<(bool, f64, usize)> = jobs
        .iter()
        .enumerate()
        .map(|(i, job)| {
            let fine = !job.wants_a_look();
            let compared = job.compared().filter(|_| fine);
            let off = compared.as_ref().and_then(figure);
            (fine, off.map_or(0.0, |(_, figure)| -figure.error.abs()), i)
        })
        .collect();
    // The sort is stable: of equals, the first of the files.
    ranked.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut chosen: Vec<usize> = ranked
        .into_iter()
        .take(MOST_SECTIONS)
        .map(|r| r.2)
        .collect();
    chosen.sort_unstable();
    chosen
}
