//! The forward graph of a BERT classifier in training, as Inductor fuses it (read in the code that
//! it generates, `TORCH_LOGS=output_code`).

use super::graph::{Graph, Id, Tuned, Work};
use super::shape::Shape;
use crate::dtype::DType;
use DType::{Bool, F32};

/// Something that the backward graph is given: its name there and its buffer here.
pub(super) type Saved = (String, Id);

/// The graph, its loss and what it saves.
pub(super) struct Forward {
    pub(super) graph: Graph,
    pub(super) loss: Id,
    pub(super) saved: Vec<Saved>,
}

impl Forward {
    pub(super) fn new(shape: Shape) -> Self {
        Builder {
            shape,
            graph: Graph::default(),
            saved: vec![],
        }
        .build()
    }
}

pub(super) struct Builder {
    pub(super) shape: Shape,
    pub(super) graph: Graph,
    saved: Vec<Saved>,
}

impl Builder {
    fn build(mut self) -> Forward {
        let Shape {
            seq, layers, dtype, ..
        } = self.shape;
        let gathered = self.graph.fused(&[], seq, DType::I64);
        self.save("gather", gathered);
        // One seed for each dropout that is not attention's.
        let seeds = self.graph.made_by(6, 2 * layers + 2, DType::I64);
        self.graph.run(Work::Fused, &[], &[seeds]);
        let (mut stream, mut hidden) = self.embeddings(gathered, seeds);
        let mut mask = None;
        let mut parts = vec![];
        if self.shape.checkpointing {
            self.save("inductor_seeds_default", seeds);
            parts = self.mask_parts();
        }
        for layer in 0..layers {
            if self.shape.checkpointing {
                (stream, hidden) = self.forget(layer, seeds, (stream, hidden), (&parts, &mut mask));
            } else {
                (stream, hidden) = self.layer(layer, seeds, (stream, hidden), &mut mask);
            }
        }
        let pooled = self.linear(6 * layers, hidden, true);
        self.save(format!("addmm_{}", 6 * layers), pooled);
        self.graph.skip(1);
        let kept = self.graph.made(self.shape.first(), Bool);
        let dropped = self.graph.made(self.shape.first(), dtype);
        let kernel = self
            .graph
            .run(Work::Fused, &[seeds, pooled], &[kept, dropped]);
        kernel.unmade = 4 * self.shape.first();
        kernel.tuned = Tuned::Once;
        self.save(format!("gt_{}", 2 * layers + 1), kept);
        self.save(format!("mul_{}", 11 * layers + 5), dropped);
        let logits = self.linear(6 * layers + 1, dropped, true);
        self.save(format!("addmm_{}", 6 * layers + 1), logits);
        let loss = self.loss(logits);
        self.graph.returns(loss);
        Forward {
            graph: self.graph,
            loss,
            saved: self.saved,
        }
    }

    /// A layer, from the stream and its copy for products.
    fn layer(
        &mut self,
        layer: u64,
        seeds: Id,
        (stream, hidden): (Id, Id),
        mask: &mut Option<Id>,
    ) -> (Id, Id) {
        let number = 6 * layer;
        let heads = [0, 1, 2].map(|i| self.linear(number + i, hidden, true));
        let names = [1, 3, 5].map(|i| format!("permute_{}", 10 * layer + i));
        for (name, head) in names.into_iter().zip(heads) {
            self.save(name, head);
        }
        let mask = *mask.get_or_insert_with(|| {
            let mask = self.graph.fused(&[], self.shape.mask(), self.shape.dtype);
            self.graph.tune_if(true, Tuned::Once);
            self.save(self.shape.mask_name(), mask);
            mask
        });
        let [query, key, value] = heads;
        let reads = [query, key, value, mask];
        let attended = self.shape.attended();
        let attended = self.graph.several(Work::Attention, &reads, &attended);
        for (part, name) in attended.iter().zip(self.shape.attended_names(layer)) {
            self.save(name, *part);
        }
        let projected = self.linear(number + 3, attended[0], self.shape.lowered);
        let of_attention = Norm { layer, second: 0 };
        let (stream, hidden) = self.norm(of_attention, seeds, projected, stream, hidden);
        let inner = self.linear(number + 4, hidden, true);
        self.save(format!("addmm_{}", number + 4), inner);
        let gelu = self
            .graph
            .fused(&[inner], self.shape.wide(), self.shape.dtype);
        self.graph.tune_if(layer == 0, Tuned::Once);
        self.save(format!("view_{}", 16 * layer + 14), gelu);
        let projected = self.linear(number + 5, gelu, self.shape.lowered);
        let of_layer = Norm { layer, second: 1 };
        self.norm(of_layer, seeds, projected, stream, hidden)
    }

    pub(super) fn save(&mut self, name: impl Into<String>, id: Id) {
        self.graph.returns(id);
        self.saved.push((name.into(), id));
    }

    /// The normalized sum of the embeddings before and after dropout.
    fn embeddings(&mut self, gathered: Id, seeds: Id) -> (Id, Id) {
        let n = self.shape.stream();
        self.graph.skip(4);
        let normalized = self.graph.made(n, F32);
        self.graph.skip(2);
        let kept = self.graph.made(n, Bool);
        let hidden = self.graph.made(n, self.shape.dtype);
        let deviation = self.deviation(0);
        let writes = [normalized, kept, hidden, deviation];
        let kernel = self.graph.run(Work::Fused, &[gathered, seeds], &writes);
        // The sum, which is normalized in place, the random numbers, and means and variances.
        kernel.unmade = 8 * n + 8 * self.shape.rows();
        self.save("mul", normalized);
        self.save("gt", kept);
        if !(self.shape.checkpointing && self.shape.lowered) {
            self.save(self.shape.input_name(0), hidden);
        }
        (normalized, hidden)
    }

    /// The reciprocal deviations of a norm, counted from the embeddings', of which the backward graph
    /// is given the last first. Their operations come after all others.
    fn deviation(&mut self, norm: u64) -> Id {
        let deviation = self.graph.made_by(u32::MAX, self.shape.rows(), F32);
        let name = format!("div_{}", 2 + 2 * self.shape.layers - norm);
        self.save(name, deviation);
        deviation
    }

    /// The linear layer of that number. Autocast's copies of its weight and bias are made beside it.
    pub(super) fn linear(&mut self, number: u64, x: Id, with_bias: bool) -> Id {
        let Shape { dtype, lowered, .. } = self.shape;
        let (rows, inputs, outputs) = self.shape.linear(number);
        let elements = rows.saturating_mul(outputs);
        if !lowered {
            return self.graph.product(&[x], with_bias, elements, dtype);
        }
        let is_new = self.shape.is_new(number);
        let weight = self.graph.fused(&[], inputs.saturating_mul(outputs), dtype);
        self.graph.tune_if(is_new, Tuned::Once);
        let bias = self.graph.fused(&[], outputs, dtype);
        self.graph.tune_if(is_new, Tuned::Once);
        let reads = [bias, x, weight];
        let out = self.graph.product(&reads, with_bias, elements, dtype);
        // A checkpointed layer makes it again.
        if !self.shape.checkpointing || number >= 6 * self.shape.layers {
            self.save(format!("permute_of_{number}"), weight);
        }
        out
    }

    /// What is added, normalized and dropped after a product: the stream and its copy for products.
    fn norm(&mut self, norm: Norm, seeds: Id, projected: Id, stream: Id, hidden: Id) -> (Id, Id) {
        let Shape {
            dtype,
            lowered,
            layers,
            ..
        } = self.shape;
        let (n, rows) = (self.shape.stream(), self.shape.rows());
        let last = norm.layer + 1 == layers && norm.second == 1;
        self.graph.skip(1);
        let kept = self.graph.made(n, Bool);
        // Means and variances; under autocast the sum as well.
        self.graph.skip(if lowered { 4 } else { 3 });
        let normalized = self.graph.made(n, F32);
        let deviation = self.deviation(1 + 2 * norm.layer + norm.second);
        let mut writes = vec![kept, normalized];
        // Under autocast nothing but the first token is read of the last layer's output.
        let out = (!(lowered && last)).then(|| self.graph.made(n, dtype));
        writes.extend(out);
        writes.push(deviation);
        let residual = if lowered { stream } else { hidden };
        let kernel = self
            .graph
            .run(Work::Fused, &[seeds, projected, residual], &writes);
        kernel.over = vec![(normalized, vec![projected])];
        kernel.unmade = 4 * n + 8 * rows + if lowered { 4 * n } else { 0 };
        self.save(format!("gt_{}", 2 * norm.layer + norm.second + 1), kept);
        let number = 11 * norm.layer + if norm.second == 1 { 13 } else { 6 };
        self.save(format!("mul_{number}"), normalized);
        let out = match out {
            Some(out) => out,
            None => self.graph.fused(&[normalized], self.shape.first(), dtype),
        };
        let name = if last {
            if lowered {
                "convert_element_type".to_owned()
            } else {
                "select".to_owned()
            }
        } else {
            format!(
                "view_{}",
                16 * norm.layer + if norm.second == 1 { 16 } else { 12 }
            )
        };
        self.save(name, out);
        (normalized, out)
    }

    /// The mean cross entropy, and what its gradient is computed from.
    fn loss(&mut self, logits: Id) -> Id {
        let Shape { batch, classes, .. } = self.shape;
        let all = batch * classes;
        if !self.shape.unrolls_batch() {
            self.graph.skip(1);
            let count = self.graph.made(1, F32);
            let loss = self.graph.made(1, F32);
            let labelled = self.graph.made(batch, Bool);
            let kernel = self
                .graph
                .run(Work::Fused, &[logits], &[loss, labelled, count]);
            kernel.unmade = 12;
            let chosen = self.graph.fused(&[labelled], all, Bool);
            self.save("convert_element_type_count", count);
            self.save("ne_3", labelled);
            self.save("eq_tensor", chosen);
            return loss;
        }
        if batch >= 4 {
            let count = self.graph.made(1, F32);
            let loss = self.graph.made(1, F32);
            self.graph
                .run(Work::Fused, &[logits], &[count, loss])
                .unmade = 4;
            let labelled = self.graph.fused(&[], batch, Bool);
            let chosen = self.graph.fused(&[labelled], all, Bool);
            self.save("convert_element_type_count", count);
            self.save("ne_3", labelled);
            self.save("eq_tensor", chosen);
            return loss;
        }
        let given = self.graph.made(batch, Bool);
        let loss = self.graph.made(1, F32);
        let labelled = self.graph.made(batch, Bool);
        self.graph.run(Work::Fused, &[], &[given, labelled]);
        self.graph
            .run(Work::Fused, &[given, logits], &[loss])
            .unmade = 4;
        let chosen = self.graph.fused(&[labelled], all, Bool);
        self.save("ne", given);
        self.save("ne_3", labelled);
        self.save("eq_tensor", chosen);
        loss
    }
}

/// Which of a layer's norms.
struct Norm {
    layer: u64,
    second: u64,
}
