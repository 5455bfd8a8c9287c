//! `vramcast check`: the gate of a CI job.

use crate::args::Check;
use crate::gate::baseline::{self, Accepted, Read};
use crate::gate::evidence::{Bench, Evidence};
use crate::gate::file::{self, GateFile, Job};
use crate::gate::problem::Problem;
use crate::gate::{Checked, Report, accept, check, format};
use crate::records::write_file;
use crate::{Exit, output};
use anyhow::{Result, anyhow};
use vramcast::config::quoted;
use vramcast::gate::{Finding, Level, What};

pub(crate) fn run(args: &Check) -> Result<Exit> {
    let report = match report(args) {
        Ok(report) => report,
        Err(error) => {
            if let Some(problem) = error.downcast_ref::<Problem>().filter(|_| args.github) {
                output::print(&format::problem(problem))?;
            }
            return Err(error);
        }
    };
    if let Some(file) = &args.markdown {
        write_file(file, format::markdown(&report).as_bytes())?;
    }
    if let Some(file) = &args.junit {
        write_file(file, format::junit(&report)?.as_bytes())?;
    }
    if args.json {
        output::print_json(&format::json(&report))?;
    } else {
        let mut text = format::text(&report);
        if args.github {
            text += &format::annotations(&report);
        }
        output::print(&text)?;
    }
    Ok(match report.level() {
        Level::Pass | Level::Warn => Exit::Fine,
        Level::Fail => Exit::DoesNotFit,
    })
}

fn report(args: &Check) -> Result<Report> {
    let file = file::read(&args.file)?;
    let before = baseline::read(&file.baseline)?;
    let mut all = Vec::new();
    for job in &file.jobs {
        let evidence = Evidence::predict(&file.path, job)?;
        if !args.update {
            same_configuration(&file, job, &evidence, before.as_ref())?;
        }
        all.push(evidence);
    }
    let bench = args.probe.then_some(Bench {
        device: args.device,
        python: args.python.as_deref(),
    });
    for (job, evidence) in file.jobs.iter().zip(&mut all) {
        evidence.measure(&file.path, job, bench.as_ref())?;
        if let Some(injection) = args.inject {
            evidence.grow(injection);
        }
    }
    let of = |job: &Job| before.as_ref().and_then(|read| read.accepted(&job.name));
    let jobs = || file.jobs.iter().zip(&all);
    let mut workloads: Vec<Checked> = jobs().map(|(job, e)| check(job, e, of(job))).collect();
    if args.inject.is_some() && workloads.iter().all(|w| w.difference.is_none()) {
        return Err(anyhow!(
            "{}: nothing that growth could be seen against; run `vramcast check --update` first",
            file.baseline.display()
        ));
    }
    let mut update = None;
    if args.update {
        let accepted = jobs().map(|(job, e)| accept(job, e, of(job))).collect();
        baseline::write(&file.baseline, before.as_ref(), accepted)?;
        update = Some(written(&file, &workloads, before.as_ref()));
        workloads.iter_mut().for_each(accepted_as_it_is);
    }
    Ok(Report {
        notes: notes(args, &file, before.as_ref(), &workloads),
        file: file.path,
        baseline: file.baseline,
        workloads,
        update,
    })
}

/// Figures of another configuration are no regression.
fn same_configuration(
    file: &GateFile,
    job: &Job,
    evidence: &Evidence,
    before: Option<&Read>,
) -> Result<(), Problem> {
    let Some((read, accepted)) = before.and_then(|read| Some((read, read.accepted(&job.name)?)))
    else {
        return Ok(());
    };
    let Some([field, then, now]) = accepted.differs(&evidence.configuration) else {
        return Ok(());
    };
    let text = format!(
        "`{field}` of `{}` is {now}, and {then} in {}; `vramcast check --update` accepts it",
        quoted(&job.name),
        read.place(&job.name, &field)
    );
    Err(Problem::new(&file.path, job.line(&field), text))
}

/// Growth that was accepted is told of, and no more.
fn accepted_as_it_is(workload: &mut Checked) {
    let is_missing = |finding: &Finding| matches!(finding.what, What::NoBaseline { .. });
    workload.findings.retain(|finding| !is_missing(finding));
    for finding in &mut workload.findings {
        if matches!(finding.what, What::Grew { .. }) {
            finding.level = Level::Pass;
        }
    }
}

/// What an update changed.
fn written(file: &GateFile, workloads: &[Checked], before: Option<&Read>) -> String {
    let names = |of: &dyn Fn(&Checked) -> bool| -> Vec<String> {
        let named = workloads.iter().filter(|w| of(w));
        named.map(|w| quoted(&w.name)).collect()
    };
    let is_new = |w: &Checked| before.is_none_or(|read| read.accepted(&w.name).is_none());
    let differs = |w: &Checked| w.difference.as_ref().is_none_or(|d| !d.is_empty());
    let gone: Vec<String> = left_out(file, before).map(|a| quoted(&a.name)).collect();
    let parts = [
        ("new", names(&is_new)),
        ("changed", names(&|w| !is_new(w) && differs(w))),
        ("removed", gone),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what}: {}", names.join(", ")))
        .collect();
    let path = file.baseline.display();
    match parts.is_empty() {
        true => format!("{path} is as it was"),
        false => format!("{path} was written; {}", parts.join("; ")),
    }
}

/// Workloads of the baseline that the file no longer has.
fn left_out<'a>(file: &GateFile, before: Option<&'a Read>) -> impl Iterator<Item = &'a Accepted> {
    let accepted = before.into_iter().flat_map(|read| &read.baseline.workloads);
    accepted.filter(|accepted| file.jobs.iter().all(|job| job.name != accepted.name))
}

fn notes(
    args: &Check,
    file: &GateFile,
    before: Option<&Read>,
    workloads: &[Checked],
) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(injection) = args.inject {
        notes.push(format!(
            "activations were made to look larger {injection}, to see whether the gate notices"
        ));
    }
    if args.update {
        return notes;
    }
    for accepted in left_out(file, before) {
        notes.push(format!(
            "the baseline has `{}`, which {} has not; `vramcast check --update` removes it",
            quoted(&accepted.name),
            file.path.display()
        ));
    }
    let shrank = |w: &&Checked| {
        w.findings
            .iter()
            .any(|f| matches!(f.what, What::Shrank { .. }))
    };
    if workloads.iter().any(|w| shrank(&w)) {
        notes
            .push("`vramcast check --update` lowers the baseline to what is needed now".to_owned());
    }
    let this = env!("CARGO_PKG_VERSION");
    if let Some(read) = before.filter(|read| read.baseline.vramcast != this)
        && workloads.iter().any(Checked::grew)
    {
        notes.push(format!(
            "the baseline was written by vramcast {}, and this is {this}: predictions may have changed",
            quoted(&read.baseline.vramcast)
        ));
    }
    notes
}
