//! Which buffers of a graph take the memory of others, and when the rest dies
//! (torch/_inductor/codegen/wrapper.py, `memory_plan_reuse`; scheduler.py, `decide_inplace_update`
//! and `free_buffers`).

use super::graph::{Buffer, Graph, Id, Source};
use super::order::{estimate, order};
use crate::dtype::DType;
use std::collections::BTreeMap;

/// What the generated code does, line by line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Takes memory for a buffer.
    Allocate(Id),
    /// Gives the memory of one buffer to another.
    Reuse { from: Id, to: Id },
    /// Runs the kernel of that number.
    Run(usize),
    /// Gives a buffer back.
    Free(Id),
}

/// A graph and the code that was generated for it.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) graph: Graph,
    pub(super) lines: Vec<Line>,
}

impl Plan {
    pub(super) fn new(graph: Graph) -> Self {
        let order = order(&graph);
        let lines = reuse(&graph, &order, lifetimes(&graph, &order));
        Self { graph, lines }
    }
}

/// A line, and the place in the order of the kernel that it belongs to.
type Placed = (Line, usize);

/// Every buffer is allocated where it is made and dies after its last use, unless it is written over.
fn lifetimes(graph: &Graph, order: &[usize]) -> Vec<Placed> {
    let mut left: Vec<usize> = graph.readers().iter().map(Vec::len).collect();
    let mut lines = vec![];
    for (place, &number) in order.iter().enumerate() {
        let kernel = &graph.kernels[number];
        let mut dying: Vec<Id> = kernel.writes.clone();
        for &id in &kernel.reads {
            if !dying.contains(&id) {
                left[id] -= 1;
                dying.push(id);
            }
        }
        dying.retain(|&id| left[id] == 0 && !graph.buffers[id].returned);
        for &write in &kernel.writes {
            let candidates = kernel.over.iter().find(|(out, _)| *out == write);
            let candidates = candidates.map_or(&[][..], |(_, reads)| reads);
            let like = |id: Id| like(&graph.buffers[id]);
            let found = candidates
                .iter()
                .find(|id| dying.contains(id) && like(**id) == like(write));
            if let Some(&from) = found {
                dying.retain(|&id| id != from);
                lines.push((Line::Reuse { from, to: write }, place));
            } else if graph.buffers[write].source == Source::Made {
                lines.push((Line::Allocate(write), place));
            }
        }
        lines.push((Line::Run(number), place));
        dying.sort_unstable_by_key(|&id| &graph.buffers[id].name);
        lines.extend(dying.into_iter().map(|id| (Line::Free(id), place)));
    }
    lines
}

/// What a buffer must share with another to take its memory.
type Like = (u64, DType);

fn like(buffer: &Buffer) -> Like {
    (buffer.bytes, buffer.dtype)
}

/// A buffer that died: in which line, and after which kernel.
struct Dead {
    line: usize,
    id: Id,
    place: usize,
}

/// A fresh buffer takes the memory of the last one of its type and size that died, if it died just
/// before, or if keeping it until now does not raise the estimated peak.
fn reuse(graph: &Graph, order: &[usize], lines: Vec<Placed>) -> Vec<Line> {
    let mut live = estimate(graph, order);
    let peak = live.iter().copied().max().unwrap_or(0);
    let mut pool: BTreeMap<Like, Vec<Dead>> = BTreeMap::new();
    let mut planned: Vec<Option<Line>> = Vec::with_capacity(lines.len());
    for (line, place) in lines {
        let mut next = line;
        match line {
            Line::Allocate(id) => {
                let buffer = &graph.buffers[id];
                let dead = pool.entry(like(buffer)).or_default();
                if let Some(&Dead {
                    line,
                    id: from,
                    place: died,
                }) = dead.last()
                {
                    let between = &mut live[died + 1..place];
                    let most = between.iter().copied().max();
                    if most.is_none_or(|most| most + buffer.bytes <= peak) {
                        between.iter_mut().for_each(|live| *live += buffer.bytes);
                        dead.pop();
                        planned[line] = None;
                        next = Line::Reuse { from, to: id };
                    }
                }
            }
            Line::Free(id) => {
                let buffer = &graph.buffers[id];
                if matches!(buffer.source, Source::Made | Source::Part) {
                    let line = planned.len();
                    pool.entry(like(buffer))
                        .or_default()
                        .push(Dead { line, id, place });
                }
            }
            Line::Reuse { .. } | Line::Run(_) => {}
        }
        planned.push(Some(next));
    }
    planned.into_iter().flatten().collect()
}
