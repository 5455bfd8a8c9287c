//! Checkpointed layers: what the forward graph makes of them when it saves nothing but their inputs,
//! and how the backward graph makes the rest again (read in the code that Inductor generates).

use super::backward::{Builder as Backward, Head, Inside, Normed, Stream};
use super::forward::Builder as Forward;
use super::graph::{Graph, Id, Kernel, Tuned, Work};
use super::shape::Shape;
use crate::dtype::DType;
use DType::{Bool, F32};

/// The two vectors that the mask is made of: by position, and by position of each sequence.
fn mask_parts(shape: Shape) -> [(&'static str, u64); 2] {
    [("bitwise_and", shape.seq), ("index", shape.rows())]
}

impl Forward {
    /// The vectors that the mask is made of again, where that is cheaper than to save it.
    pub(super) fn mask_parts(&mut self) -> Vec<Id> {
        if self.shape.lowered {
            return vec![];
        }
        let parts = mask_parts(self.shape).map(|(name, elements)| {
            let part = self.graph.fused(&[], elements, Bool);
            self.save(name, part);
            part
        });
        parts.to_vec()
    }

    /// A layer of which nothing is saved, from the stream and its copy for products; its output is the
    /// next one's input.
    pub(super) fn forget(
        &mut self,
        layer: u64,
        seeds: Id,
        (stream, hidden): (Id, Id),
        (parts, mask): (&[Id], &mut Option<Id>),
    ) -> (Id, Id) {
        let Shape {
            dtype,
            layers,
            lowered,
            ..
        } = self.shape;
        let n = self.shape.stream();
        let number = 6 * layer;
        let [query, key, value] = [0, 1, 2].map(|i| self.linear(number + i, hidden, true));
        let mask = *mask.get_or_insert_with(|| {
            let mask = self.graph.fused(parts, self.shape.mask(), dtype);
            self.graph.tune_if(true, Tuned::Once);
            if lowered {
                self.save(self.shape.mask_name(), mask);
            }
            mask
        });
        let reads = [query, key, value, mask];
        let attended = self.graph.several(Work::Attention, &reads, &[(n, dtype)])[0];
        self.graph.skip(3);
        let projected = self.linear(number + 3, attended, lowered);
        let residual = if lowered { stream } else { hidden };
        // The embeddings' sum is normalized once more.
        let again = lowered && layer == 0;
        let (stream, middle) = self.forget_norm([seeds, projected, residual], again);
        let inner = self.linear(number + 4, middle, lowered);
        let gelu = self.graph.fused(&[inner], self.shape.wide(), dtype);
        self.graph.tune_if(layer == 0, Tuned::Once);
        over(&mut self.graph, gelu, inner);
        let projected = self.linear(number + 5, gelu, lowered);
        let residual = if lowered { stream } else { middle };
        let reads = [seeds, projected, residual];
        if layer + 1 == layers && lowered {
            return self.forget_last_norm(reads);
        }
        let (stream, out) = self.forget_norm(reads, false);
        if layer + 1 < layers {
            self.save(self.shape.input_name(layer + 1), stream);
        }
        (stream, out)
    }

    /// The stream and its copy for products, which is itself unless products are lowered.
    fn forget_norm(&mut self, reads: [Id; 3], again: bool) -> (Id, Id) {
        let n = self.shape.stream();
        self.graph.skip(4 + u32::from(again));
        let stream = self.graph.made(n, F32);
        let mut writes = vec![stream];
        if self.shape.lowered {
            writes.push(self.graph.made(n, self.shape.dtype));
        }
        let kernel = self.graph.run(Work::Fused, &reads, &writes);
        // The random numbers, whose place the output takes, means and variances.
        kernel.unmade = 4 * n + 8 * self.shape.rows() + if again { 4 * n } else { 0 };
        (stream, *writes.last().unwrap_or(&stream))
    }

    /// The last norm, of which only the first token is lowered.
    fn forget_last_norm(&mut self, [seeds, projected, residual]: [Id; 3]) -> (Id, Id) {
        let (n, rows) = (self.shape.stream(), self.shape.rows());
        let random = self.graph.made(n, F32);
        let [mean, variance] = [(); 2].map(|()| self.graph.made(rows, F32));
        let writes = [random, mean, variance];
        self.graph
            .run(Work::Fused, &[seeds, projected, residual], &writes);
        self.graph.skip(1);
        let reads = [random, projected, residual, mean, variance];
        let token = self
            .graph
            .fused(&reads, self.shape.first(), self.shape.dtype);
        self.graph.tune_if(true, Tuned::Once);
        self.save("convert_element_type", token);
        (residual, token)
    }
}

impl Backward {
    /// A layer once more, through its second norm and back.
    pub(super) fn recompute(&mut self, layer: u64, above: &Stream, head: &mut Head) -> Inside {
        let Shape { dtype, lowered, .. } = self.shape;
        let number = 6 * layer;
        let mask = self.mask_again();
        // The gradient of the norm was numbered before.
        self.graph.skip(match (above.is_first(), lowered) {
            (false, _) => 2,
            (true, true) => 1,
            (true, false) => 0,
        });
        let (stream, input) = self.input(layer);
        let heads = [0, 1, 2].map(|i| self.linear_again(number + i, input, true));
        let reads = [heads[0], heads[1], heads[2], mask];
        let results = self.shape.attended();
        let attended = self.graph.several(Work::Attention, &reads, &results);
        // What only the gradient needs is taken out of the tuple when it is close.
        let mut later = vec![];
        if lowered || !above.is_first() {
            later = self.graph.kernels.split_off(self.graph.kernels.len() - 3);
        }
        let projected = self.linear_again(number + 3, attended[0], lowered);
        let (attention_norm, middle) = self.norm_again(layer, projected, &stream);
        let inner = self.linear_again(number + 4, middle, lowered);
        let gelu = self.graph.fused(&[inner], self.shape.wide(), dtype);
        self.graph.tune_if(above.is_first(), Tuned::Once);
        let projected = self.linear_again(number + 5, gelu, lowered);
        let residual = if lowered {
            attention_norm.stream
        } else {
            middle
        };
        let reads = [self.seeds(), projected, residual];
        let second = match (lowered, above.is_first(), layer) {
            (true, true, _) => self.lowered_last_norm(above, &reads, later),
            (true, false, 1..) => self.lowered_norm(above, &reads, later),
            _ => self.norm_and_back(above, head, &reads, later),
        };
        let (stream, dropped, output_norm) = second;
        Inside {
            stream,
            dropped,
            output_norm,
            gelu,
            inner,
            middle,
            attention_norm,
            attended,
            heads,
            mask,
            input,
        }
    }

    fn seeds(&mut self) -> Id {
        let count = 2 * self.shape.layers + 2;
        self.saved("inductor_seeds_default", count, DType::I64)
    }

    /// The mask, which was saved if products are lowered.
    fn mask_again(&mut self) -> Id {
        let Shape { dtype, lowered, .. } = self.shape;
        if let Some(mask) = self.mask {
            return mask;
        }
        let mask = if lowered {
            self.saved(self.shape.mask_name(), self.shape.mask(), dtype)
        } else {
            let parts = mask_parts(self.shape);
            let parts = parts.map(|(name, elements)| self.saved(name, elements, Bool));
            self.graph.fused(&parts, self.shape.mask(), dtype)
        };
        *self.mask.insert(mask)
    }

    /// What a layer starts from: what its residual is computed from, and the input of its products.
    fn input(&mut self, layer: u64) -> (Vec<Id>, Id) {
        let n = self.shape.stream();
        let stream = if self.shape.lowered && layer == 0 {
            vec![self.saved("gt", n, Bool), self.saved("mul", n, F32)]
        } else {
            vec![self.saved(self.shape.input_name(layer), n, F32)]
        };
        let input = if self.shape.lowered {
            self.graph.fused(&stream, n, self.shape.dtype)
        } else {
            stream[0]
        };
        (stream, input)
    }

    /// A linear layer once more. Autocast's copy of its weight serves its gradient, too.
    fn linear_again(&mut self, number: u64, x: Id, with_bias: bool) -> Id {
        let Shape { dtype, lowered, .. } = self.shape;
        let (rows, inputs, outputs) = self.shape.linear(number);
        let elements = rows.saturating_mul(outputs);
        if !lowered {
            return self.graph.product(&[x], with_bias, elements, dtype);
        }
        let weight = self.graph.fused(&[], inputs.saturating_mul(outputs), dtype);
        let bias = self.graph.fused(&[], outputs, dtype);
        self.copies.insert(number, weight);
        self.graph
            .product(&[bias, x, weight], with_bias, elements, dtype)
    }

    /// A layer's first norm once more, and the copy of its result for products.
    fn norm_again(&mut self, layer: u64, projected: Id, stream: &[Id]) -> (Normed, Id) {
        let Shape { dtype, lowered, .. } = self.shape;
        let (n, rows) = (self.shape.stream(), self.shape.rows());
        let seeds = self.seeds();
        let reads = [&[seeds, projected], stream].concat();
        let kept = self.graph.made(n, F32);
        if lowered && layer == 0 {
            // The embeddings are normalized on the way, so the sum is kept, and not its norm.
            let sum = self.graph.made(n, F32);
            let [mean, variance] = [(); 2].map(|()| self.graph.made(rows, F32));
            self.graph.skip(1);
            let normalized = self.graph.made(n, F32);
            let middle = self.graph.made(n, dtype);
            let writes = [kept, sum, mean, variance, normalized, middle];
            self.graph.run(Work::Fused, &reads, &writes);
            let normed = Normed {
                values: vec![sum, mean, variance],
                others: vec![kept],
                stream: normalized,
            };
            return (normed, middle);
        }
        self.graph.skip(1);
        let deviation = self.graph.made(rows, F32);
        self.graph.skip(1);
        let values = self.graph.made(n, F32);
        let middle = self.graph.made(n, dtype);
        let writes = [kept, deviation, values, middle];
        let kernel = self.graph.run(Work::Fused, &reads, &writes);
        kernel.over = vec![(values, [&[projected], stream].concat())];
        kernel.unmade = 4 * rows;
        let normed = Normed {
            values: vec![values],
            others: vec![deviation, kept],
            stream: values,
        };
        (normed, middle)
    }

    /// A layer's second norm and its gradient, which are one kernel; the gradients of the pooler,
    /// which reads the last layer's output.
    fn norm_and_back(
        &mut self,
        above: &Stream,
        head: &mut Head,
        reads: &[Id],
        later: Vec<Kernel>,
    ) -> (Id, Id, [Id; 2]) {
        let Shape { dtype, hidden, .. } = self.shape;
        let (n, rows) = (self.shape.stream(), self.shape.rows());
        self.graph.skip(4);
        let values = self.graph.made(n, F32);
        let kernel = self.graph.kernels.len();
        self.graph.run(Work::Fused, &[], &[]);
        self.graph.kernels.extend(later);
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
        let pair = self.norm_parameters(above, &[values], hidden);
        let dropped = self.graph.made(n, dtype);
        writes.push(stream);
        // Lowered, the dropped gradient has no such place.
        let (place, rewritten) = match self.shape.lowered {
            true => (writes.len(), stream),
            false => (0, dropped),
        };
        writes.insert(place, dropped);
        let tuned = above.is_first() && self.shape.scales_block();
        let kernel = &mut self.graph.kernels[kernel];
        kernel.reads = [terms, reads].concat();
        kernel.writes = writes;
        kernel.over = vec![(values, reads[1..].to_vec()), (stream, terms.to_vec())];
        kernel.rewritten = vec![rewritten];
        kernel.unmade = unmade;
        if tuned {
            kernel.tuned = Tuned::Twice;
        }
        (stream, dropped, pair)
    }

    /// [`Self::norm_and_back`] of the last layer where products are lowered: what the gradients of the
    /// weight and the bias need is written out.
    fn lowered_last_norm(
        &mut self,
        above: &Stream,
        reads: &[Id],
        later: Vec<Kernel>,
    ) -> (Id, Id, [Id; 2]) {
        let (n, rows) = (self.shape.stream(), self.shape.rows());
        let random = self.graph.made(n, F32);
        let sum = self.graph.made(n, F32);
        let [mean, variance] = [(); 2].map(|()| self.graph.made(rows, F32));
        self.graph.skip(2);
        let stream = self.graph.made(n, F32);
        let writes = [random, sum, mean, variance, stream];
        self.write_norm(above, reads, &writes, later, 8 * rows)
    }

    /// [`Self::norm_and_back`] of a layer between where products are lowered.
    fn lowered_norm(
        &mut self,
        above: &Stream,
        reads: &[Id],
        later: Vec<Kernel>,
    ) -> (Id, Id, [Id; 2]) {
        let (n, rows) = (self.shape.stream(), self.shape.rows());
        self.graph.skip(1);
        let sum = self.graph.made(n, F32);
        let [mean, variance] = [(); 2].map(|()| self.graph.made(rows, F32));
        self.graph.skip(2);
        let stream = self.graph.made(n, F32);
        let writes = [sum, stream, mean, variance];
        self.write_norm(above, reads, &writes, later, 8 * n + 8 * rows)
    }

    /// The kernel that makes these, the sum, the mean, the variance and the stream among them.
    fn write_norm(
        &mut self,
        above: &Stream,
        reads: &[Id],
        writes: &[Id],
        later: Vec<Kernel>,
        unmade: u64,
    ) -> (Id, Id, [Id; 2]) {
        let Shape { dtype, hidden, .. } = self.shape;
        let kernel = self.graph.kernels.len();
        self.graph.run(Work::Fused, &[], &[]);
        self.graph.kernels.extend(later);
        let terms = above.terms();
        let (stream, values) = match *writes {
            [_, sum, mean, variance, stream] => (stream, [sum, mean, variance]),
            [sum, stream, mean, variance] => (stream, [sum, mean, variance]),
            _ => unreachable!("a norm writes four buffers or five"),
        };
        let pair = self.norm_parameters(above, &values, hidden);
        let dropped = self.graph.made(self.shape.stream(), dtype);
        let tuned = above.is_first() && self.shape.scales_block();
        let kernel = &mut self.graph.kernels[kernel];
        kernel.reads = [terms, reads].concat();
        kernel.writes = [writes, &[dropped]].concat();
        kernel.over = vec![(stream, terms.to_vec())];
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
