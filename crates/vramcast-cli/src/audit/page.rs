//! The page of an audit, as a pure function of the records.

use crate::audit::ask::Ask;
use crate::audit::claims::{Claim, Sentence, claims};
use crate::audit::evidence::{Evidence, MEASURED_ON};
use crate::audit::t4::{context_on_t4, t4};
use crate::audit::value::{Answer, Value};
use crate::audit::verdict::{Bound, Dependence, Traits, Verdict, describe, join, judge};
use std::fmt::Write as _;
use vramcast::bytes::Bytes;
use vramcast::workload::Runtime;
use vramcast_chart::{Lever, Saving};

/// A claim with what the records say of it.
pub(crate) struct Audited {
    claim: Claim,
    /// Of each sentence, its cases.
    answers: Vec<Vec<Judged>>,
}

/// A case, answered and judged.
struct Judged {
    name: &'static str,
    runtime: Runtime,
    answer: Answer,
    verdict: Verdict,
}

/// Both runtimes, in the order of the page.
const RUNTIMES: [Runtime; 2] = [Runtime::Torch, Runtime::Candle];

/// Holds every claim against the records.
pub(crate) fn audit(evidence: &Evidence) -> Vec<Audited> {
    let audited = claims().into_iter().map(|claim| {
        let answers = claim
            .sentences
            .iter()
            .map(|sentence| answers(sentence, evidence));
        Audited {
            answers: answers.collect(),
            claim,
        }
    });
    audited.collect()
}

fn answers(sentence: &Sentence, evidence: &Evidence) -> Vec<Judged> {
    let judged = sentence.cases.iter().map(|case| {
        let answer = case.ask.answer(evidence);
        let verdict = match answer.measured.map(Value::number) {
            None => Verdict::NotMeasured,
            Some(None) => Verdict::Depends(Dependence {
                on: vec!["the context of the card"],
                ..Dependence::default()
            }),
            Some(Some(measured)) => {
                judge(sentence.bound, nothing(&case.ask, sentence.bound), measured)
            }
        };
        Judged {
            name: case.name,
            runtime: case.ask.runtime(),
            answer,
            verdict,
        }
    });
    judged.collect()
}

fn nothing(ask: &Ask, bound: Bound) -> f64 {
    match bound {
        Bound::About(value) | Bound::Between(value, _) | Bound::MoreThan(value) => {
            ask.nothing(value)
        }
        Bound::AtMost(_) | Bound::Card(..) | Bound::Happens => 0.0,
    }
}

impl Audited {
    /// What is said of each sentence on a runtime; nothing of what is not asked there.
    fn verdicts(&self, runtime: Runtime) -> Vec<(&'static str, Verdict)> {
        let sentences = self.claim.sentences.iter().zip(&self.answers);
        let verdicts = sentences.filter_map(|(sentence, answers)| {
            let cases = answers.iter().filter(|judged| judged.runtime == runtime);
            let cases: Vec<_> = cases
                .map(|judged| (&judged.answer.traits, judged.verdict.clone()))
                .collect();
            (!cases.is_empty()).then(|| (sentence.said, join(&cases)))
        });
        verdicts.collect()
    }

    /// The verdict in a few words: one where all sentences share it.
    fn verdict(&self, runtime: Runtime) -> String {
        let verdicts = self.verdicts(runtime);
        let mut kinds: Vec<&Verdict> = Vec::new();
        for (_, verdict) in &verdicts {
            if !kinds.contains(&verdict) {
                kinds.push(verdict);
            }
        }
        match kinds[..] {
            [] => "does not apply".to_owned(),
            [one] => bold(one),
            _ => {
                let told = kinds.iter().map(|kind| {
                    let of = verdicts.iter().filter(|(_, verdict)| verdict == *kind);
                    let said: Vec<&str> = of.map(|(said, _)| *said).collect();
                    format!("{}: {}", said.join("; "), bold(kind))
                });
                told.collect::<Vec<_>>().join(LINE)
            }
        }
    }

    /// The reason, with the values of the cases that it names.
    fn why(&self) -> String {
        let mut why = self.claim.why.to_owned();
        for judged in self.answers.iter().flatten() {
            if !judged.name.is_empty() {
                why = why.replace(&format!("{{{}}}", judged.name), &judged.best());
            }
        }
        why
    }
}

/// Between the lines of a cell.
const LINE: &str = "<br>";

/// A verdict, its details plain.
fn bold(verdict: &Verdict) -> String {
    let said = verdict.to_string();
    match said.split_once(": ") {
        Some((head, details)) => format!("**{head}**: {details}"),
        None => format!("**{said}**"),
    }
}

impl Judged {
    /// What is known of it: as measured, else as predicted.
    fn best(&self) -> String {
        match (&self.answer.measured, &self.answer.predicted) {
            (Some(measured), _) => measured.to_string(),
            (None, Ok(predicted)) => format!("{predicted} (predicted, not measured)"),
            (None, Err(_)) => "(not measured)".to_owned(),
        }
    }

    /// A share that is saved, if that is what it is.
    fn saving(&self) -> Option<Saving> {
        let share = |value: Value| match value {
            Value::Share(share) => Some(share),
            _ => None,
        };
        let predicted = self.answer.predicted.as_ref().ok().copied().and_then(share);
        let measured = self.answer.measured.and_then(share);
        // What all have, and the lever, which the heading names.
        let told = self.answer.traits.iter().filter(|(name, value)| {
            !["figure", "head", "mode"].contains(name) && !value.starts_with(" → ")
        });
        (predicted.is_some() || measured.is_some()).then(|| Saving {
            label: describe(told),
            predicted,
            measured,
        })
    }

    fn row(&self, said: &str) -> String {
        let answer = &self.answer;
        let predicted = match &answer.predicted {
            Ok(value) => value.to_string(),
            Err(reason) => format!("none: {reason}"),
        };
        let measured = answer.measured.as_ref().map(Value::to_string);
        let error = match (answer.measured, &answer.predicted) {
            (Some(measured), Ok(predicted)) => measured.error(*predicted),
            _ => String::new(),
        };
        let ids = match answer.measured {
            Some(_) => answer.records.join(", "),
            None => String::new(),
        };
        format!(
            "| {said} | {} | {} | {} | {predicted} | {} | {error} | {} | {ids} |\n",
            self.runtime.product(),
            answer.figure,
            what_ran(&answer.traits),
            measured.unwrap_or_else(|| "not measured".to_owned()),
            self.verdict
        )
    }
}

/// What levers save, for a chart: the shares that claims give a range of.
pub(crate) fn savings(audited: &[Audited]) -> Vec<Lever> {
    let mut levers = Vec::new();
    for audited in audited {
        for (sentence, answers) in audited.claim.sentences.iter().zip(&audited.answers) {
            let Bound::Between(low, high) = sentence.bound else {
                continue;
            };
            for runtime in RUNTIMES {
                let of = answers.iter().filter(|judged| judged.runtime == runtime);
                let savings: Vec<Saving> = of.filter_map(Judged::saving).collect();
                if !savings.is_empty() {
                    levers.push(Lever {
                        label: format!("{}: {}", runtime.product(), audited.claim.text),
                        claimed: [low, high],
                        savings,
                    });
                }
            }
        }
    }
    levers
}

/// The figure has a column of its own, and one process is as usual.
fn what_ran(traits: &Traits) -> String {
    let told = |(name, value): &&(&str, String)| {
        *name != "figure" && (*name, value.as_str()) != ("processes", "1")
    };
    describe(traits.iter().filter(told))
}

/// The page.
pub(crate) fn page(evidence: &Evidence, audited: &[Audited]) -> String {
    let [torch, candle] = RUNTIMES.map(|runtime| evidence.versions(runtime));
    let mut page = format!(
        "# Common advice on GPU memory, measured\n\n\
         Generated by `vramcast audit` from [the records](records); a test regenerates it. \
         Each claim is quoted as tutorials have it. Every figure was measured on an {MEASURED_ON}, \
         with PyTorch {torch} and candle {candle}, and every verdict follows from measured figures by \
         the rules [below](#rules).\n\n\
         | # | claim | PyTorch | candle |\n|---|---|---|---|\n"
    );
    for (i, audited) in audited.iter().enumerate() {
        let [torch, candle] = RUNTIMES.map(|runtime| audited.verdict(runtime));
        let n = i + 1;
        let _ = writeln!(
            page,
            "| [{n}](#claim-{n}) | {} | {torch} | {candle} |",
            audited.claim.text
        );
    }
    page += "\n![What mixed precision and checkpointing save](advice.svg)\n";
    for (i, audited) in audited.iter().enumerate() {
        page += &section(i + 1, audited);
    }
    page + &rules()
}

fn section(n: usize, audited: &Audited) -> String {
    let mut text = format!("\n## Claim {n}\n\n> {}\n\n", audited.claim.text);
    for runtime in RUNTIMES {
        let verdict = audited.verdict(runtime).replace(LINE, "; ");
        let _ = writeln!(text, "* {}: {verdict}", runtime.product());
    }
    let _ = write!(
        text,
        "\n{}\n\n\
         | says | runtime | figure | what ran | predicted | measured | error | verdict | records |\n\
         |---|---|---|---|---|---|---|---|---|\n",
        audited.why()
    );
    for (sentence, answers) in audited.claim.sentences.iter().zip(&audited.answers) {
        for runtime in RUNTIMES {
            let of = answers.iter().filter(|judged| judged.runtime == runtime);
            text.extend(of.map(|judged| judged.row(sentence.said)));
        }
    }
    text
}

fn rules() -> String {
    format!(
        "\n## Rules\n\n\
         * A claim's GB is 10^9 bytes, its MB 10^6. Sizes here are GiB (2^30 bytes) and MiB (2^20), \
         with the billions of bytes that a claim counts in brackets.\n\
         * **true**: within a tenth of a single figure, inside a range, above a lower bound. \
         **exaggerated**: less than that, but some: at least a twentieth of the way from nothing to \
         the claim. Nothing is half the claim for a size, no saving, no growth. **understated**: more \
         than that. **wrong**: none of it. A card that is needed is exaggerated where the next smaller \
         one does: 16 GB for 24, and 4 GB for 8. Configurations of which some fall short and others \
         have nothing of a claim are told of together as exaggerated.\n\
         * **depends on** names the fewest properties of a job that tell configurations of different \
         verdicts apart. It is said of the configurations that are listed, not of all there are.\n\
         * What is not measured has no verdict, whatever is predicted. A prediction is the one of the \
         record's process; its error is (predicted - measured) / measured, of shares the difference \
         in percentage points, of what runs on a card that of what it takes.\n\
         * allocated, reserved and nvml are the highest of a run, as in [the README](../README.md). \
         candle's pool counts what was requested. Activations are the most that a forward pass adds to \
         what is there when the step begins; gradients what is there after the backward pass and was \
         not before the step; state what the first step of the optimizer leaves. On candle, gradients \
         are the elements that received one, at four bytes, though more is kept with them, and state what is requested before the \
         first step beyond the weights.\n\
         * The T4 of the claims offers {} to a process. \"allocator limited\" is an H200 whose allocator may \
         reserve what a T4 leaves it, or an equal share, with the most that a context is assumed to \
         take. Elsewhere a job runs on a T4 if what it reserves and {} of context are no more than that, \
         and candle's does not if they are more with {}. A T4's other kernels were not run.\n",
        Bytes(t4().capacity().0),
        context_on_t4().high,
        context_on_t4().low
    )
}
