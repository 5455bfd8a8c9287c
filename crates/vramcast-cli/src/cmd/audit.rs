//! `vramcast audit`: common advice beside predictions and measurements, as a page.

use crate::args;
use crate::audit::evidence::{Evidence, MEASURED_ON};
use crate::audit::page;
use crate::{Exit, charts, output, records};
use anyhow::{Result, bail};

pub(crate) fn run(args: &args::Audit) -> Result<Exit> {
    let progress = output::spinner("predicting".to_owned());
    let mut lines = Vec::new();
    for file in &args.files {
        lines.extend(records::read(file)?);
    }
    let count = lines.len();
    let evidence = Evidence::new(lines);
    if evidence.is_empty() {
        bail!("among {count} records there is none of an {MEASURED_ON}, which the audit is of");
    }
    let audited = page::audit(&evidence);
    progress.finish_and_clear();
    let chart = charts::savings(&page::savings(&audited));
    charts::write(&args.out, &[chart], false)?;
    let file = args.out.join("advice.md");
    records::write_file(&file, page::page(&evidence, &audited).as_bytes())?;
    output::remark(&format!("audit: {}", file.display()));
    Ok(Exit::Fine)
}
