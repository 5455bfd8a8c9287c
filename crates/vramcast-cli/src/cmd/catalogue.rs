//! `vramcast models` and `vramcast gpus`.

use crate::{Exit, output};
use anyhow::Result;
use serde_json::json;
use vramcast::bytes::Bytes;
use vramcast::config::KNOWN;
use vramcast::gpu::{GPUS, Reading};
use vramcast::predict::{Effort, Question, predict};
use vramcast::workload::{Mode, Runtime, Task, Workload};

pub(crate) fn models(as_json: bool) -> Result<Exit> {
    let mut rows = Vec::new();
    for known in KNOWN {
        let config = known.config();
        let workload = Workload::new(Runtime::Candle, Task::Base, Mode::Infer, 1, 1);
        let prediction = predict(&Question {
            effort: Effort::Expected,
            ..Question::new(known.name, &config, &workload)
        })?;
        rows.push((known.name, config.model_type(), prediction.n_params));
    }
    if as_json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(name, family, n)| json!({"name": name, "model_type": family, "n_params": n}))
            .collect();
        output::print_json(&rows)?;
    } else {
        let rows = rows
            .iter()
            .map(|(name, family, n)| {
                let count = vramcast::bytes::grouped(i128::from(*n));
                vec![(*name).to_owned(), (*family).to_owned(), count]
            })
            .collect();
        output::print(&output::table(
            &["model", "family", "parameters"],
            2..,
            rows,
        ))?;
    }
    Ok(Exit::Fine)
}

pub(crate) fn gpus(as_json: bool) -> Result<Exit> {
    if as_json {
        let reading = |r: Option<Reading>| r.map(|r| json!({"bytes": r.bytes, "source": r.source}));
        let rows: Vec<_> = GPUS
            .iter()
            .map(|g| {
                json!({
                    "name": g.name, "product": g.product, "aliases": g.aliases,
                    "architecture": g.architecture,
                    "compute_capability": format!("{}.{}", g.compute_capability.0, g.compute_capability.1),
                    "sms": g.sms, "usable_total": reading(g.usable_total),
                    "nvml_total": reading(g.nvml_total),
                })
            })
            .collect();
        output::print_json(&rows)?;
    } else {
        let size =
            |r: Option<Reading>| r.map_or_else(|| "?".to_owned(), |r| Bytes(r.bytes).to_string());
        let rows = GPUS
            .iter()
            .map(|g| {
                vec![
                    g.name.to_owned(),
                    g.product.to_owned(),
                    size(g.usable_total),
                    size(g.nvml_total),
                    format!("{}.{}", g.compute_capability.0, g.compute_capability.1),
                ]
            })
            .collect();
        output::print(&output::table(
            &["card", "product", "usable", "nvml", "cc"],
            2..,
            rows,
        ))?;
    }
    Ok(Exit::Fine)
}
