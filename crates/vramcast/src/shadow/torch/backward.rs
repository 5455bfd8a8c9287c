//! What each node of the graph allocates when it runs (the traces; the
//! order of gradients is that of torch's derivatives.yaml).

use super::autograd::Node;
use super::compiled::Program;
use super::kernels::Blocks;
use super::layout::{Layout, elements};
use super::reduction;
use super::tensor::{Device, Tensor};
use crate::dtype::DType;
use std::rc::Rc;

/// The operation that a node differentiates.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// Same elements, other dimensions.
    View,
    Transpose(usize, usize),
    Clone,
    /// To another type; the engine casts the gradient back.
    ToCopy,
    Select,
    Add,
    Scale,
    Embedding,
    Addmm,
    Mm,
    Bmm,
    LayerNorm,
    Dropout,
    /// A function whose gradient is one kernel over its saved input or result.
    Elementwise,
    Softmax,
    LogSoftmax,
    NllLoss,
    Power,
    Mul,
    Mean,
    EfficientAttention,
    FlashAttention,
    CudnnAttention,
    /// A whole model, whose code was generated.
    Compiled(Rc<Program>),
}

/// The gradients of the inputs, in the order of the inputs, from what the node saved.
pub(super) fn apply(
    device: &Device,
    node: &Node,
    grad: &Tensor,
    saved: &mut Vec<Tensor>,
) -> Vec<Option<Tensor>> {
    let needs = |i: usize| node.inputs[i].edge.is_some();
    let of_input = |i: usize, op| device.tensor(&node.inputs[i].dims, grad.dtype(), op);
    // Computed transposed, since the saved weight is a transposed view: it comes out in the layout of
    // the parameter (FunctionsManual.cpp, `mm_mat2_backward`).
    let weight = |i: usize| {
        needs(i).then(|| {
            let dims = &node.inputs[i].dims;
            let turned = Layout::contiguous(&[dims[1], dims[0]]).transpose(0, 1);
            let out = device.strided(turned, grad.dtype(), "mm");
            device.cublas(false);
            out
        })
    };
    match &node.kind {
        Kind::View => vec![Some(device.reshaped(grad, &node.inputs[0].dims))],
        Kind::Transpose(a, b) => vec![Some(grad.viewed(grad.layout().transpose(*a, *b)))],
        Kind::Clone | Kind::ToCopy => vec![Some(grad.clone())],
        Kind::Add => vec![
            needs(0).then(|| grad.clone()),
            needs(1).then(|| grad.clone()),
        ],
        Kind::Select => vec![Some(of_input(0, "select_backward"))],
        Kind::Scale => vec![Some(of_input(0, "mul"))],
        Kind::Elementwise => vec![Some(of_input(0, "activation_backward"))],
        Kind::Dropout => vec![Some(of_input(0, "native_dropout_backward"))],
        Kind::NllLoss => vec![Some(of_input(0, "nll_loss_backward"))],
        Kind::LogSoftmax => vec![Some(of_input(0, "_log_softmax_backward"))],
        Kind::Mean => vec![Some(of_input(0, "div"))],
        Kind::Power => {
            let power = of_input(0, "pow");
            let doubled = of_input(0, "mul");
            let out = of_input(0, "mul");
            drop((doubled, power));
            vec![Some(out)]
        }
        Kind::Mul => {
            let second = needs(1).then(|| of_input(1, "mul"));
            let first = needs(0).then(|| of_input(0, "mul"));
            vec![first, second]
        }
        Kind::Softmax => {
            // Of the input's type, where the kernel read half precision.
            let input = &node.inputs[0];
            let out = device.tensor(&input.dims, input.dtype, "_softmax_backward");
            drop(of_input(0, "mul"));
            vec![Some(out)]
        }
        Kind::Embedding => vec![Some(embedding(device, node, grad, &saved[0]))],
        Kind::Addmm => {
            let mat1 = needs(1).then(|| {
                let out = of_input(1, "mm");
                device.cublas(false);
                out
            });
            let mat2 = weight(2);
            vec![needs(0).then(|| grad.clone()), mat1, mat2]
        }
        Kind::Mm => {
            let mat2 = weight(1);
            let mat1 = needs(0).then(|| {
                let out = of_input(0, "mm");
                device.cublas(false);
                out
            });
            vec![mat1, mat2]
        }
        Kind::Bmm => {
            let product = |i: usize| {
                needs(i).then(|| {
                    let out = of_input(i, "bmm");
                    device.cublas(false);
                    out
                })
            };
            let second = product(1);
            vec![product(0), second]
        }
        Kind::LayerNorm => layer_norm(device, node, grad),
        Kind::EfficientAttention => needed(
            node,
            efficient_attention(device, queries(node), grad.dtype()),
        ),
        Kind::FlashAttention => needed(node, flash_attention(device, queries(node), grad.dtype())),
        // It gives up what was saved as it runs.
        Kind::Compiled(program) => program.backward(device, std::mem::take(saved), &node.inputs),
        Kind::CudnnAttention => needed(node, cudnn_attention(device, queries(node), grad.dtype())),
    }
}

/// Without the gradients that nothing waits for, which the kernel computes nevertheless.
fn needed(node: &Node, gradients: Vec<Option<Tensor>>) -> Vec<Option<Tensor>> {
    let pairs = gradients.into_iter().zip(&node.inputs);
    let kept = pairs.map(|(gradient, input)| gradient.filter(|_| input.edge.is_some()));
    kept.collect()
}

/// `[B, heads, S, D]` of the queries of an attention.
fn queries(node: &Node) -> [u64; 4] {
    let [batch, heads, seq, width] = node.inputs[0].dims[..] else {
        unreachable!("queries have four dimensions")
    };
    [batch, heads, seq, width]
}

/// The gradients of queries, keys and values: `[B, heads, S, D]` seen, `[B, S, heads, D]` in memory.
fn attention_gradients(device: &Device, queries: [u64; 4], dtype: DType) -> Vec<Option<Tensor>> {
    let [batch, heads, seq, width] = queries;
    let layout = Layout::contiguous(&[batch, seq, heads, width]).transpose(1, 2);
    let gradient = |_| Some(device.strided(layout.clone(), dtype, "attention_backward"));
    (0..3).map(gradient).collect()
}

/// ATen, transformers/cuda/attention_backward.cu; as traced
pub(super) fn efficient_attention(
    device: &Device,
    queries: [u64; 4],
    dtype: DType,
) -> Vec<Option<Tensor>> {
    let gradients = attention_gradients(device, queries, dtype);
    let [batch, heads, seq, width] = queries;
    let delta = if dtype == DType::F32 {
        let product = device.tensor(&queries, DType::F32, "mul");
        let sum = device.tensor(&[batch, seq, heads], DType::F32, "sum");
        let delta = if heads > 1 && seq > 1 {
            let delta = device.tensor(&[batch, heads, seq], DType::F32, "delta");
            drop(sum);
            delta
        } else {
            sum
        };
        drop(product);
        delta
    } else {
        // The kernel itself computes it.
        device.tensor(&[batch, heads, seq], DType::F32, "delta")
    };
    let blocks = Blocks::new(device.0.profile.card, dtype, width);
    let workspace = blocks.workspace(batch.saturating_mul(heads), seq, width);
    let workspace = device.bytes(workspace, "attention workspace");
    drop(delta);
    drop(workspace);
    gradients
}

/// ATen, transformers/cuda/flash_attn/flash_api.cpp, `mha_bwd`; as traced
fn flash_attention(device: &Device, queries: [u64; 4], dtype: DType) -> Vec<Option<Tensor>> {
    let gradients = attention_gradients(device, queries, dtype);
    let [batch, heads, seq, width] = queries;
    let rows = seq.next_multiple_of(128);
    let sums = device.tensor(&[batch, heads, rows], DType::F32, "attention_backward");
    let wide = [batch, rows, heads, width.next_multiple_of(32)];
    let query = device.tensor(&wide, DType::F32, "attention_backward");
    drop(query);
    drop(sums);
    gradients
}

/// ATen, cudnn/MHA.cpp; as traced
pub(super) fn cudnn_attention(
    device: &Device,
    queries: [u64; 4],
    dtype: DType,
) -> Vec<Option<Tensor>> {
    let gradients = attention_gradients(device, queries, dtype);
    let [batch, heads, seq, width] = queries;
    let rows = batch
        .saturating_mul(heads)
        .saturating_mul(seq)
        .saturating_mul(4);
    let workspace = rows
        .saturating_mul(width)
        .saturating_add(rows)
        .saturating_add(256);
    drop(device.bytes(workspace, "attention workspace"));
    gradients
}

/// Rows beyond which the gradients of a layer norm's weight and bias are summed in parts (ATen,
/// cuda/layer_norm_kernel.cu, `LaunchGammaBetaBackwardCUDAKernel`).
const LAYER_NORM_ROWS: u64 = 65_536;

fn layer_norm(device: &Device, node: &Node, grad: &Tensor) -> Vec<Option<Tensor>> {
    let gradient = |i: usize| {
        let input = &node.inputs[i];
        input.edge?;
        Some(device.tensor(&input.dims, grad.dtype(), "native_layer_norm_backward"))
    };
    let mut gradients: Vec<Option<Tensor>> = (0..3).map(gradient).collect();
    let width = node.inputs[1].dims[0];
    let rows = elements(&node.inputs[0].dims) / width.max(1);
    let busy = width / 32 < device.0.profile.card.multiprocessors / 2;
    if rows > LAYER_NORM_ROWS && busy {
        let parts = (32_768 / width.div_ceil(32)).min(rows.div_ceil(32));
        let parts_of = |gradient: &Option<Tensor>| {
            let dtype = gradient.as_ref()?.dtype();
            Some(device.tensor(&[parts, width], dtype, "native_layer_norm_backward"))
        };
        let (weight, bias) = (parts_of(&gradients[1]), parts_of(&gradients[2]));
        for (gradient, parts) in gradients[1..].iter_mut().zip([&weight, &bias]) {
            let Some(parts) = parts else { continue };
            let sum = device.sum_to(parts, &[width]);
            *gradient = Some(sum);
        }
        drop(bias);
        drop(weight);
    }
    gradients
}

/// The most indices that one kernel adds without sorting them first (ATen, cuda/Embedding.cu).
const UNSORTED: u64 = 3072;

/// ATen, cuda/Embedding.cu and cuda/EmbeddingBackwardKernel.cu; as traced
fn embedding(device: &Device, node: &Node, grad: &Tensor, indices: &Tensor) -> Tensor {
    let table = &node.inputs[0].dims;
    let n = indices.elements();
    let ids = |n: u64| device.tensor(&[n], DType::I64, "embedding_dense_backward");
    let copy = (!indices.is_contiguous()).then(|| ids(n));
    if n <= UNSORTED {
        let out = device.tensor(table, grad.dtype(), "embedding_dense_backward");
        drop(copy);
        return out;
    }
    let (rows, width) = (table[0], table[1]);
    let sorted = ids(n);
    let origins = ids(n);
    let range = ids(n);
    // Twice the keys, and cub's own for each tile.
    let keys = (8 * n).next_multiple_of(256);
    let sort = 2 * keys + 16_895 + 1024 * n.div_ceil(device.0.profile.card.sort_tile());
    drop(device.bytes(sort, "radix sort"));
    drop(range);
    let out = device.tensor(table, grad.dtype(), "embedding_dense_backward");
    let scan = |items, tile| drop(device.bytes(reduction::scan(items, tile), "scan"));
    let segments = ids(n);
    let count = ids(1);
    let unique = ids(n);
    scan(n, reduction::IDS_TILE);
    drop(unique);
    let most = n.min(rows);
    let (partials, offsets) = (ids(most), ids(most));
    scan(most, reduction::SUMS_TILE);
    let total = ids(1);
    let pieces = n / 10 + most;
    let starts = ids(pieces);
    // Many indices for each row take the other variant; where between 16 and 32 it begins is not
    // known.
    let many = n / rows >= 32;
    let sums = if many {
        ids(pieces)
    } else {
        device.tensor(&[pieces, width], DType::F32, "embedding_dense_backward")
    };
    let wide = (many && grad.dtype() != DType::F32)
        .then(|| device.tensor(table, DType::F32, "embedding_dense_backward"));
    drop(wide);
    drop((sums, starts, total, offsets, partials));
    drop((count, segments, origins, sorted, copy));
    out
}
