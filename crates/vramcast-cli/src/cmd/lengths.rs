//! `vramcast lengths`.

use crate::args;
use crate::cmd::advise::word;
use crate::cmd::predict::{status, target};
use crate::{Exit, charts, model, output};
use anyhow::{Context, Result, anyhow, bail};
use flate2::read::MultiGzDecoder;
use indicatif::ProgressBar;
use serde::Serialize;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use strum::VariantArray;
use vramcast::bytes::grouped;
use vramcast::config::{ModelConfig, quoted};
use vramcast::lengths::{Batches, Distribution, MAX_LENGTHS, Padding, Truncation, Window};
use vramcast::predict::{Prediction, Question, predict};
use vramcast::record::SCHEMA;
use vramcast::workload::{Runtime, Workload};
use vramcast_tokens::{Counter, Documents, Format, ReadError};

/// What `--json` prints; lengths are tokens.
#[derive(Serialize)]
struct Answer<'a> {
    schema: u32,
    file: &'a Path,
    tokenizer: &'a Path,
    /// Tokens that the tokenizer adds to every text.
    special_tokens: u64,
    documents: Summary,
    truncation: &'a [Truncation],
    window: Option<Window>,
    windows: Option<Summary>,
    broken: &'a Broken,
    model: Option<&'a str>,
    batches: &'a [Row],
}

/// A distribution in JSON.
#[derive(Serialize)]
struct Summary {
    count: u64,
    tokens: u64,
    p50: u64,
    p90: u64,
    p95: u64,
    p99: u64,
    max: u64,
    /// Pairs of a length and the number of texts that have it.
    histogram: Vec<(u64, u64)>,
}

/// Documents that were left out.
#[derive(Default, Serialize)]
struct Broken {
    count: u64,
    /// Line and reason of the first few.
    first: Vec<(u64, String)>,
}

/// Broken documents that are told one by one.
const TOLD: usize = 3;

/// The peak of batches that are made in one way.
#[derive(Serialize)]
struct Row {
    padded: Padding,
    max_length: u64,
    #[serde(flatten)]
    batches: Batches,
    /// The peak of the typical batch.
    at_typical: Prediction,
    /// The peak of the whole run: that of the longest batch, or of the typical one where it takes
    /// more, since shorter sequences may have another kernel.
    at_worst: Prediction,
}

/// What was read.
struct Found {
    documents: Distribution,
    broken: Broken,
}

/// What the answer is made of.
struct Lengths<'a> {
    args: &'a args::Lengths,
    counter: Counter,
    found: Found,
    windows: Option<(Window, Distribution)>,
    truncation: Vec<Truncation>,
    rows: Vec<Row>,
}

pub(crate) fn run(args: &args::Lengths) -> Result<Exit> {
    let config = args.model.as_deref().map(model::model).transpose()?;
    let workload = args.workload.workload(Runtime::Torch);
    let question = match (&args.model, &config) {
        (Some(name), Some(config)) => Some(args.target.question(name, config, &workload)?),
        _ if args.target.limits() => bail!("what must fit? give --model beside the card"),
        _ => None,
    };
    let mut counter = tokenizer(&args.tokenizer)?;
    let window = args.window.map(|length| Window {
        length,
        stride: args.stride,
        special: counter.special(),
    });
    if let Some(window) = window {
        // Said before a long file is read.
        Distribution::default().windows(window)?;
        if let Some(most) = config.as_ref().map(ModelConfig::max_sequence)
            && window.length > most
        {
            bail!(
                "windows of {} tokens are beyond the model's {most} positions; use --window {most}",
                window.length
            );
        }
    }
    let found = read(args, &mut counter)?;
    let windows = match window {
        Some(window) => Some((window, found.documents.windows(window)?)),
        None => None,
    };
    let truncation = truncation(&found.documents, &args.max_length);
    let rows = match &question {
        Some(question) => {
            let texts = windows.as_ref().map_or(&found.documents, |all| &all.1);
            let max_lengths: Vec<u64> = match window {
                Some(window) => vec![window.length],
                None => truncation.iter().map(|t| t.max_length).collect(),
            };
            rows(question, texts, &max_lengths)?
        }
        None => Vec::new(),
    };
    let lengths = Lengths {
        args,
        counter,
        found,
        windows,
        truncation,
        rows,
    };
    if let Some(folder) = &args.charts {
        charts::draw(folder, &[lengths.chart()], args.png)?;
    }
    if args.json {
        output::print_json(&lengths.answer())?;
    } else {
        output::print_text(&lengths.text(question.as_ref()))?;
    }
    // Of the longest batch.
    let verdict = lengths.rows.last().map(|row| row.at_worst.verdict);
    Ok(verdict.map_or(Exit::Fine, status))
}

/// Reads a `tokenizer.json`.
fn tokenizer(path: &Path) -> Result<Counter> {
    let cannot = || format!("{}: cannot be read", path.display());
    if !path.metadata().with_context(cannot)?.is_file() {
        bail!("{}: not a file; give a tokenizer.json", path.display());
    }
    let json = std::fs::read(path).with_context(cannot)?;
    Counter::from_json(&json)
        .map_err(|error| anyhow!("{}: not a tokenizer.json: {error}", path.display()))
}

/// Counts the tokens of all documents.
fn read(args: &args::Lengths, counter: &mut Counter) -> Result<Found> {
    let name = name(&args.file);
    let cannot = || format!("{name}: cannot be read");
    let (input, bar): (Box<dyn Read>, ProgressBar) = if is_stdin(&args.file) {
        (Box::new(std::io::stdin().lock()), output::bytes_bar(None))
    } else {
        let file = File::open(&args.file).with_context(cannot)?;
        let about = file.metadata().with_context(cannot)?;
        (
            Box::new(file),
            output::bytes_bar(about.is_file().then_some(about.len())),
        )
    };
    let input = bar.wrap_read(input);
    let zipped = args.file.extension().is_some_and(|e| e == "gz");
    let input: Box<dyn Read> = if zipped {
        Box::new(MultiGzDecoder::new(input))
    } else {
        Box::new(input)
    };
    let format = args.format.unwrap_or_else(|| format(&args.file));
    let input = BufReader::with_capacity(1 << 16, input);
    let documents = Documents::new(input, format, &args.field);
    let found = count(documents, counter, args.skip_broken, &name);
    bar.finish_and_clear();
    let found = found?;
    if found.documents.count() == 0 {
        match found.broken.first.first() {
            Some((line, reason)) => {
                bail!("{name}: no documents but broken ones; line {line}: {reason}")
            }
            None => bail!("{name}: no documents in it"),
        }
    }
    Ok(found)
}

fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// The input in words.
fn name(path: &Path) -> String {
    if is_stdin(path) {
        "stdin".to_owned()
    } else {
        path.display().to_string()
    }
}

/// What the name of a file says of it.
fn format(path: &Path) -> Format {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.to_lowercase();
    match name.trim_end_matches(".gz").rsplit_once('.') {
        Some((_, "jsonl" | "ndjson" | "json")) => Format::JsonLines,
        Some((_, "csv")) => Format::Csv,
        _ => Format::Text,
    }
}

fn count(
    mut documents: Documents<impl BufRead>,
    counter: &mut Counter,
    skip_broken: bool,
    name: &str,
) -> Result<Found> {
    let mut found = Found {
        documents: Distribution::default(),
        broken: Broken::default(),
    };
    let mut document = String::new();
    loop {
        match documents.read(&mut document) {
            Ok(false) => return Ok(found),
            Ok(true) => {
                let tokens = counter
                    .count(&document)
                    .with_context(|| format!("{name}:{}: no tokens for it", documents.line()))?;
                found.documents.add(tokens);
            }
            Err(ReadError::Broken { line, reason }) if skip_broken => {
                found.broken.count += 1;
                if found.broken.first.len() < TOLD {
                    found.broken.first.push((line, reason));
                }
            }
            Err(ReadError::Broken { line, reason }) => {
                bail!("{name}:{line}: {reason}; --skip-broken leaves such lines out")
            }
            Err(ReadError::Header(reason)) => bail!("{name}: {reason}; choose one with --field"),
            Err(ReadError::Io(error)) => {
                return Err(error).with_context(|| format!("{name}: cannot be read"));
            }
        }
    }
}

/// What each `max_length` cuts off; by default those that are usual, up to the first that cuts
/// nothing.
fn truncation(documents: &Distribution, asked: &[u64]) -> Vec<Truncation> {
    let mut asked = asked.to_vec();
    asked.sort_unstable();
    asked.dedup();
    if asked.is_empty() {
        let shorter = MAX_LENGTHS.iter().filter(|&&l| l < documents.longest());
        let some = (shorter.count() + 1).min(MAX_LENGTHS.len());
        asked = MAX_LENGTHS[..some].to_vec();
    }
    let cut = |max_length| documents.truncation(max_length);
    asked.into_iter().map(cut).collect()
}

/// The peaks of batches padded to each `max_length` that the model takes, and of those padded to
/// their longest and cut at the largest of them; of a model that takes none, at all it has.
fn rows(question: &Question<'_>, texts: &Distribution, max_lengths: &[u64]) -> Result<Vec<Row>> {
    let most = question.config.max_sequence();
    let mut taken: Vec<u64> = max_lengths.iter().copied().filter(|&l| l <= most).collect();
    if taken.is_empty() {
        taken.push(most);
    }
    let largest = taken[taken.len() - 1];
    let fixed = taken.into_iter().map(|length| (Padding::MaxLength, length));
    let others = Padding::VARIANTS
        .iter()
        .filter(|&&p| p != Padding::MaxLength);
    let all = fixed.chain(others.map(|&padding| (padding, largest)));
    let progress = output::spinner("predicting".to_owned());
    let rows = all.map(|(padding, max_length)| {
        let batches = texts.batches(padding, max_length, question.workload.batch);
        let at = |seq: u64| {
            let workload = Workload {
                seq: seq.max(1),
                padding: question.workload.padding || batches.padding > 1e-9,
                ..question.workload.clone()
            };
            predict(&Question {
                workload: &workload,
                ..*question
            })
        };
        let typical = at(batches.typical)?;
        let longest = if batches.worst == batches.typical {
            typical.clone()
        } else {
            at(batches.worst)?
        };
        Ok(Row {
            padded: padding,
            max_length,
            batches,
            at_worst: if longest.peak_nvml < typical.peak_nvml {
                typical.clone()
            } else {
                longest
            },
            at_typical: typical,
        })
    });
    let rows: Result<Vec<Row>> = rows.collect();
    progress.finish_and_clear();
    rows.with_context(|| quoted(question.model))
}

impl Lengths<'_> {
    /// Where documents are cut.
    fn max_lengths(&self) -> Vec<u64> {
        self.truncation.iter().map(|t| t.max_length).collect()
    }

    fn chart(&self) -> charts::Chart {
        let title = format!(
            "{}, {} documents, {}",
            name(&self.args.file),
            grouped(i128::from(self.found.documents.count())),
            self.args.tokenizer.display(),
        );
        charts::lengths(&title, &self.found.documents, &self.max_lengths())
    }

    fn answer(&self) -> Answer<'_> {
        Answer {
            schema: SCHEMA,
            file: &self.args.file,
            tokenizer: &self.args.tokenizer,
            special_tokens: self.counter.special(),
            documents: summary(&self.found.documents),
            truncation: &self.truncation,
            window: self.windows.as_ref().map(|all| all.0),
            windows: self.windows.as_ref().map(|all| summary(&all.1)),
            broken: &self.found.broken,
            model: self.args.model.as_deref(),
            batches: &self.rows,
        }
    }

    /// The answer, the quantiles, what is cut, what batches need, and what to know about it.
    fn text(&self, question: Option<&Question<'_>>) -> String {
        let all = &self.found.documents;
        let mut text = format!(
            "{}: half have at most {} tokens, 99 % at most {}; the longest has {}\n",
            many(all.count(), "document"),
            number(all.quantile(50)),
            number(all.quantile(99)),
            number(all.longest()),
        );
        text += &format!(
            "{} with {}, {} in each, {} tokens in all\n",
            name(&self.args.file),
            self.args.tokenizer.display(),
            many(self.counter.special(), "special token"),
            number(all.tokens()),
        );
        if let Some((window, windows)) = &self.windows {
            text += &format!(
                "{} of {} tokens, {} of them those of the window before\n",
                many(windows.count(), "window"),
                number(window.length),
                number(window.stride),
            );
        }
        text += &format!("\n{}\n", self.quantiles());
        text += &format!("\n{}\n", self.cuts(question.map(|q| q.config)));
        if let Some(question) = question {
            text += &format!("\n{}", self.memory(question));
        }
        let broken = &self.found.broken;
        if broken.count > 0 {
            text += &format!("left out: {}\n", many(broken.count, "broken line"));
            for (line, reason) in &broken.first {
                text += &format!("  line {line}: {reason}\n");
            }
        }
        if self.counter.cut().is_none() {
            text += "note: it is not known where this tokenizer cuts texts: each was tokenized as a \
                     whole, which takes longer\n";
        }
        text
    }

    fn quantiles(&self) -> String {
        let mut of = vec![&self.found.documents];
        let mut header = vec!["tokens", "documents"];
        if let Some((_, windows)) = &self.windows {
            of.push(windows);
            header.push("windows");
        }
        type Figure = fn(&Distribution) -> u64;
        let figures: [(&str, Figure); 6] = [
            ("  mean", |all| {
                (all.tokens() + all.count() / 2) / all.count().max(1)
            }),
            ("  p50", |all| all.quantile(50)),
            ("  p90", |all| all.quantile(90)),
            ("  p95", |all| all.quantile(95)),
            ("  p99", |all| all.quantile(99)),
            ("  max", Distribution::longest),
        ];
        let row = |(name, figure): (&str, Figure)| {
            let cells = of.iter().map(|all| number(figure(all)));
            std::iter::once(name.to_owned()).chain(cells).collect()
        };
        output::table(&header, 1.., figures.into_iter().map(row).collect())
    }

    fn cuts(&self, config: Option<&ModelConfig>) -> String {
        let all = &self.found.documents;
        let row = |cut: &Truncation| {
            let most = config.map(ModelConfig::max_sequence);
            let beyond = most.filter(|&most| cut.max_length > most);
            vec![
                format!("  {}", cut.max_length),
                number(cut.texts),
                share(cut.texts as f64 / all.count() as f64),
                share(cut.tokens as f64 / all.tokens().max(1) as f64),
                beyond.map_or_else(String::new, |most| {
                    format!("beyond the model's {most} positions")
                }),
            ]
        };
        let rows = self.truncation.iter().map(row).collect();
        output::table(
            &["max_length", "documents cut", "", "tokens lost", ""],
            1..4,
            rows,
        )
    }

    fn memory(&self, question: &Question<'_>) -> String {
        let workload = question.workload;
        let what = workload.describe();
        let what = what.replace(&format!(", sequence {}", workload.seq), "");
        let mut text = format!("{}, {what}", question.model);
        let into = target(question);
        if !into.is_empty() {
            text += &format!(", into {into}");
        }
        text += "\n";
        let mut rows = Vec::new();
        for row in &self.rows {
            let mut line = |label: String, seq: u64, share: String, at: &Prediction| {
                let peak = at.peak_nvml.to_string();
                rows.push(vec![label, number(seq), share, peak, word(at).to_owned()]);
            };
            let padding = share(row.batches.padding);
            if row.padded == Padding::MaxLength {
                let label = format!("  {} {}", row.padded, row.max_length);
                line(label, row.batches.worst, padding, &row.at_worst);
            } else {
                let label = |which| format!("  {}, {which}", row.padded);
                line(
                    label("half up to"),
                    row.batches.typical,
                    padding,
                    &row.at_typical,
                );
                line(
                    label("at most"),
                    row.batches.worst,
                    String::new(),
                    &row.at_worst,
                );
            }
        }
        let header = ["padded", "sequence", "padding", "NVML", ""];
        text += &output::table(&header, 1..4, rows);
        text += "\n";
        let Some(last) = self.rows.last() else {
            return text;
        };
        if last.batches.worst < self.longest() {
            text += &format!("what is longer than {} is cut\n", last.max_length);
        }
        for note in &last.at_worst.notes {
            text += &format!("note: {note}\n");
        }
        if workload.runtime == Runtime::Torch && last.batches.typical != last.batches.worst {
            text += "note: sequences that change from batch to batch also fragment PyTorch's cache, \
                     which is not in these figures\n";
        }
        text
    }

    /// The longest text that goes into a batch.
    fn longest(&self) -> u64 {
        let windows = self.windows.as_ref().map(|all| &all.1);
        windows.unwrap_or(&self.found.documents).longest()
    }
}

fn summary(all: &Distribution) -> Summary {
    Summary {
        count: all.count(),
        tokens: all.tokens(),
        p50: all.quantile(50),
        p90: all.quantile(90),
        p95: all.quantile(95),
        p99: all.quantile(99),
        max: all.longest(),
        histogram: all.counts().collect(),
    }
}

fn number(count: u64) -> String {
    grouped(i128::from(count))
}

/// `1 document`, `2 documents`.
fn many(count: u64, what: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{} {what}{end}", number(count))
}

/// A share in percent; nothing has no digits.
fn share(part: f64) -> String {
    if part <= 0.0 {
        "0".to_owned()
    } else if part < 0.0005 {
        "< 0.1 %".to_owned()
    } else {
        format!("{:.1} %", 100.0 * part)
    }
}
