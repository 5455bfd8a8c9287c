//! The backward graph of a BERT classifier, as Inductor fuses it (read in the code that it
//! generates, `TORCH_LOGS=output_code`).

use super::graph::{Graph, Id, Tuned, Work};
use super::shape::Shape;
use super::split::parts;
use crate::dtype::DType;
use DType::{Bool, F32, I64};
use std::collections::BTreeMap;

/// The graph, what it is given, and the gradients in the order of the parameters.
pub(super) struct Backward {
    pub(super) graph: Graph,
    pub(super) given: Vec<(String, Id)>,
    pub(super) gradients: Vec<Id>,
}

impl Backward {
    pub(super) fn new(shape: Shape) -> Self {
        Builder {
            shape,
            graph: Graph::default(),
            given: vec![],
            layers: vec![],
            mask: None,
            copies: BTreeMap::new(),
        }
        .build()
    }
}

pub(super) struct Builder {
    pub(super) shape: Shape,
    pub(super) graph: Graph,
    given: Vec<(String, Id)>,
    /// The gradients of each layer's parameters, the last layer's first.
    layers: Vec<Vec<Id>>,
    /// Of checkpointed layers: the mask that all of them share, and the lowered weights.
    pub(super) mask: Option<Id>,
    pub(super) copies: BTreeMap<u64, Id>,
}

/// What a norm's gradient needs.
pub(super) struct Normed {
    /// The normalized values, or what they are computed from: all that the gradients of the weight
    /// and the bias need.
    pub(super) values: Vec<Id>,
    /// Deviations, and what dropout kept.
    pub(super) others: Vec<Id>,
    /// What the residual is computed from.
    pub(super) stream: Id,
}

/// What a layer's gradient needs below its second norm, whose own gradient is `stream` along the
/// residual and `dropped` down the layer.
pub(super) struct Inside {
    pub(super) stream: Id,
    pub(super) dropped: Id,
    pub(super) output_norm: Pair,
    pub(super) gelu: Id,
    /// Before the function.
    pub(super) inner: Id,
    /// The input of the feed-forward part.
    pub(super) middle: Id,
    pub(super) attention_norm: Normed,
    pub(super) attended: Vec<Id>,
    pub(super) heads: [Id; 3],
    pub(super) mask: Id,
    pub(super) input: Id,
}

/// What is left of the head once its gradient reached the last layer.
pub(super) struct Head {
    /// The gradient of the pooler's output, and the kernel that makes it.
    pub(super) of_tanh: Id,
    kernel: usize,
    /// The gradients of the classifier.
    classifier: Pair,
    /// The pooler's, where its input was saved.
    pooler: Option<Pair>,
}

/// The gradients of a weight and a bias.
pub(super) type Pair = [Id; 2];

impl Builder {
    fn build(mut self) -> Backward {
        let (token, mut head) = self.head();
        let mut stream = Stream::FirstToken(token);
        for layer in (0..self.shape.layers).rev() {
            let inside = if self.shape.checkpointing {
                self.recompute(layer, &stream, &mut head)
            } else {
                self.remember(layer, &stream)
            };
            stream = self.inside(layer, inside);
        }
        let mut gradients = self.embeddings(&stream);
        self.layers.reverse();
        gradients.extend(self.layers.iter().flatten());
        gradients.extend(head.pooler.into_iter().flatten());
        gradients.extend(head.classifier);
        for &gradient in &gradients {
            self.graph.returns(gradient);
        }
        Backward {
            graph: self.graph,
            given: self.given,
            gradients,
        }
    }

    /// What the forward graph saved under a name.
    pub(super) fn saved(&mut self, name: impl Into<String>, elements: u64, dtype: DType) -> Id {
        let name = name.into();
        if let Some((_, id)) = self.given.iter().find(|(given, _)| *given == name) {
            return *id;
        }
        let bytes = elements.saturating_mul(dtype.bits()) / 8;
        let id = self.graph.given(name.clone(), bytes, dtype);
        self.given.push((name, id));
        id
    }

    /// The weight copy that a product reads, where autocast made one.
    fn weight(&mut self, number: u64) -> Option<Id> {
        if let Some(copy) = self.copies.get(&number) {
            return Some(*copy);
        }
        let (_, inputs, outputs) = self.shape.linear(number);
        let lowered = self.shape.lowered;
        let name = format!("permute_of_{number}");
        lowered.then(|| self.saved(name, inputs * outputs, self.shape.dtype))
    }

    /// The gradient of a linear layer's input.
    pub(super) fn input_gradient(&mut self, number: u64, gradient: Id) -> Id {
        let (rows, inputs, _) = self.shape.linear(number);
        let reads: Vec<Id> = [gradient].into_iter().chain(self.weight(number)).collect();
        let elements = rows.saturating_mul(inputs);
        self.graph
            .product(&reads, false, elements, self.shape.dtype)
    }

    /// The gradient of a linear layer's weight, in the type of the products.
    fn weight_gradient(&mut self, number: u64, gradient: Id, input: Id) -> Id {
        let (_, inputs, outputs) = self.shape.linear(number);
        let elements = inputs.saturating_mul(outputs);
        self.graph
            .product(&[gradient, input], false, elements, self.shape.dtype)
    }

    /// The weight's gradient in the type of the weight.
    fn raised(&mut self, number: u64, gradient: Id) -> Id {
        let (_, inputs, outputs) = self.shape.linear(number);
        if !self.shape.lowered {
            return gradient;
        }
        let raised = self
            .graph
            .fused(&[gradient], inputs.saturating_mul(outputs), F32);
        self.graph.tune_if(self.shape.is_new(number), Tuned::Once);
        raised
    }

    /// The gradient of a bias: a sum down the rows, in two kernels where it is split.
    fn bias_gradient(&mut self, gradient: Id, columns: u64) -> Id {
        let parts = parts(self.shape.card, self.shape.rows(), columns);
        if parts == 1 {
            return self.graph.fused(&[gradient], columns, F32);
        }
        let partial = self.graph.fused(&[gradient], parts * columns, F32);
        self.graph.fused(&[partial], columns, F32)
    }

    /// All three gradients of a linear layer, whose input was saved.
    fn linear(&mut self, number: u64, gradient: Id, input: Id) -> (Id, Pair) {
        let (_, _, outputs) = self.shape.linear(number);
        let to_input = self.input_gradient(number, gradient);
        let weight = self.weight_gradient(number, gradient, input);
        let bias = self.bias_gradient(gradient, outputs);
        let weight = self.raised(number, weight);
        (to_input, [weight, bias])
    }

    /// From the loss to the first token's stream.
    fn head(&mut self) -> (Id, Head) {
        let Shape {
            batch,
            classes,
            layers,
            dtype,
            lowered,
            ..
        } = self.shape;
        let (first, all) = (self.shape.first(), batch * classes);
        let (pooler, classifier) = (6 * layers, 6 * layers + 1);
        let labelled = self.saved("ne_3", batch, Bool);
        let chosen = self.saved("eq_tensor", all, Bool);
        let counted = if batch < 4 {
            self.saved("ne", batch, Bool)
        } else {
            self.saved("convert_element_type_count", 1, F32)
        };
        let logits = self.saved(format!("addmm_{classifier}"), all, dtype);
        // With few sequences the choice is looked at again.
        let (reads, again) = if batch < 4 {
            (vec![labelled, counted], vec![chosen])
        } else {
            (
                vec![chosen, labelled, counted],
                vec![chosen, labelled, counted],
            )
        };
        let sums = self.graph.fused(&reads, batch, F32);
        self.graph.skip(u32::from(lowered));
        let of_logits = self.graph.made(all, dtype);
        let reads: Vec<Id> = again.into_iter().chain([logits, sums]).collect();
        let unmade = if lowered { 4 * all } else { 0 };
        let kernel = self.graph.run(Work::Fused, &reads, &[of_logits]);
        kernel.unmade = unmade;
        let kernel = self.graph.kernels.len() - 1;
        let dropped = self.input_gradient(classifier, of_logits);
        let kept = self.saved(format!("mul_{}", 11 * layers + 5), first, dtype);
        let weight = self.weight_gradient(classifier, of_logits, kept);
        let bias = self.sum_of_batch(kernel, of_logits, classes);
        let classifier_pair = [self.raised(classifier, weight), bias];

        let mask = self.saved(format!("gt_{}", 2 * layers + 1), first, Bool);
        let before = self.saved(format!("addmm_{pooler}"), first, dtype);
        let of_tanh = self.graph.made(first, dtype);
        let kernel = self
            .graph
            .run(Work::Fused, &[dropped, mask, before], &[of_tanh]);
        kernel.over = vec![(of_tanh, vec![dropped, before])];
        kernel.tuned = Tuned::Once;
        let kernel = self.graph.kernels.len() - 1;
        let token = self.input_gradient(pooler, of_tanh);
        let mut head = Head {
            of_tanh,
            kernel,
            classifier: classifier_pair,
            pooler: None,
        };
        // Recomputed in single precision, it is read later.
        if lowered || !self.shape.checkpointing {
            let name = if lowered {
                "convert_element_type"
            } else {
                "select"
            };
            let input = self.saved(name, first, dtype);
            self.pooler(&mut head, input);
        }
        (token, head)
    }

    /// The gradients of the pooler, whose input is given.
    pub(super) fn pooler(&mut self, head: &mut Head, input: Id) {
        let number = 6 * self.shape.layers;
        let weight = self.weight_gradient(number, head.of_tanh, input);
        let bias = self.sum_of_batch(head.kernel, head.of_tanh, self.shape.hidden);
        head.pooler = Some([self.raised(number, weight), bias]);
    }

    /// The sum over the sequences, in the kernel that makes what is summed unless it is unrolled.
    fn sum_of_batch(&mut self, kernel: usize, gradient: Id, columns: u64) -> Id {
        if self.shape.unrolls_batch() {
            return self.graph.fused(&[gradient], columns, F32);
        }
        let sum = self.graph.made(columns, F32);
        self.graph.kernels[kernel].writes.push(sum);
        sum
    }

    /// Through a layer's second norm, with what the forward graph saved of the layer.
    fn remember(&mut self, layer: u64, above: &Stream) -> Inside {
        let Shape { dtype, .. } = self.shape;
        let (n, wide) = (self.shape.stream(), self.shape.wide());
        let normed = self.normed(layer, 1);
        let (stream, dropped, output_norm) = self.norm(above, &normed);
        let heads = [1, 3, 5].map(|i| format!("permute_{}", 10 * layer + i));
        Inside {
            stream,
            dropped,
            output_norm,
            gelu: self.saved(format!("view_{}", 16 * layer + 14), wide, dtype),
            inner: self.saved(format!("addmm_{}", 6 * layer + 4), wide, dtype),
            middle: self.saved(format!("view_{}", 16 * layer + 12), n, dtype),
            attention_norm: self.normed(layer, 0),
            attended: self.attended(layer),
            heads: heads.map(|name| self.saved(name, n, dtype)),
            mask: self.saved(self.shape.mask_name(), self.shape.mask(), dtype),
            input: self.saved(self.shape.input_name(layer), n, dtype),
        }
    }

    /// What the forward graph saved of one of a layer's norms.
    fn normed(&mut self, layer: u64, second: u64) -> Normed {
        let (n, rows) = (self.shape.stream(), self.shape.rows());
        let number = 11 * layer + if second == 1 { 13 } else { 6 };
        let name = format!("div_{}", 1 + 2 * (self.shape.layers - layer) - second);
        let values = self.saved(format!("mul_{number}"), n, F32);
        let deviation = self.saved(name, rows, F32);
        let kept = self.saved(format!("gt_{}", 2 * layer + second + 1), n, Bool);
        Normed {
            values: vec![values],
            others: vec![deviation, kept],
            stream: values,
        }
    }

    /// The gradients of a layer's parameters; what is left for the one below.
    fn inside(&mut self, layer: u64, inside: Inside) -> Stream {
        let Shape { dtype, inner, .. } = self.shape;
        let (n, wide) = (self.shape.stream(), self.shape.wide());
        let number = 6 * layer;
        let dropped = inside.dropped;
        let to_gelu = self.input_gradient(number + 5, dropped);
        let weight = self.weight_gradient(number + 5, dropped, inside.gelu);
        let bias = self.bias_gradient(dropped, self.shape.hidden);
        let output = [self.raised(number + 5, weight), bias];

        let of_gelu = self.graph.made(wide, dtype);
        let reads = [to_gelu, inside.inner];
        let kernel = self.graph.run(Work::Fused, &reads, &[of_gelu]);
        kernel.over = vec![(of_gelu, reads.to_vec())];
        let kernel = self.graph.kernels.len() - 1;
        let to_input = self.input_gradient(number + 4, of_gelu);
        let weight = self.weight_gradient(number + 4, of_gelu, inside.middle);
        let bias = self.inner_bias(kernel, of_gelu, inner);
        let intermediate = [self.raised(number + 4, weight), bias];

        let above = Stream::Sum(vec![inside.stream, to_input]);
        let (stream, dropped, attention_norm) = self.norm(&above, &inside.attention_norm);
        let context = inside.attended[0];
        let (to_context, projection) = self.linear(number + 3, dropped, context);
        let mut mask = inside.mask;
        if self.shape.checkpointing && !self.shape.lowered && layer + 1 == self.shape.layers {
            // The first gradient of attention to be generated reads a mask for each head.
            let elements = self.shape.heads.saturating_mul(self.shape.mask());
            mask = self.graph.fused(&[mask], elements, dtype);
        }
        let mut reads = vec![to_context, mask];
        reads.extend(inside.heads);
        reads.extend(inside.attended);
        let results = [(n, dtype); 3];
        let of_heads = self
            .graph
            .several(Work::AttentionBackward, &reads, &results);
        let input = inside.input;
        let (from_value, value) = self.linear(number + 2, of_heads[2], input);
        let (from_key, key) = self.linear(number + 1, of_heads[1], input);
        let (from_query, query) = self.linear(number, of_heads[0], input);
        let pairs = [
            query,
            key,
            value,
            projection,
            attention_norm,
            intermediate,
            output,
            inside.output_norm,
        ];
        self.layers.push(pairs.concat());
        Stream::Sum(vec![stream, from_value, from_key, from_query])
    }

    fn attended(&mut self, layer: u64) -> Vec<Id> {
        let names = self.shape.attended_names(layer);
        let results = self.shape.attended();
        let pairs = names.into_iter().zip(results);
        pairs
            .map(|(name, (elements, dtype))| self.saved(name, elements, dtype))
            .collect()
    }

    /// The gradient of the inner bias. Its parts are summed in the kernel that makes what is summed
    /// where each part is one sequence.
    fn inner_bias(&mut self, kernel: usize, gradient: Id, columns: u64) -> Id {
        let rows = self.shape.rows();
        let parts = parts(self.shape.card, rows, columns);
        if parts == 1 || rows.div_ceil(parts) != self.shape.seq {
            // Element-wise, which has two configurations.
            let first = self.layers.is_empty();
            self.graph.kernels[kernel].tuned = if first { Tuned::Once } else { Tuned::Never };
            return self.bias_gradient(gradient, columns);
        }
        let partial = self.graph.made(parts * columns, F32);
        self.graph.kernels[kernel].writes.push(partial);
        self.graph.fused(&[partial], columns, F32)
    }

    /// Through a norm and the dropout before it: the stream's gradient, that of the dropped branch,
    /// and those of the weight and the bias.
    fn norm(&mut self, above: &Stream, normed: &Normed) -> (Id, Id, Pair) {
        let Shape { hidden, dtype, .. } = self.shape;
        let (n, rows) = (self.shape.stream(), self.shape.rows());
        let mut unmade = 8 * rows;
        if above.is_summed_first() {
            self.graph.skip(1);
            unmade += 4 * n;
        }
        self.graph.skip(2);
        let stream = self.graph.made(n, F32);
        let kernel = self.graph.kernels.len();
        self.graph.run(Work::Fused, &[], &[]);
        let pair = self.norm_parameters(above, &normed.values, hidden);
        let dropped = self.graph.made(n, dtype);
        let terms = above.terms();
        let kernel = &mut self.graph.kernels[kernel];
        kernel.reads = [terms, &normed.values, &normed.others].concat();
        kernel.writes = vec![stream, dropped];
        kernel.unmade = unmade;
        let mut over = terms.to_vec();
        if !above.is_summed_first() {
            over.extend(&normed.values);
        }
        kernel.over = vec![(stream, over), (dropped, normed.others.clone())];
        if above.is_first() && self.shape.scales_block() {
            kernel.tuned = Tuned::Twice;
        }
        (stream, dropped, pair)
    }

    /// The gradients of a norm's weight and bias.
    pub(super) fn norm_parameters(&mut self, above: &Stream, values: &[Id], columns: u64) -> Pair {
        let reads = [above.terms(), values].concat();
        let parts = parts(self.shape.card, self.shape.rows(), columns);
        if parts == 1 {
            let pair = [(); 2].map(|()| self.graph.made(columns, F32));
            self.graph.run(Work::Fused, &reads, &pair);
            return pair;
        }
        if let Stream::FirstToken(token) = above {
            // All rows but the first are zeros, which Inductor does not split.
            let partial = self.graph.fused(&reads, parts * columns, F32);
            let weight = self.graph.fused(&[partial], columns, F32);
            let bias = self.graph.fused(&[*token], columns, F32);
            self.graph.tune_if(true, Tuned::Once);
            return [weight, bias];
        }
        let numbers = [(); 4].map(|()| self.graph.number());
        let partial =
            [numbers[0], numbers[2]].map(|number| self.graph.made_by(number, parts * columns, F32));
        self.graph.run(Work::Fused, &reads, &partial);
        [0, 1].map(|i| {
            let number = numbers[2 * i + 1];
            let sum = self.graph.made_by(number, columns, F32);
            self.graph.run(Work::Fused, &[partial[i]], &[sum]);
            sum
        })
    }

    /// The gradients of the tables, and of the weight and the bias of the norm.
    fn embeddings(&mut self, above: &Stream) -> Vec<Id> {
        let Shape {
            seq,
            hidden,
            words,
            positions,
            types,
            layers,
            ..
        } = self.shape;
        let (n, rows) = (self.shape.stream(), self.shape.rows());
        let kept = self.saved("gt", n, Bool);
        let normalized = self.saved("mul", n, F32);
        let deviation = self.saved(format!("div_{}", 2 + 2 * layers), rows, F32);
        let gathered = self.saved("gather", seq, I64);

        let dropped = self.graph.made(n, F32);
        self.graph.skip(2);
        let stream = self.graph.made(n, F32);
        let parts = parts(self.shape.card, rows, hidden);
        let of_norm: Vec<u32> = (0..if parts == 1 { 2 } else { 4 })
            .map(|_| self.graph.number())
            .collect();
        // Summed over the sequences before it is scattered, unless that is unrolled.
        self.graph.skip(u32::from(!self.shape.unrolls_batch()));
        let position_number = self.graph.number();
        self.graph.skip(1);
        let type_table = self.graph.made(types * hidden, F32);
        self.graph.skip(1);
        let word_table = self.graph.made(words * hidden, F32);
        for table in [type_table, word_table] {
            self.graph.run(Work::Fused, &[], &[table]);
            self.graph.tune_if(true, Tuned::Once);
        }
        let terms = above.terms();
        let reads = [
            terms,
            &[
                kept, normalized, deviation, gathered, type_table, word_table,
            ],
        ]
        .concat();
        let kernel = self.graph.run(Work::Fused, &reads, &[dropped, stream]);
        kernel.over = vec![(dropped, terms.to_vec())];
        kernel.unmade = 8 * rows;

        let reads = [dropped, normalized];
        let [weight, bias] = if parts == 1 {
            let pair = [0, 1].map(|i| self.graph.made_by(of_norm[i], hidden, F32));
            self.graph.run(Work::Fused, &reads, &pair);
            pair
        } else {
            let partial = [0, 2].map(|i| self.graph.made_by(of_norm[i], parts * hidden, F32));
            self.graph.run(Work::Fused, &reads, &partial);
            [0, 1].map(|i| {
                let sum = self.graph.made_by(of_norm[2 * i + 1], hidden, F32);
                self.graph.run(Work::Fused, &[partial[i]], &[sum]);
                sum
            })
        };
        let position_table = self.graph.made_by(position_number, positions * hidden, F32);
        self.graph.run(Work::Fused, &[], &[position_table]);
        self.graph.tune_if(true, Tuned::Once);
        let kernel = self.graph.run(Work::Fused, &[stream, position_table], &[]);
        kernel.tuned = Tuned::Once;
        if !self.shape.unrolls_batch() {
            kernel.unmade = 4 * seq * hidden;
        }
        vec![word_table, position_table, type_table, weight, bias]
    }
}

/// The gradient that reaches a norm.
pub(super) enum Stream {
    /// Of the first token of each sequence only.
    FirstToken(Id),
    /// The sum of these.
    Sum(Vec<Id>),
}

impl Stream {
    pub(super) fn terms(&self) -> &[Id] {
        match self {
            Self::FirstToken(token) => std::slice::from_ref(token),
            Self::Sum(terms) => terms,
        }
    }

    /// Whether it comes from the head.
    pub(super) fn is_first(&self) -> bool {
        matches!(self, Self::FirstToken(_))
    }

    /// Whether the sum is an operation of its own: where it has more than two terms.
    fn is_summed_first(&self) -> bool {
        self.terms().len() > 2
    }
}
