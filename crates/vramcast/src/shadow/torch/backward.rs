//! What each node of the graph allocates when it runs (the traces; the
//! order of gradients is that of torch's derivatives.yaml).

use super::autograd::Node;
use super::layout::Layout;
use super::tensor::{Device, Tensor};
use crate::dtype::DType;

/// The operation that a node differentiates.
#[derive(Clone, Copy, Debug)]
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
    Square,
    Mean,
    EfficientAttention,
    CudnnAttention,
}

/// The gradients of the inputs, in the order of the inputs.
pub(super) fn apply(device: &Device, node: &Node, grad: &Tensor) -> Vec<Option<Tensor>> {
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
    match node.kind {
        Kind::View => vec![Some(device.reshaped(grad, &node.inputs[0].dims))],
        Kind::Transpose(a, b) => vec![Some(grad.viewed(grad.layout().transpose(a, b)))],
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
        Kind::Square => {
            let power = of_input(0, "pow");
            let doubled = of_input(0, "mul");
            let out = of_input(0, "mul");
            drop((doubled, power));
            vec![Some(out)]
        }
        Kind::Softmax => {
            // Of the input's type, where the kernel read half precision.
            let input = &node.inputs[0];
            let out = device.tensor(&input.dims, input.dtype, "_softmax_backward");
            drop(of_input(0, "mul"));
            vec![Some(out)]
        }
        Kind::Embedding => vec![Some(embedding(device, node, grad))],
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
        Kind::LayerNorm => (0..3)
            .map(|i| needs(i).then(|| of_input(i, "native_layer_norm_backward")))
            .collect(),
        Kind::EfficientAttention => needed(node, efficient_attention(device, node, grad)),
        Kind::CudnnAttention => needed(node, cudnn_attention(device, node, grad)),
    }
}

/// Without the gradients that nothing waits for, which the kernel computes nevertheless.
fn needed(node: &Node, gradients: Vec<Option<Tensor>>) -> Vec<Option<Tensor>> {
    let pairs = gradients.into_iter().zip(&node.inputs);
    let kept = pairs.map(|(gradient, input)| gradient.filter(|_| input.edge.is_some()));
    kept.collect()
}

/// The gradients of queries, keys and values: `[B, heads, S, D]` seen, `[B, S, heads, D]` in memory.
fn attention_gradients(device: &Device, node: &Node, dtype: DType) -> Vec<Option<Tensor>> {
    let gradient = |i: usize| {
        let d = &node.inputs[i].dims;
        let layout = Layout::contiguous(&[d[0], d[2], d[1], d[3]]).transpose(1, 2);
        Some(device.strided(layout, dtype, "attention_backward"))
    };
    (0..3).map(gradient).collect()
}

/// ATen, transformers/cuda/attention_backward.cu; as traced
fn efficient_attention(device: &Device, node: &Node, grad: &Tensor) -> Vec<Option<Tensor>> {
    let gradients = attention_gradients(device, node, grad.dtype());
    let [batch, heads, seq, width] = node.inputs[0].dims[..] else {
        return gradients;
    };
    let product = device.tensor(&node.inputs[0].dims, DType::F32, "mul");
    let sum = device.tensor(&[batch, seq, heads], DType::F32, "sum");
    let delta = if heads > 1 && seq > 1 {
        let delta = device.tensor(&[batch, heads, seq], DType::F32, "delta");
        drop(sum);
        delta
    } else {
        sum
    };
    drop(product);
    let padded_width = width.next_multiple_of(64).next_power_of_two();
    let rows = if width <= 128 { 64 } else { 32 };
    let padded_seq = seq.next_multiple_of(64);
    let head = padded_seq
        .saturating_mul(padded_width)
        .saturating_mul(4)
        .saturating_add(16 * padded_seq / rows);
    let workspace = device.bytes(
        head.saturating_mul(batch).saturating_mul(heads),
        "attention workspace",
    );
    drop(delta);
    drop(workspace);
    gradients
}

/// ATen, cudnn/MHA.cpp; as traced
fn cudnn_attention(device: &Device, node: &Node, grad: &Tensor) -> Vec<Option<Tensor>> {
    let gradients = attention_gradients(device, node, grad.dtype());
    let [batch, heads, seq, width] = node.inputs[0].dims[..] else {
        return gradients;
    };
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

/// The most indices that one kernel adds without sorting them first (ATen, cuda/Embedding.cu).
const UNSORTED: u64 = 3072;

/// ATen, cuda/Embedding.cu and cuda/EmbeddingBackwardKernel.cu; as traced
fn embedding(device: &Device, node: &Node, grad: &Tensor) -> Tensor {
    let indices = &node.saved[0];
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
    // Twice the keys, and cub's own, whose tiles are of 4,608 keys.
    let keys = (8 * n).next_multiple_of(256);
    let sort = 2 * keys + 16_895 + 1024 * n.div_ceil(4608);
    drop(device.bytes(sort, "radix sort"));
    drop(range);
    let out = device.tensor(table, grad.dtype(), "embedding_dense_backward");
    // cub's scans keep 16 bytes a tile; tiles as large as the traces allow.
    let scan = |items: u64, tile: u64| {
        let bytes = 255 + (16 * (48 + items.div_ceil(tile))).next_multiple_of(256);
        drop(device.bytes(bytes, "scan"));
    };
    let segments = ids(n);
    let count = ids(1);
    let unique = ids(n);
    scan(n, 4608);
    drop(unique);
    let most = n.min(rows);
    let (partials, offsets) = (ids(most), ids(most));
    scan(most, 480);
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
