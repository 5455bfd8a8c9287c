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
    /// That it happens.
    Happens,
}

/// How far a value may be from one that is claimed without a range.
const ABOUT: f64 = 0.1;

/// A judgement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    True,
    /// There is less of it than claimed, but some.
    Exaggerated,
    /// There is more of it than claimed.
    Understated,
    Wrong,
    /// On these dimensions of what runs.
    Depends(Vec<&'static str>),
    NotMeasured,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::True => f.write_str("true"),
            Self::Exaggerated => f.write_str("exaggerated"),
            Self::Understated => f.write_str("understated"),
            Self::Wrong => f.write_str("wrong"),
            Self::Depends(on) if on.is_empty() => f.write_str("depends on what is not known"),
            Self::Depends(on) => write!(f, "depends on {}", on.join(" and ")),
            Self::NotMeasured => f.write_str("not measured"),
        }
    }
}

/// Judges one value. `nothing` is what it would be if there were nothing in the claim: less than
/// claimed is an exaggeration where it is at least a twentieth of the way from there to the claim.
pub(crate) fn judge(bound: Bound, nothing: f64, measured: f64) -> Verdict {
    let (low, high) = match bound {
        Bound::About(value) => (value * (1.0 - ABOUT), value * (1.0 + ABOUT)),
        Bound::Between(low, high) => (low, high),
        Bound::MoreThan(low) => (low.next_up(), f64::INFINITY),
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

/// What is known of a case, by dimension.
pub(crate) type Traits = Vec<(&'static str, String)>;

/// One verdict of many: theirs where they agree, else on which dimensions it depends, the fewest
/// that tell every two verdicts apart.
pub(crate) fn join(cases: &[(&Traits, Verdict)]) -> Verdict {
    let measured: Vec<_> = cases
        .iter()
        .filter(|(_, verdict)| *verdict != Verdict::NotMeasured)
        .collect();
    let Some((first, verdict)) = measured.first() else {
        return Verdict::NotMeasured;
    };
    if measured.iter().all(|(_, other)| other == verdict) {
        return verdict.clone();
    }
    let differs = |&(name, ref value): &(&'static str, String)| {
        let other = |traits: &Traits| traits.iter().any(|(n, v)| *n == name && v != value);
        measured
            .iter()
            .any(|(traits, _)| other(traits))
            .then_some(name)
    };
    let varied: Vec<&'static str> = first.iter().filter_map(differs).collect();
    // Sets of one dimension, of two, and so on; of a size, the one that makes fewest groups.
    let mut sets: Vec<Vec<&'static str>> = vec![vec![]];
    for &name in &varied {
        let with = sets.iter().map(|set| [&set[..], &[name]].concat());
        sets.extend(with.collect::<Vec<_>>());
    }
    let explaining = sets.into_iter().filter_map(|set| {
        let mut groups: BTreeMap<Vec<&str>, &Verdict> = BTreeMap::new();
        for (traits, verdict) in &measured {
            let of = |name| traits.iter().find(|(n, _)| n == name);
            let key = set.iter().filter_map(of).map(|(_, value)| value.as_str());
            if *groups.entry(key.collect()).or_insert(verdict) != verdict {
                return None;
            }
        }
        Some((set.len(), groups.len(), set))
    });
    let best = explaining.min_by_key(|(dimensions, groups, _)| (*dimensions, *groups));
    Verdict::Depends(best.map_or(varied, |(_, _, set)| set))
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

    /// Cases as `attention batch verdict`.
    fn check_join(cases: &[(&str, &str, Verdict)], expected: Verdict) {
        let traits: Vec<Traits> = cases
            .iter()
            .map(|(attention, batch, _)| {
                vec![
                    ("attention", (*attention).to_owned()),
                    ("batch", (*batch).to_owned()),
                ]
            })
            .collect();
        let verdicts = cases.iter().map(|(_, _, verdict)| verdict.clone());
        let cases: Vec<_> = traits.iter().zip(verdicts).collect();
        assert_eq!(join(&cases), expected, "{cases:?}");
    }

    use Verdict::{Depends, Exaggerated, NotMeasured, True, Wrong};

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
    fn cases_that_disagree_name_what_it_depends_on() {
        let cases = [
            ("sdpa", "8", Wrong),
            ("sdpa", "16", Wrong),
            ("eager", "8", True),
            ("eager", "32", True),
        ];
        check_join(&cases, Depends(vec!["attention"]));
        let cases = [
            ("sdpa", "8", Wrong),
            ("sdpa", "16", True),
            ("eager", "8", Wrong),
        ];
        check_join(&cases, Depends(vec!["batch"]));
        let cases = [
            ("sdpa", "8", Wrong),
            ("sdpa", "16", True),
            ("eager", "8", Exaggerated),
        ];
        check_join(&cases, Depends(vec!["attention", "batch"]));
    }

    #[test]
    fn cases_that_are_alike_and_disagree_depend_on_nothing_that_is_known() {
        let cases = [("sdpa", "8", Wrong), ("sdpa", "8", True)];
        check_join(&cases, Depends(vec![]));
    }
}
