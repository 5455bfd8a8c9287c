//! The order in which Inductor runs the kernels of a graph: that of the operations, or one of three
//! others if it is estimated to need less memory (torch/_inductor/memory.py,
//! `reorder_for_peak_memory`).

use super::graph::{Graph, Id, Source};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// The numbers of the kernels in the order in which they run.
pub(super) fn order(graph: &Graph) -> Vec<usize> {
    let relations = Relations::new(graph);
    let given: Vec<usize> = (0..graph.kernels.len()).collect();
    let orders = [
        given,
        relations.least_memory_first(),
        relations.breadth_first(),
        relations.depth_first(),
    ];
    let cost = |order: &Vec<usize>| peak(graph, order);
    // The first of equals.
    orders.into_iter().min_by_key(cost).unwrap_or_default()
}

fn peak(graph: &Graph, order: &[usize]) -> u64 {
    estimate(graph, order).into_iter().max().unwrap_or(0)
}

/// Bytes that are estimated to live while each kernel runs, and after the last one
/// (`estimate_peak_memory`).
pub(super) fn estimate(graph: &Graph, order: &[usize]) -> Vec<u64> {
    let mut last_use = vec![None; graph.buffers.len()];
    for (step, &number) in order.iter().enumerate() {
        let kernel = &graph.kernels[number];
        for &id in kernel.reads.iter().chain(&kernel.writes) {
            last_use[id] = Some(step);
        }
    }
    let mut taken = vec![0u64; order.len() + 1];
    let mut freed = vec![0u64; order.len() + 1];
    for (id, buffer) in graph.buffers.iter().enumerate() {
        let Some(last) = last_use[id] else { continue };
        if buffer.source == Source::Given {
            taken[0] += buffer.bytes;
        }
        if !buffer.returned {
            freed[last + 1] += graph.given_back(id);
        }
    }
    for (step, &number) in order.iter().enumerate() {
        let kernel = &graph.kernels[number];
        let made: u64 = kernel.writes.iter().map(|&id| graph.taken(id)).sum();
        taken[step] += made + kernel.unmade;
        freed[step + 1] += kernel.unmade;
    }
    let mut live = 0;
    let steps = taken.into_iter().zip(freed);
    steps
        .map(|(taken, freed)| {
            live = live + taken - freed;
            live
        })
        .collect()
}

/// Which kernels wait for which.
struct Relations<'a> {
    graph: &'a Graph,
    readers: Vec<Vec<usize>>,
    before: Vec<BTreeSet<usize>>,
    after: Vec<BTreeSet<usize>>,
    /// Bytes that each kernel makes.
    size: Vec<u64>,
}

impl<'a> Relations<'a> {
    fn new(graph: &'a Graph) -> Self {
        let count = graph.kernels.len();
        let readers = graph.readers();
        let (mut before, mut after) = (vec![BTreeSet::new(); count], vec![BTreeSet::new(); count]);
        let mut size = vec![0; count];
        for (number, kernel) in graph.kernels.iter().enumerate() {
            size[number] = kernel.unmade;
            for &id in &kernel.writes {
                size[number] += graph.taken(id);
                for &reader in &readers[id] {
                    before[reader].insert(number);
                    after[number].insert(reader);
                }
            }
        }
        Self {
            graph,
            readers,
            before,
            after,
            size,
        }
    }

    fn reads(&self, number: usize) -> BTreeSet<Id> {
        self.graph.kernels[number].reads.iter().copied().collect()
    }

    /// `topological_sort_lpmf`: of what fits below the peak so far, that which leaves least.
    fn least_memory_first(&self) -> Vec<usize> {
        let graph = self.graph;
        let count = graph.kernels.len();
        let mut waits: Vec<usize> = self.before.iter().map(BTreeSet::len).collect();
        let mut uses: Vec<usize> = self.readers.iter().map(Vec::len).collect();
        let (mut live, mut returned) = (0, 0);
        for (id, buffer) in graph.buffers.iter().enumerate() {
            uses[id] += usize::from(buffer.returned);
            if buffer.source == Source::Given && !self.readers[id].is_empty() {
                live += buffer.bytes;
            }
            if buffer.returned {
                returned += graph.given_back(id);
            }
        }
        let mut most = live.max(returned);
        let mut frees = vec![0; count];
        for (number, kernel) in graph.kernels.iter().enumerate() {
            let last = self.reads(number).into_iter().filter(|&id| uses[id] == 1);
            let unused = kernel.writes.iter().copied().filter(|&id| uses[id] == 0);
            let bytes = last.chain(unused).map(|id| graph.given_back(id));
            frees[number] = bytes.sum::<u64>() + kernel.unmade;
        }
        let mut ready: BTreeSet<usize> = (0..count).filter(|&n| waits[n] == 0).collect();
        let mut order = Vec::with_capacity(count);
        loop {
            let room = most - live;
            let cost = |&n: &usize| {
                let beyond = if self.size[n] > room { self.size[n] } else { 0 };
                (beyond, self.size[n] as i128 - i128::from(frees[n]), n)
            };
            let Some(next) = ready.iter().copied().min_by_key(cost) else {
                return order;
            };
            ready.remove(&next);
            order.push(next);
            live += self.size[next];
            most = most.max(live);
            live -= frees[next];
            for &other in &self.after[next] {
                waits[other] -= 1;
                if waits[other] == 0 {
                    ready.insert(other);
                }
            }
            for id in self.reads(next) {
                uses[id] -= 1;
                if uses[id] == 1 {
                    for &reader in &self.readers[id] {
                        frees[reader] += graph.given_back(id);
                    }
                }
            }
        }
    }

    /// `topological_sort_bfs`: that whose predecessors ran first.
    fn breadth_first(&self) -> Vec<usize> {
        let mut waits: Vec<usize> = self.before.iter().map(BTreeSet::len).collect();
        let mut place = vec![0; waits.len()];
        let mut ready = BinaryHeap::new();
        let first = waits.iter().enumerate().filter(|(_, waits)| **waits == 0);
        ready.extend(first.map(|(number, _)| Reverse((vec![], number))));
        let mut order = Vec::with_capacity(waits.len());
        while let Some(Reverse((_, next))) = ready.pop() {
            place[next] = order.len();
            order.push(next);
            for &other in &self.after[next] {
                waits[other] -= 1;
                if waits[other] == 0 {
                    let mut places: Vec<usize> =
                        self.before[other].iter().map(|&n| place[n]).collect();
                    places.sort_unstable();
                    ready.push(Reverse((places, other)));
                }
            }
        }
        order
    }

    /// `topological_sort_dfs`: by the bytes that a kernel touches, after what it waits for.
    fn depth_first(&self) -> Vec<usize> {
        let touched = |number: usize| {
            let reads = self.reads(number).into_iter();
            self.size[number] + reads.map(|id| self.graph.given_back(id)).sum::<u64>()
        };
        let weights: Vec<u64> = (0..self.size.len()).map(touched).collect();
        let sorted = |numbers: &mut dyn Iterator<Item = usize>| {
            let mut numbers: Vec<usize> = numbers.collect();
            numbers.sort_unstable_by_key(|&n| (weights[n], n));
            numbers
        };
        let mut seen = vec![false; weights.len()];
        let mut order = Vec::with_capacity(weights.len());
        // What is left to visit, the next one last; a kernel comes back once all before it are done.
        let mut stack: Vec<(usize, bool)> = sorted(&mut (0..weights.len()))
            .into_iter()
            .rev()
            .map(|n| (n, false))
            .collect();
        while let Some((number, done)) = stack.pop() {
            if done {
                order.push(number);
            } else if !std::mem::replace(&mut seen[number], true) {
                stack.push((number, true));
                let before = sorted(&mut self.before[number].iter().copied());
                stack.extend(before.into_iter().rev().map(|n| (n, false)));
            }
        }
        order
    }
}
