//! Attention and its masks (as traced).

use super::backward::Kind;
use super::layout::Layout;
use super::profile::Kernel;
use super::tensor::{Device, Tensor};
use crate::backend::{Attended, Heads};
use crate::dtype::DType;
use crate::workload::Attention;

/// The output of a fused kernel, its node, and what that keeps beside the inputs, by name.
type Fused = (Tensor, Kind, Vec<Option<Tensor>>);

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
        let context = self.merge_heads(product);
        drop(turned);
        drop((heads.query, heads.key, heads.value));
        Attended {
            context,
            weights: Some(weights),
        }
    }

    /// `scaled_dot_product_attention` in a fused kernel.
    pub(super) fn fused_attention(
        &self,
        heads: Heads<Tensor>,
        mask: Option<&Tensor>,
        drops: bool,
    ) -> Attended<Tensor> {
        let (query, key, value) = (&heads.query, &heads.key, &heads.value);
        let [_, _, seq, width] = query.dims()[..] else {
            unreachable!("queries have four dimensions")
        };
        let kernel = self
            .0
            .profile
            .attention(query.dtype(), width, mask.is_some());
        let mut bias = mask.map(|mask| self.additive(mask.dims(), query.dtype()));
        let Some(kernel) = kernel else {
            return self.math_attention(heads, bias, drops);
        };
        if let Some(mask) = &bias
            && kernel == Kernel::Efficient
            && !seq.is_multiple_of(8)
        {
            let dims = [mask.dims()[0], 1, seq, seq.next_multiple_of(8)];
            bias = Some(self.tensor(&dims, query.dtype(), "pad"));
        }
        let (out, kind, rest) = match kernel {
            Kernel::Efficient => self.efficient_attention(query),
            Kernel::Flash => self.flash_attention(query, drops),
            Kernel::Cudnn => self.cudnn_attention(query),
        };
        let [k, q, v] = [key, query, value].map(|input| Some(input.clone()));
        // By name, where they are kept; else they die as C++'s locals do.
        let inputs = [k, q, v];
        let saved: Vec<Tensor> = if self.keeps() {
            let bias = [bias];
            let all = bias.into_iter().chain(inputs).chain(rest);
            all.flatten().collect()
        } else {
            let all = inputs.into_iter().chain(rest).chain([bias]);
            all.flatten().collect()
        };
        let out = self.record(out, kind, &[query, key, value], saved);
        let context = self.merge_heads(out);
        drop((heads.query, heads.key, heads.value));
        Attended {
            context,
            weights: None,
        }
    }

    /// `scaled_dot_product_attention` in matrix products, in single precision (ATen,
    /// transformers/attention.cpp, `_scaled_dot_product_attention_math`; as probed).
    fn math_attention(
        &self,
        heads: Heads<Tensor>,
        bias: Option<Tensor>,
        drops: bool,
    ) -> Attended<Tensor> {
        let dtype = heads.query.dtype();
        let query = self.to(&heads.query, DType::F32);
        let key = self.to(&heads.key, DType::F32);
        let value = self.to(&heads.value, DType::F32);
        let scaled_query = self.scale(&query);
        let scaled_key = self.scale(&self.transpose(&key, 2, 3));
        let scores = self.matmul(&scaled_query, &scaled_key);
        drop(scaled_key);
        // The mask is added in place.
        let mut weights = self.safe_softmax(&scores);
        drop(scores);
        if drops {
            weights = self.dropout(&weights);
        }
        // Returned beside the output, and dropped by the caller.
        let returned = self.to(&weights, dtype);
        let product = self.matmul(&weights, &value);
        drop(weights);
        let out = self.to(&product, dtype);
        drop(product);
        drop(scaled_query);
        drop((value, key, query));
        drop(returned);
        drop(bias);
        let context = self.merge_heads(out);
        drop((heads.query, heads.key, heads.value));
        Attended {
            context,
            weights: None,
        }
    }

    /// `[B, heads, S, D]` seen, `[B, S, heads, D]` in memory.
    fn attention_output(&self, query: &Tensor) -> Tensor {
        let d = query.dims();
        let layout = Layout::contiguous(&[d[0], d[2], d[1], d[3]]).transpose(1, 2);
        self.strided(layout, query.dtype(), "attention")
    }

    /// Sums of the exponentials, for `rows` rows a head.
    fn log_sums(&self, query: &Tensor, rows: u64) -> Tensor {
        let dims = [query.dims()[0], query.dims()[1], rows];
        self.tensor(&dims, DType::F32, "attention")
    }

    /// ATen, transformers/cuda/attention.cu, `_efficient_attention_forward`; as traced
    pub(super) fn efficient_attention(&self, query: &Tensor) -> Fused {
        let out = self.attention_output(query);
        let rows = query.dims()[2].next_multiple_of(32);
        let records = self.0.records.get();
        let sums = records.then(|| self.log_sums(query, rows));
        let rest = if self.keeps() {
            vec![sums, Some(out.clone())]
        } else {
            vec![Some(out.clone()), sums]
        };
        (out, Kind::EfficientAttention, rest)
    }

    /// ATen, transformers/cuda/flash_attn/flash_api.cpp, `mha_fwd`; as traced
    fn flash_attention(&self, query: &Tensor, drops: bool) -> Fused {
        let [batch, heads, seq, width] = query.dims()[..] else {
            unreachable!("queries have four dimensions")
        };
        let out = self.attention_output(query);
        let sums = self.log_sums(query, seq);
        let splits = if drops {
            1
        } else {
            self.0.profile.card.flash_splits(batch * heads, seq, width)
        };
        // Each part of the keys has sums and an output of its own.
        let parts = (splits > 1).then(|| {
            let rows = [splits, batch, heads, seq];
            let sums = self.tensor(&rows, DType::F32, "attention");
            let mut rows = rows.to_vec();
            rows.push(width.next_multiple_of(32));
            (sums, self.tensor(&rows, DType::F32, "attention"))
        });
        let mut random = self.bytes_tensor(16, "attention");
        let unused = self.bytes_tensor(8, "attention");
        if drops {
            random = self.bytes_tensor(16, "attention");
        }
        if let Some((sums, out)) = parts {
            drop(sums);
            drop(out);
        }
        let rest = vec![Some(sums), Some(out.clone()), Some(random), Some(unused)];
        (out, Kind::FlashAttention, rest)
    }

    /// ATen, cudnn/MHA.cpp; as traced
    pub(super) fn cudnn_attention(&self, query: &Tensor) -> Fused {
        let seed = self.tensor(&[], DType::I64, "attention");
        let offset = self.tensor(&[], DType::I64, "attention");
        let out = self.attention_output(query);
        let records = self.0.records.get();
        let sums = records.then(|| self.log_sums(query, query.dims()[2]));
        drop(self.bytes(256, "attention workspace"));
        let rest = if self.keeps() {
            vec![sums, Some(out.clone()), Some(offset), Some(seed)]
        } else {
            vec![Some(out.clone()), sums, Some(seed), Some(offset)]
        };
        (out, Kind::CudnnAttention, rest)
    }

    /// `[B, heads, S, D]`: `[B, S, heads * D]`, in that order in memory.
    fn merge_heads(&self, x: Tensor) -> Tensor {
        let [batch, heads, seq, width] = x.dims()[..] else {
            unreachable!("split heads have four dimensions")
        };
        let turned = self.contiguous(&self.transpose(&x, 1, 2));
        drop(x);
        self.reshape(&turned, &[batch, seq, heads * width])
    }
}
