//! Attention and its masks (as traced).

use super::backward::Kind;
use super::layout::Layout;
use super::tensor::{Device, Tensor};
use crate::backend::{Attended, Heads};
use crate::dtype::DType;
use crate::workload::Attention;

impl Device {
    /// `create_bidirectional_mask` of transformers: nothing for a batch without padding, else
    /// `[B, 1, S, S]`, of truth values or, for eager attention, of `dtype`.
    pub(super) fn bidirectional_mask(
        &self,
        mask: &Tensor,
        padded: bool,
        attention: Attention,
        dtype: DType,
    ) -> Option<Tensor> {
        let [batch, seq] = mask.dims()[..] else {
            unreachable!("a padding mask has two dimensions")
        };
        let of = |dims: &[u64], dtype| self.tensor(dims, dtype, "mask");
        let kept = of(&[batch, seq], DType::Bool);
        drop(of(&[], DType::Bool));
        if !padded {
            return None;
        }
        let rows = of(&[batch], DType::I64);
        let heads = of(&[1], DType::I64);
        let positions = || {
            let range = of(&[seq], DType::I64);
            let shifted = of(&[seq], DType::I64);
            drop(range);
            shifted
        };
        let (queries, keys) = (positions(), positions());
        let always = of(&[], DType::Bool);
        let from_first = of(&[seq], DType::Bool);
        let reach = of(&[seq], DType::Bool);
        drop((from_first, always));
        let row_copy = of(&[batch, seq], DType::I64);
        let key_copy = of(&[batch, seq], DType::I64);
        let gathered = of(&[batch, seq], DType::Bool);
        drop((key_copy, row_copy));
        let square = [batch, 1, seq, seq];
        let allowed = of(&square, DType::Bool);
        drop((gathered, reach));
        drop((rows, heads, queries, keys));
        let mask = match attention {
            Attention::Sdpa => allowed,
            Attention::Eager => {
                let additive = self.additive(&square, dtype);
                drop(allowed);
                additive
            }
        };
        drop(kept);
        Some(mask)
    }

    /// Zeros and lowest values by a mask of truth values.
    fn additive(&self, dims: &[u64], dtype: DType) -> Tensor {
        let zero = self.tensor(&[], dtype, "where");
        let lowest = self.tensor(&[], dtype, "where");
        let additive = self.tensor(dims, dtype, "where");
        drop((lowest, zero));
        additive
    }

    /// `[B, S, heads * D]` seen as `[B, heads, S, D]`.
    pub(super) fn split_heads(&self, x: &Tensor, heads: u64) -> Tensor {
        let [batch, seq, hidden] = x.dims()[..] else {
            unreachable!("hidden states have three dimensions")
        };
        let split = self.reshape(x, &[batch, seq, heads, hidden / heads]);
        self.transpose(&split, 1, 2)
    }

    /// `eager_attention_forward`.
    pub(super) fn eager_attention(
        &self,
        heads: Heads<Tensor>,
        mask: Option<&Tensor>,
        drops: bool,
    ) -> Attended<Tensor> {
        let turned = self.transpose(&heads.key, 2, 3);
        let scores = self.matmul(&heads.query, &turned);
        let mut scaled = self.scale(&scores);
        drop(scores);
        if let Some(mask) = mask {
            scaled = self.add(&scaled, mask);
        }
        let mut weights = self.softmax(&scaled);
        drop(scaled);
        if drops {
            weights = self.dropout(&weights);
        }
        let product = self.matmul(&weights, &heads.value);
        let context = self.contiguous(&self.transpose(&product, 1, 2));
        drop(product);
        let context = self.merge_heads(&context);
        drop(turned);
        drop((heads.query, heads.key, heads.value));
        Attended {
            context,
            weights: Some(weights),
        }
    }

    /// `scaled_dot_product_attention`: the memory-efficient kernel in single precision, cuDNN's in
    /// half.
    pub(super) fn fused_attention(
        &self,
        heads: Heads<Tensor>,
        mask: Option<&Tensor>,
    ) -> Attended<Tensor> {
        let Heads {
            query, key, value, ..
        } = &heads;
        let [batch, count, seq, width] = query.dims()[..] else {
            unreachable!("queries have four dimensions")
        };
        let halves = query.dtype() != DType::F32;
        let mut bias = mask.map(|mask| self.additive(mask.dims(), query.dtype()));
        if bias.is_some() && !halves && seq % 8 != 0 {
            let dims = [batch, 1, seq, seq.next_multiple_of(8)];
            bias = Some(self.tensor(&dims, query.dtype(), "pad"));
        }
        let random = halves.then(|| {
            let seed = self.tensor(&[], DType::I64, "attention");
            let offset = self.tensor(&[], DType::I64, "attention");
            (seed, offset)
        });
        let layout = Layout::contiguous(&[batch, seq, count, width]).transpose(1, 2);
        let out = self.strided(layout, query.dtype(), "attention");
        let rows = if halves {
            seq
        } else {
            seq.next_multiple_of(32)
        };
        let sums = (self.0.records.get())
            .then(|| self.tensor(&[batch, count, rows], DType::F32, "attention"));
        if halves {
            drop(self.bytes(256, "attention workspace"));
        }
        let (seed, offset) = random.unzip();
        let [k, q, v] = [key, query, value].map(|input| Some(input.clone()));
        // By name, where they are kept; else they die as C++'s locals do.
        let saved = if self.keeps() {
            [bias, k, q, v, sums, Some(out.clone()), offset, seed]
        } else {
            [k, q, v, Some(out.clone()), sums, seed, offset, bias]
        };
        let saved = saved.into_iter().flatten().collect();
        let kind = if halves {
            Kind::CudnnAttention
        } else {
            Kind::EfficientAttention
        };
        let out = self.record(out, kind, &[query, key, value], saved);
        let context = self.contiguous(&self.transpose(&out, 1, 2));
        drop(out);
        let context = self.merge_heads(&context);
        drop((heads.query, heads.key, heads.value));
        Attended {
            context,
            weights: None,
        }
    }

    fn merge_heads(&self, x: &Tensor) -> Tensor {
        let [batch, seq, heads, width] = x.dims()[..] else {
            unreachable!("split heads have four dimensions")
        };
        self.reshape(x, &[batch, seq, heads * width])
    }
}
