//! The sizes that a compiled BERT classifier is generated for.

use super::super::profile::{Card, Kernel};
use crate::config::bert::Config;
use crate::dtype::DType;
use crate::workload::{Mode, Workload};

/// Sizes, types and kernels.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Shape {
    pub(super) batch: u64,
    pub(super) seq: u64,
    pub(super) hidden: u64,
    pub(super) heads: u64,
    /// Between the two linear layers of the feed-forward part.
    pub(super) inner: u64,
    pub(super) layers: u64,
    pub(super) classes: u64,
    pub(super) words: u64,
    pub(super) positions: u64,
    pub(super) types: u64,
    /// Of the products and what they read.
    pub(super) dtype: DType,
    /// Whether layers are recomputed.
    pub(super) checkpointing: bool,
    /// Whether the products' type is below that of the weights, by autocast.
    pub(super) lowered: bool,
    pub(super) kernel: Kernel,
    pub(super) card: Card,
}

impl Shape {
    pub(in super::super) fn new(
        config: &Config,
        workload: &Workload,
        dtype: DType,
        kernel: Kernel,
        card: Card,
    ) -> Self {
        Self {
            batch: workload.batch,
            seq: workload.seq,
            hidden: config.hidden_size,
            heads: config.num_attention_heads,
            inner: config.intermediate_size,
            layers: config.num_hidden_layers,
            classes: config.num_labels,
            words: config.vocab_size,
            positions: config.max_position_embeddings,
            types: config.type_vocab_size,
            dtype,
            checkpointing: workload.checkpointing && workload.mode == Mode::Train,
            lowered: dtype != DType::F32,
            kernel,
            card,
        }
    }

    /// Tokens of the batch.
    pub(super) fn rows(&self) -> u64 {
        self.batch.saturating_mul(self.seq)
    }

    /// Elements of the residual stream.
    pub(super) fn stream(&self) -> u64 {
        self.rows().saturating_mul(self.hidden)
    }

    /// Elements between the two linear layers.
    pub(super) fn wide(&self) -> u64 {
        self.rows().saturating_mul(self.inner)
    }

    /// Elements of one token of each sequence.
    pub(super) fn first(&self) -> u64 {
        self.batch.saturating_mul(self.hidden)
    }

    /// `[batch, heads, seq, width]` of queries.
    pub(super) fn queries(&self) -> [u64; 4] {
        [self.batch, self.heads, self.seq, self.hidden / self.heads]
    }

    /// Sums over fewer sequences than this are unrolled, so they are no reductions and fuse with
    /// nothing (torch/_inductor/config.py, `unroll_reductions_threshold`).
    pub(super) fn unrolls_batch(&self) -> bool {
        self.batch < 8
    }

    /// Whether the kernel of the last norm's gradient gets a configuration with a smaller block: if it
    /// has more blocks than fit at once. It is compiled to 40 to 48 registers a thread, of which six
    /// blocks of 256 threads fit a multiprocessor; 1024 columns make two rows a block
    /// (torch/_inductor/runtime/triton_heuristics.py, `_dynamic_scale_rblock`; as traced for 768
    /// columns).
    pub(super) fn scales_block(&self) -> bool {
        let is_wide = self.hidden.next_power_of_two() == 1024;
        is_wide && self.rows().next_power_of_two() / 2 > 6 * self.card.multiprocessors
    }

    /// Whether a product is not aligned, so that padding it is tried when it is compiled
    /// (torch/_inductor/fx_passes/pad_mm.py, `get_alignment_size`).
    pub(super) fn tries_padding(&self) -> bool {
        !(self.classes * self.dtype.bits()).is_multiple_of(128)
    }

    /// Elements of the mask in training: `[B, 1, S, S]`, whose rows the memory-efficient kernel wants
    /// in eights. Inductor pads long strides of what it makes to 128 bytes (torch/_inductor/ir.py,
    /// `_pad_strides`).
    pub(super) fn mask(&self) -> u64 {
        const LONG: u64 = 1024;
        let row = self.mask_row();
        let padded = |stride: u64| match stride > LONG {
            true => stride.next_multiple_of(128 * 8 / self.dtype.bits()),
            false => stride,
        };
        let rows = padded(row);
        let square = padded(rows.saturating_mul(self.seq));
        let last = rows.saturating_mul(self.seq - 1).saturating_add(row);
        square.saturating_mul(self.batch - 1).saturating_add(last)
    }

    /// Elements of the mask in inference, where it is a slice of wider rows.
    pub(super) fn sliced_mask(&self) -> u64 {
        let before = (self.rows() - 1).saturating_mul(self.mask_row());
        before.saturating_add(self.seq)
    }

    fn mask_row(&self) -> u64 {
        match self.kernel {
            Kernel::Efficient => self.seq.next_multiple_of(8),
            Kernel::Cudnn | Kernel::Flash => self.seq,
        }
    }

    /// What the backward graph calls the input of a layer.
    pub(super) fn input_name(&self, layer: u64) -> String {
        match (self.checkpointing, layer) {
            (false, 0) => "view".to_owned(),
            (false, _) => format!("view_{}", 16 * layer),
            (true, 0) => "mul_3".to_owned(),
            (true, _) => format!("add_{}", 7 * layer + 5),
        }
    }

    /// What the backward graph calls the mask.
    pub(super) fn mask_name(&self) -> &'static str {
        if self.mask_row() == self.seq {
            "where"
        } else {
            "constant_pad_nd"
        }
    }

    /// What attention gives: its output, the sums of exponentials, and the state of its dropout.
    pub(super) fn attended(&self) -> [(u64, DType); 4] {
        let rows = match self.kernel {
            Kernel::Efficient => self.seq.next_multiple_of(32),
            Kernel::Cudnn | Kernel::Flash => self.seq,
        };
        let sums = self.batch.saturating_mul(self.heads).saturating_mul(rows);
        let scalar = (1, DType::I64);
        [
            (self.stream(), self.dtype),
            (sums, DType::F32),
            scalar,
            scalar,
        ]
    }

    /// What the backward graph calls the results of a layer's attention.
    pub(super) fn attended_names(&self, layer: u64) -> [String; 4] {
        let numbers = if self.lowered {
            [2, 3, 8, 9].map(|i| 13 * layer + i)
        } else {
            [2, 3, 4, 5].map(|i| 8 * layer + i)
        };
        numbers.map(|number| format!("getitem_{number}"))
    }

    /// Whether no linear layer before this one has a weight of as many elements.
    pub(super) fn is_new(&self, number: u64) -> bool {
        [0, 4, 6 * self.layers + 1].contains(&number)
    }

    /// Rows, inputs and outputs of a linear layer by its number: six in each layer, the pooler and
    /// the classifier.
    pub(super) fn linear(&self, number: u64) -> (u64, u64, u64) {
        let (rows, hidden) = (self.rows(), self.hidden);
        match number.checked_sub(6 * self.layers) {
            None if number % 6 == 4 => (rows, hidden, self.inner),
            None if number % 6 == 5 => (rows, self.inner, hidden),
            None => (rows, hidden, hidden),
            Some(0) => (self.batch, hidden, hidden),
            Some(_) => (self.batch, hidden, self.classes),
        }
    }
}
