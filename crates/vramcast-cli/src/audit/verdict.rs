//! What a measured value says of a claim: rules, and nothing else.

use std::collections::BTreeMap;
use std::fmt;

/// What a claim says of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    /// This, within a tenth.
    About(f64),
    /// From one to the other.
    Between(f64, f64),
    /// More than this.
    MoreThan(f64),
    /// This at most; less is no exaggeration.
    AtMost(f64),
    /// A card that holds so much, where the next smaller one holds less than it takes. In bytes: the
    /// smaller one, and this.
    Card(f64, f64),
    /// That it happens.
    Happens,
}

/// How far a value may be from one that is claimed without a range.
pub(crate) const ABOUT: f64 = 0.1;

/// A judgement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    True,
    /// There is less of it than claimed, but some.
    Exaggerated,
    /// There is more of it than claimed.
    Understated,
    Wrong,
    Depends(Dependence),
    NotMeasured,
}

/// On what a verdict depends.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Dependence {
    /// Dimensions of what runs.
    pub(crate) on: Vec<&'static str>,
    /// Each verdict with what it is given for.
    pub(crate) verdicts: BTreeMap<Verdict, Vec<String>>,
}

/// More than these are for a table, not for a line.
const TOLD: usize = 4;

impl fmt::Display for Dependence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.on.is_empty() {
            return f.write_str("depends on what is not known");
        }
        write!(f, "depends on {}", listed(&self.on))?;
        if self.verdicts.values().map(Vec::len).sum::<usize>() > TOLD {
            return Ok(());
        }
        for (i, (verdict, values)) in self.verdicts.iter().enumerate() {
            let sign = if i == 0 { ":" } else { "," };
            // What is as usual has no words.
            let values = values.iter().map(|words| match words.as_str() {
                "" => "otherwise",
                words => words,
            });
            let values: Vec<&str> = values.collect();
            write!(f, "{sign} {verdict} ({})", values.join("; "))?;
        }
        Ok(())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::True => f.write_str("true"),
            Self::Exaggerated => f.write_str("exaggerated"),
            Self::Understated => f.write_str("understated"),
            Self::Wrong => f.write_str("wrong"),
            Self::Depends(dependence) => dependence.fmt(f),
            Self::NotMeasured => f.write_str("not measured"),
        }
    }
}

/// `a, b and c`.
fn listed(words: &[&str]) -> String {
    match words {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        _ => words.concat(),
    }
}

/// Judges one value. `nothing` is what it would be if there were nothing in the claim: less than
/// claimed is an exaggeration where it is at least a twentieth of the way from there to the claim.
pub(crate) fn judge(bound: Bound, nothing: f64, measured: f64) -> Verdict {
    let (low, high) = match bound {
        Bound::About(value) => (value * (1.0 - ABOUT), value * (1.0 + ABOUT)),
        Bound::Between(low, high) => (low, high),
        Bound::MoreThan(low) => (low.next_up(), f64::INFINITY),
        // Less is no smaller truth, but a smaller card.
        Bound::Card(low, _) if measured <= low => return Verdict::Exaggerated,
        Bound::Card(low, high) => (low, high),
        Bound::AtMost(high) if measured > high => return Verdict::Wrong,
        Bound::Happens if measured == 0.0 => return Verdict::Wrong,
        Bound::AtMost(_) | Bound::Happens => return Verdict::True,
    };
    if measured > high {
        Verdict::Understated
    } else if measured >= low {
        Verdict::True
    } else if measured - nothing >= (low - nothing) / 20.0 {
        Verdict::Exaggerated
    } else {
        Verdict::Wrong
    }
}

/// What is known of a case, by dimension; what is as usual is empty.
pub(crate) type Traits = Vec<(&'static str, String)>;

/// Traits in one line.
pub(crate) fn describe<'a>(traits: impl Iterator<Item = &'a (&'static str, String)>) -> String {
    let words = traits.filter(|(_, value)| !value.is_empty());
    let words = words.map(|(name, value)| match *name {
        "batch" | "sequence" | "processes" => format!("{name} {value}"),
        _ => match value.strip_prefix(" → ") {
            Some(lever) => format!("without → with {lever}"),
            None => value.clone(),
        },
    });
    words.collect::<Vec<_>>().join(", ")
}

/// One verdict of many: theirs where they agree, else on which dimensions it depends, the fewest
/// that tell every two verdicts apart. To fall short is to be exaggerated, however far, but where
/// nothing of a claim holds.
pub(crate) fn join(cases: &[(&Traits, Verdict)]) -> Verdict {
    let measured = cases.iter().filter(|(_, v)| *v != Verdict::NotMeasured);
    let measured: Vec<(&Traits, &Verdict)> = measured.map(|(traits, v)| (*traits, v)).collect();
    let Some((first, verdict)) = measured.first() else {
        return Verdict::NotMeasured;
    };
    if measured.iter().all(|(_, other)| other == verdict) {
        return Verdict::clone(verdict);
    }
    let classes = measured.iter().map(|(traits, verdict)| match verdict {
        Verdict::Wrong => (*traits, &Verdict::Exaggerated),
        _ => (*traits, *verdict),
    });
    let classes: Vec<(&Traits, &Verdict)> = classes.collect();
    if classes
        .iter()
        .all(|(_, class)| **class == Verdict::Exaggerated)
    {
        return Verdict::Exaggerated;
    }
    let varied = |&(name, ref value): &(&'static str, String)| {
        let differs = |traits: &Traits| traits.iter().any(|(n, v)| *n == name && v != value);
        classes
            .iter()
            .any(|(traits, _)| differs(traits))
            .then_some(name)
    };
    // Sets of dimensions in the order of a description; of a size, the one that makes fewest groups.
    let mut sets: Vec<Vec<&'static str>> = vec![vec![]];
    for name in first.iter().filter_map(varied) {
        let with = sets.iter().map(|set| [&set[..], &[name]].concat());
        sets.extend(with.collect::<Vec<_>>());
    }
    let explaining = sets
        .into_iter()
        .filter_map(|set| Some((groups(&set, &classes)?, set)));
    let best = explaining.min_by_key(|(groups, set)| (set.len(), groups.len()));
    let Some((groups, on)) = best else {
        return Verdict::Depends(Dependence::default());
    };
    let mut verdicts: BTreeMap<Verdict, Vec<String>> = BTreeMap::new();
    for (values, verdict) in groups {
        let here = |traits: &Traits| described(&on, traits) == values;
        let mut here = measured.iter().filter(|(traits, _)| here(traits));
        let verdict = if here.all(|(_, verdict)| **verdict == Verdict::Wrong) {
            Verdict::Wrong
        } else {
            verdict.clone()
        };
        verdicts.entry(verdict).or_default().push(values);
    }
    Verdict::Depends(Dependence { on, verdicts })
}

/// Some dimensions of a case.
fn described(dimensions: &[&'static str], traits: &Traits) -> String {
    describe(traits.iter().filter(|(name, _)| dimensions.contains(name)))
}

/// The verdict of each combination of values that some dimensions have, in the order of the cases;
/// `None` where one has two.
fn groups<'a>(
    dimensions: &[&'static str],
    cases: &[(&Traits, &'a Verdict)],
) -> Option<Vec<(String, &'a Verdict)>> {
    let mut groups: Vec<(String, &Verdict)> = Vec::new();
    for (traits, verdict) in cases {
        let values = described(dimensions, traits);
        match groups.iter().find(|(known, _)| *known == values) {
            None => groups.push((values, *verdict)),
            Some((_, known)) if known == verdict => {}
            Some(_) => return None,
        }
    }
    Some(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_judge(bound: Bound, nothing: f64, cases: &[(f64, Verdict)]) {
        for (measured, expected) in cases {
            let found = judge(bound, nothing, *measured);
            assert_eq!(found, *expected, "{bound:?}, {measured} measured");
        }
    }

    #[test]
    fn about_is_within_a_tenth() {
        let cases = [
            (440.0, Verdict::True),
            (397.0, Verdict::True),
            (483.0, Verdict::True),
            (485.0, Verdict::Understated),
            (395.0, Verdict::Exaggerated),
            (230.0, Verdict::Exaggerated),
            (205.0, Verdict::Wrong),
        ];
        check_judge(Bound::About(440.0), 200.0, &cases);
    }

    #[test]
    fn a_saving_below_the_range_is_exaggerated_and_none_is_wrong() {
        let cases = [
            (0.35, Verdict::True),
            (0.40, Verdict::True),
            (0.401, Verdict::Understated),
            (0.349, Verdict::Exaggerated),
            (0.02, Verdict::Exaggerated),
            (0.01, Verdict::Wrong),
            (0.0, Verdict::Wrong),
            (-0.2, Verdict::Wrong),
        ];
        check_judge(Bound::Between(0.35, 0.4), 0.0, &cases);
    }

    #[test]
    fn growth_is_counted_from_staying_the_same() {
        let cases = [
            (3.9, Verdict::True),
            (2.0, Verdict::Exaggerated),
            (1.0, Verdict::Wrong),
            (5.0, Verdict::Understated),
        ];
        check_judge(Bound::About(4.0), 1.0, &cases);
    }

    #[test]
    fn more_than_a_bound_is_never_understated() {
        let cases = [
            (6.1, Verdict::True),
            (1e9, Verdict::True),
            (6.0, Verdict::Exaggerated),
            (3.2, Verdict::Exaggerated),
            (3.0, Verdict::Wrong),
        ];
        check_judge(Bound::MoreThan(6.0), 3.0, &cases);
    }

    #[test]
    fn limits_and_events_hold_or_do_not() {
        check_judge(
            Bound::AtMost(0.05),
            0.0,
            &[(0.0, Verdict::True), (0.06, Verdict::Wrong)],
        );
        check_judge(
            Bound::Happens,
            0.0,
            &[(1.0, Verdict::True), (0.0, Verdict::Wrong)],
        );
    }

    #[test]
    fn a_card_is_needed_where_the_next_smaller_one_does_not_do() {
        let cases = [
            (1.0, Verdict::Exaggerated),
            (16.0, Verdict::Exaggerated),
            (16.1, Verdict::True),
            (24.0, Verdict::True),
            (24.1, Verdict::Understated),
        ];
        check_judge(Bound::Card(16.0, 24.0), 0.0, &cases);
    }

    /// Cases as attention, batch, verdict.
    fn joined(cases: &[(&str, &str, Verdict)]) -> Verdict {
        let traits = cases.iter().map(|(attention, batch, _)| {
            vec![
                ("attention", (*attention).to_owned()),
                ("batch", (*batch).to_owned()),
            ]
        });
        let traits: Vec<Traits> = traits.collect();
        let verdicts = cases.iter().map(|(_, _, verdict)| verdict.clone());
        join(&traits.iter().zip(verdicts).collect::<Vec<_>>())
    }

    fn check_join(cases: &[(&str, &str, Verdict)], expected: Verdict) {
        assert_eq!(joined(cases), expected, "{cases:?}");
    }

    use Verdict::{Depends, Exaggerated, NotMeasured, True, Understated, Wrong};

    fn check_depends(cases: &[(&str, &str, Verdict)], said: &str) {
        let verdict = joined(cases);
        assert!(matches!(verdict, Depends(_)), "{cases:?}: {verdict}");
        assert_eq!(verdict.to_string(), said, "{cases:?}");
    }

    #[test]
    fn cases_that_agree_have_one_verdict() {
        check_join(&[("sdpa", "8", True), ("eager", "8", True)], True);
        check_join(&[("sdpa", "8", Wrong), ("eager", "8", NotMeasured)], Wrong);
    }

    #[test]
    fn without_a_measurement_there_is_no_verdict() {
        check_join(&[], NotMeasured);
        check_join(&[("sdpa", "8", NotMeasured)], NotMeasured);
    }

    #[test]
    fn cases_that_all_fall_short_are_exaggerated() {
        check_join(
            &[("sdpa", "8", Wrong), ("eager", "8", Exaggerated)],
            Exaggerated,
        );
    }

    #[test]
    fn cases_that_disagree_name_what_it_depends_on() {
        let cases = [
            ("sdpa", "8", Wrong),
            ("sdpa", "16", Exaggerated),
            ("eager", "8", True),
            ("eager", "32", True),
        ];
        check_depends(
            &cases,
            "depends on attention: true (eager), exaggerated (sdpa)",
        );
        let cases = [
            ("sdpa", "8", Wrong),
            ("sdpa", "16", True),
            ("eager", "8", Wrong),
        ];
        check_depends(&cases, "depends on batch: true (batch 16), wrong (batch 8)");
        check_depends(
            &[("", "8", True), ("eager", "8", Wrong)],
            "depends on attention: true (otherwise), wrong (eager)",
        );
        let cases = [
            ("sdpa", "8", Wrong),
            ("sdpa", "16", True),
            ("eager", "8", Understated),
        ];
        check_depends(
            &cases,
            "depends on attention and batch: true (sdpa, batch 16), understated (eager, batch 8), \
             wrong (sdpa, batch 8)",
        );
    }

    #[test]
    fn many_values_are_left_to_the_table() {
        let batches: Vec<String> = (1..7).map(|batch| batch.to_string()).collect();
        let verdict = |i| if i < 3 { True } else { Wrong };
        let cases = batches.iter().enumerate();
        let cases: Vec<_> = cases
            .map(|(i, b)| ("sdpa", b.as_str(), verdict(i)))
            .collect();
        check_depends(&cases, "depends on batch");
    }

    #[test]
    fn cases_that_are_alike_and_disagree_depend_on_nothing_that_is_known() {
        let cases = [("sdpa", "8", Wrong), ("sdpa", "8", True)];
        check_depends(&cases, "depends on what is not known");
    }
}
