//! What emptying PyTorch's cache does. Nothing predicts it.

use crate::audit::evidence::Evidence;
use crate::audit::value::{Answer, Value};
use vramcast::record::{Emptied, Epochs, RunOutcome};

/// Which reserved bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reserved {
    Highest,
    After,
}

/// The epochs of a loop that never empties its cache, and of one that does.
fn pair(evidence: &Evidence, when: Emptied, limited: bool) -> Option<[&Epochs; 2]> {
    let with = evidence.epochs(when, limited)?;
    Some([evidence.epochs(Emptied::Never, limited)?, with])
}

fn of_epochs(evidence: &Evidence, when: Emptied, limited: bool, figure: &str) -> Answer {
    let pair = pair(evidence, when, limited);
    let limit = if limited { "allocator limited" } else { "" };
    let what = pair.map_or(String::new(), |[_, with]| {
        format!(
            "{}, {}, sequences of {} to {}",
            with.model,
            with.workload.describe(),
            with.lengths.iter().min().copied().unwrap_or_default(),
            with.workload.seq
        )
    });
    Answer {
        predicted: Err("an emptied cache is not predicted".to_owned()),
        measured: None,
        records: pair
            .map(|pair| pair.map(|epochs| epochs.id.clone()).to_vec())
            .unwrap_or_default(),
        traits: vec![
            ("figure", figure.to_owned()),
            ("model", what),
            ("when", format!("emptied after each {when}")),
            ("limit", limit.to_owned()),
        ],
        figure: figure.to_owned(),
    }
}

pub(crate) fn emptied(evidence: &Evidence, when: Emptied, which: Reserved) -> Answer {
    let figure = match which {
        Reserved::Highest => "highest reserved",
        Reserved::After => "reserved between epochs",
    };
    let of = |epochs: &Epochs| {
        let all = epochs.epochs.iter().map(|epoch| match which {
            Reserved::Highest => epoch.peak_reserved.0,
            Reserved::After => epoch.reserved_after.0,
        });
        all.max()
    };
    let saved = pair(evidence, when, false)
        .and_then(|[never, with]| Some(Value::Share(1.0 - of(with)? as f64 / of(never)? as f64)));
    Answer {
        measured: saved,
        ..of_epochs(evidence, when, false, figure)
    }
}

pub(crate) fn slowed(evidence: &Evidence, when: Emptied) -> Answer {
    let time = |epochs: &Epochs| {
        let all = epochs.epochs.iter().map(|epoch| epoch.milliseconds);
        all.sum::<u64>() as f64
    };
    let slowed = pair(evidence, when, false)
        .map(|[never, with]| Value::Share(time(with) / time(never) - 1.0));
    Answer {
        measured: slowed,
        ..of_epochs(evidence, when, false, "time added")
    }
}

pub(crate) fn rescued(evidence: &Evidence, when: Emptied) -> Answer {
    let rescued = pair(evidence, when, true)
        .map(|pair| Value::Rescued(pair.map(|epochs| epochs.outcome == RunOutcome::Ok)));
    Answer {
        measured: rescued,
        ..of_epochs(evidence, when, true, "what runs")
    }
}
