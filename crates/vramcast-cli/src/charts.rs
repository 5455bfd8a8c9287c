//! Which charts a command draws: from predictions and records to named scenes, and from those to
//! files.

use crate::difference;
use crate::output;
use crate::records::write_file;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use vramcast::accuracy::{Accuracy, Figure, measures};
use vramcast::advise::{Step, Suggestion};
use vramcast::bytes::Bytes;
use vramcast::compare::Entry;
use vramcast::config::ModelConfig;
use vramcast::diff::Difference;
use vramcast::fit::Grid;
use vramcast::gpu::{self, Gpu};
use vramcast::lengths::Distribution;
use vramcast::predict::{Effort, Prediction, Question, predict};
use vramcast::timeline::Timeline;
use vramcast::workload::{Runtime, Workload};
use vramcast_chart::{
    Capacity, Change, Component, Components, Growth, Growths, HeatMap, Lengths, Lever, LiveBytes,
    Peaks, Savings, Scene, Series, Suite, SuitePoint, Waterfall,
};

/// A chart and the name of its file, without an ending.
pub(crate) struct Chart {
    pub(crate) name: String,
    pub(crate) scene: Scene,
}

/// Writes charts as SVG, and as PNG too where asked; returns the files.
pub(crate) fn write(folder: &Path, charts: &[Chart], png: bool) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for chart in charts {
        let mut save = |ending: &str, content: &[u8]| {
            let file = folder.join(format!("{}.{ending}", chart.name));
            files.push(file.clone());
            write_file(&file, content)
        };
        save("svg", vramcast_chart::svg(&chart.scene).as_bytes())?;
        if png {
            let image = vramcast_chart::png(&chart.scene).context("the chart cannot be drawn")?;
            save("png", &image)?;
        }
    }
    Ok(files)
}

/// Writes charts into a folder that was asked for, and says where they are.
///
/// # Errors
/// A file that cannot be written.
pub(crate) fn draw(folder: &Path, charts: &[Chart], png: bool) -> Result<()> {
    for file in write(folder, charts, png)? {
        output::remark(&format!("chart: {}", file.display()));
    }
    Ok(())
}

/// The timeline of one step, with the capacity it must fit.
pub(crate) fn timeline(prediction: &Prediction, timeline: &Timeline) -> Chart {
    let capacity = capacity(prediction);
    let title = title(&prediction.model, &prediction.workload);
    let input = LiveBytes {
        title: &title,
        timeline,
        capacity: capacity.as_ref(),
    };
    Chart {
        name: "timeline".to_owned(),
        scene: vramcast_chart::timeline(&input),
    }
}

/// The way down from the peak of a job, lever by lever.
pub(crate) fn waterfall(now: &Prediction, suggestion: &Suggestion) -> Chart {
    let change = |step: &Step| Change {
        label: step.lever.clone(),
        peak: step.peak_nvml,
    };
    let changes: Vec<Change> = suggestion.steps.iter().map(change).collect();
    let capacity = capacity(now);
    let title = title(&now.model, &now.workload);
    let input = Waterfall {
        title: &title,
        quantity: "peak memory that NVML shows",
        now: now.peak_nvml,
        changes: &changes,
        capacity: capacity.as_ref(),
    };
    Chart {
        name: "waterfall".to_owned(),
        scene: vramcast_chart::waterfall(&input),
    }
}

/// What changed between two runs: components with their layers, then the peaks.
pub(crate) fn difference(name: String, title: &str, caption: &str, changed: &Difference) -> Chart {
    let rows: Vec<Growth> = difference::lines(changed)
        .into_iter()
        .map(|line| Growth {
            bytes: line.change.growth(),
            value: match line.change.growth() {
                0 => line.size(line.change.after),
                _ => format!(
                    "{} to {}",
                    line.size(line.change.before),
                    line.size(line.change.after)
                ),
            },
            rank: line.rank,
            label: line.label,
        })
        .collect();
    let input = Growths {
        title,
        caption,
        rows: &rows,
    };
    Chart {
        name,
        scene: vramcast_chart::difference(&input),
    }
}

/// Peaks over batch and sequence, with what fits. `None` where neither a card nor a capacity is
/// named.
pub(crate) fn heatmap(question: &Question<'_>, grid: &Grid) -> Option<Chart> {
    let of_card = question.gpu.filter(|_| question.capacity.is_none());
    let capacity = room(question.capacity()?, of_card);
    let title = format!("{}, {}", question.model, question.workload.describe_kind());
    let input = HeatMap {
        title: &title,
        quantity: "peak memory that NVML shows",
        capacity: &capacity,
        batches: &grid.batches,
        seqs: &grid.seqs,
        peaks: &grid.peak_nvml,
        largest: &grid.largest,
    };
    Some(Chart {
        name: "frontier".to_owned(),
        scene: vramcast_chart::heatmap(&input),
    })
}

/// What levers save beside what is claimed of them.
pub(crate) fn savings(levers: &[Lever]) -> Chart {
    let input = Savings {
        title: "What levers save, beside the range that is claimed",
        quantity: "share of the highest allocated or requested bytes",
        levers,
    };
    Chart {
        name: "advice".to_owned(),
        scene: vramcast_chart::savings(&input),
    }
}

/// A histogram of the lengths of texts.
pub(crate) fn lengths(title: &str, texts: &Distribution, max_lengths: &[u64]) -> Chart {
    let counts: Vec<(u64, u64)> = texts.counts().collect();
    let quantiles = [
        ("p50", texts.quantile(50)),
        ("p95", texts.quantile(95)),
        ("p99", texts.quantile(99)),
        ("max", texts.longest()),
    ];
    let input = Lengths {
        title,
        texts: "documents",
        counts: &counts,
        quantiles: &quantiles,
        max_lengths,
    };
    Chart {
        name: "lengths".to_owned(),
        scene: vramcast_chart::lengths(&input),
    }
}

/// What a job must fit into.
fn capacity(prediction: &Prediction) -> Option<Capacity> {
    Some(room(prediction.capacity?, prediction.card_with_capacity()))
}

/// A capacity by the card that has it; one that was given stands instead of the card's.
fn room(bytes: Bytes, card: Option<&Gpu>) -> Capacity {
    let name = card.map_or("the given size", |card| card.product);
    Capacity {
        name: name.to_owned(),
        bytes,
    }
}

/// Predicted against measured, for every row of the ledger.
pub(crate) fn components(model: &str, workload: &Workload, entries: &[Entry]) -> Chart {
    let row = |e: &Entry| Component {
        label: e.label.to_owned(),
        predicted: e.predicted,
        measured: e.measured,
    };
    let rows: Vec<Component> = entries.iter().map(row).collect();
    let title = title(model, workload);
    let input = Components {
        title: &title,
        quantity: "memory at the peak",
        rows: &rows,
    };
    Chart {
        name: "components".to_owned(),
        scene: vramcast_chart::components(&input),
    }
}

fn title(model: &str, workload: &Workload) -> String {
    format!("{model}: {}", workload.describe())
}

/// Batches and sequences of the chart of peaks.
const BATCHES: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const SEQUENCES: [u64; 5] = [64, 128, 256, 384, 512];

/// Cards of the chart of peaks where none is asked for: one of each common size.
const CARDS: [&str; 5] = ["t4", "rtx-4090", "a100-40gb", "a100-80gb", "h200"];

/// What NVML will show over batch and sequence, with the capacities of several cards.
pub(crate) fn peaks(
    model: &str,
    config: &ModelConfig,
    workload: &Workload,
    gpu: Option<&'static Gpu>,
) -> Chart {
    let mut series = Vec::new();
    for seq in SEQUENCES
        .into_iter()
        .filter(|&seq| seq <= config.max_sequence())
    {
        let mut points = Vec::new();
        for batch in BATCHES {
            let workload = Workload {
                batch,
                seq,
                ..workload.clone()
            };
            // Far from what was asked there may be no answer; then there is no point.
            let answer = predict(&Question {
                gpu,
                effort: Effort::Expected,
                ..Question::new(model, config, &workload)
            });
            points.extend(answer.ok().map(|prediction| (batch, prediction.peak_nvml)));
        }
        series.push(Series {
            label: format!("sequence {seq}"),
            points,
        });
    }
    let cards: Vec<Capacity> = CARDS
        .into_iter()
        .chain(gpu.map(|g| g.name).filter(|name| !CARDS.contains(name)))
        .filter_map(gpu::find)
        .map(|g| Capacity {
            name: g.product.to_owned(),
            bytes: Bytes(g.capacity().0),
        })
        .collect();
    let what = Workload {
        batch: 1,
        seq: 1,
        ..workload.clone()
    }
    .describe();
    let what = what.replace(", batch 1, sequence 1", "");
    let title = format!("{model}: {what}, over batch and sequence");
    let input = Peaks {
        title: &title,
        quantity: "peak memory that NVML shows",
        along: "batch (sequences)",
        series: &series,
        cards: &cards,
    };
    Chart {
        name: "peaks".to_owned(),
        scene: vramcast_chart::peaks(&input),
    }
}

/// Predicted against measured over a whole suite of one runtime, one chart a figure.
pub(crate) fn suite(title: &str, runtime: Runtime, accuracy: &Accuracy) -> Vec<Chart> {
    let mut charts = Vec::new();
    for measure in measures(runtime) {
        let quantity = match measure.name {
            "nvml" => "peak memory that NVML shows".to_owned(),
            name => format!("peak {name} memory"),
        };
        let points: Vec<SuitePoint> = accuracy
            .rows
            .iter()
            .filter_map(|row| {
                let Figure {
                    predicted,
                    measured,
                    ..
                } = (measure.of)(row)?;
                let label = format!("{} {}", row.model, row.workload.describe());
                Some(SuitePoint {
                    label,
                    group: row.workload.mode,
                    predicted,
                    measured,
                })
            })
            .collect();
        if !points.is_empty() {
            let scene = vramcast_chart::suite(&Suite {
                title,
                quantity: &quantity,
                points: &points,
            });
            charts.push(Chart {
                name: measure.name.to_owned(),
                scene,
            });
        }
    }
    charts
}
