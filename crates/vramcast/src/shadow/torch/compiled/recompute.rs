//! Checkpointed layers: what the forward graph makes of them when it saves nothing but their inputs,
//! and how the backward graph makes the rest again (read in the code that Inductor generates).

use super::backward::{Builder as Backward, Head, Inside, Normed, Stream};
use super::forward::Builder as Forward;
use super::graph::{Graph, Id, Tuned, Work};
use super::shape::Shape;
use crate::dtype::DType;
use DType::{Bool, F32};

/// The two vectors that the mask is made of: by position, and by position of each sequence.
fn mask_parts(shape: Shape) -> [(&'static str, u64); 2] {
    [("bitwise_and", shape.seq), ("index", shape.rows())]
}

impl Forward {
    pub(super) fn mask_parts(&mut self) -> Vec<Id> {
        let parts = mask_parts(self.shape).map(|(name, elements)| {
            let part = self.graph.fused(&[], elements, Bool);
            self.save(name, part);
            part
        });
        parts.to_vec()
    }

    /// A layer of which nothing is saved; its output is the next one's input.
    pub(super) fn forget(
        &mut self,
        layer: u64,
        seeds: Id,
        hidden: Id,
        (parts, mask): (&[Id], &mut Option<Id>),
    ) -> Id {
        let Shape { dtype, layers, .. } = self.shape;
        let n = self.shape.stream();
        let number = 6 * layer;
        let [query, key, value] = [0, 1, 2].map(|i| self.linear(number + i, hidden, true));
        let mask = *mask.get_or_insert_with(|| {
            let mask = self.graph.fused(parts, self.shape.mask(), dtype);
            self.graph.tune_if(true, Tuned::Once);
            mask
        });
        let reads = [query, key, value, mask];
        let attended = self.graph.several(Work::Attention, &reads, &[(n, dtype)])[0];
        self.graph.skip(3);
        let projected = self.linear(number + 3, attended, false);
        let middle = self.forget_norm(seeds, projected, hidden);
        let inner = self.linear(number + 4, middle, false);
        let gelu = self.graph.fused(&[inner], self.shape.wide(), dtype);
        self.graph.tune_if(layer == 0, Tuned::Once);
        over(&mut self.graph, gelu, inner);
        let projected = self.linear(number + 5, gelu, false);
        let out = self.forget_norm(seeds, projected, middle);
        if layer + 1 < layers {
            let name = self.shape.input_name(layer + 1);
            self.save(name, out);
        }
        out
    }

    fn forget_norm(&mut self, seeds: Id, projected: Id, residual: Id) -> Id {
        let n = self.shape.stream();
        self.graph.skip(4);
        let out = self.graph.made(n, F32);
        let kernel = self
            .graph
            .run(Work::Fused, &[seeds, projected, residual], &[out]);
        // The random numbers, whose place the output takes, means and variances.
        kernel.unmade = 4 * n + 8 * self.shape.rows();
        out
    }
}

impl Backward {
    /// A layer once more, through its second norm and back.
    pub(super) fn recompute(&mut self, layer: u64, above: &Stream, head: &mut Head) -> Inside {
        let Shape { dtype, layers, .. } = self.shape;
        let (n, wide, rows) = (self.shape.stream(), self.shape.wide(), self.shape.rows());
        let seeds = self.saved("inductor_seeds_default", 2 * layers + 2, DType::I64);
        let mask = match self.mask {
            Some(mask) => mask,
            None => {
                let parts = mask_parts(self.shape);
                let parts = parts.map(|(name, elements)| self.saved(name, elements, Bool));
                let mask = self.graph.fused(&parts, self.shape.mask(), dtype);
                *self.mask.insert(mask)
            }
        };
        if !above.is_first() {
            // The gradient of the norm was numbered before.
            self.graph.skip(2);
        }
        let input = self.saved(self.shape.input_name(layer), n, dtype);
        let heads = [(); 3].map(|()| self.graph.product(&[input], true, n, dtype));
        let reads = [heads[0], heads[1], heads[2], mask];
        let results = self.shape.attended();
        let attended = self.graph.several(Work::Attention, &reads, &results);
        // What only the gradient needs is taken out of the tuple when it is close.
        let mut later = vec![];
        if !above.is_first() {
            later = self.graph.kernels.split_off(self.graph.kernels.len() - 3);
        }
        let projected = self.graph.product(&[attended[0]], false, n, dtype);
        let kept = self.graph.made(n, F32);
        self.graph.skip(1);
        let deviation = self.graph.made(rows, F32);
        self.graph.skip(1);
        let values = self.graph.made(n, F32);
        let middle = self.graph.made(n, dtype);
        let writes = [kept, deviation, values, middle];
        let kernel = self
            .graph
            .run(Work::Fused, &[seeds, projected, input], &writes);
        kernel.over = vec![(values, vec![projected, input])];
        kernel.unmade = 4 * rows;
        let inner = self.graph.product(&[middle], false, wide, dtype);
        let gelu = self.graph.fused(&[inner], wide, dtype);
        self.graph.tune_if(above.is_first(), Tuned::Once);
        let projected = self.graph.product(&[gelu], false, n, dtype);
        let reads = [seeds, projected, middle];
        let (stream, dropped, output_norm) = self.norm_and_back(above, head, &reads);
        self.graph.kernels.extend(later);
        Inside {
            stream,
            dropped,
            output_norm,
            gelu,
            inner,
            middle,
            attention_norm: Normed {
                values,
                deviation,
                kept,
            },
            attended,
            heads,
            mask,
            input,
        }
    }

    /// A layer's second norm and its gradient, which are one kernel; the gradients of the pooler,
    /// which reads the last layer's output.
    fn norm_and_back(
        &mut self,
        above: &Stream,
        head: &mut Head,
        reads: &[Id],
    ) -> (Id, Id, [Id; 2]) {
        let Shape { dtype, hidden, .. } = self.shape;
        let (n, rows) = (self.shape.stream(), self.shape.rows());
        self.graph.skip(4);
        let values = self.graph.made(n, F32);
        let kernel = self.graph.kernels.len();
        self.graph.run(Work::Fused, &[], &[]);
        let mut writes = vec![values];
        // The random numbers, whose place the dropped gradient takes, means, variances and sums.
        let mut unmade = 4 * n + 16 * rows;
        if above.is_first() {
            let out = self.graph.made(n, dtype);
            self.pooler(head, out);
            self.graph.skip(2);
            writes.push(out);
        } else {
            self.graph.skip(1);
            unmade += 4 * n;
        }
        let stream = self.graph.made(n, F32);
        let terms = above.terms();
        let pair = self.norm_parameters(above, values, hidden);
        let dropped = self.graph.made(n, dtype);
        writes.insert(0, dropped);
        writes.push(stream);
        let tuned = above.is_first() && self.shape.scales_block();
        let kernel = &mut self.graph.kernels[kernel];
        kernel.reads = [terms, reads].concat();
        kernel.writes = writes;
        kernel.over = vec![(values, vec![reads[1]]), (stream, terms.to_vec())];
        kernel.unmade = unmade;
        if tuned {
            kernel.tuned = Tuned::Twice;
        }
        (stream, dropped, pair)
    }
}

/// Lets the last kernel write over what it reads.
fn over(graph: &mut Graph, write: Id, read: Id) {
    if let Some(kernel) = graph.kernels.last_mut() {
        kernel.over = vec![(write, vec![read])];
    }
}
