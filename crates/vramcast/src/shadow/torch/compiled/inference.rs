//! The graph of a BERT classifier in inference, as Inductor fuses it (read in the code that it
//! generates, `TORCH_LOGS=output_code`).

use super::graph::{Graph, Id, Tuned, Work};
use super::shape::Shape;
use crate::dtype::DType::F32;

/// Operations of a layer, by which the masks of the layers are numbered.
const OPERATIONS: u32 = 21;
/// Masks that one kernel makes: each layer has one of its own.
const MASKS: u64 = 5;

/// The graph and the logits.
pub(super) fn graph(shape: Shape) -> (Graph, Id) {
    let mut graph = Graph::default();
    let (n, rows) = (shape.stream(), shape.rows());
    let norm = |graph: &mut Graph, reads: &[Id], over: Option<Id>| {
        graph.skip(3);
        let out = graph.made(n, F32);
        let kernel = graph.run(Work::Fused, reads, &[out]);
        kernel.over = over.map(|over| (out, vec![over])).into_iter().collect();
        kernel.unmade = 8 * rows;
        out
    };
    graph.skip(1);
    let mut hidden = norm(&mut graph, &[], None);
    // The sum, which is normalized in place.
    graph.kernels[0].unmade += 4 * n;
    let mut masks = vec![];
    for layer in 0..shape.layers {
        let heads = [(); 3].map(|()| graph.product(&[hidden], true, n, F32));
        let number = graph.number();
        if layer % MASKS == 0 {
            let group = 0..MASKS.min(shape.layers - layer) as u32;
            let numbers = group.map(|i| number + OPERATIONS * i);
            let made = numbers.map(|number| graph.made_by(number, shape.sliced_mask(), F32));
            masks = made.collect();
            graph.run(Work::Fused, &[], &masks);
            // Another number of masks is another kernel.
            let is_new = layer == 0 || (masks.len() as u64) < MASKS;
            graph.tune_if(is_new, Tuned::Once);
        }
        let mask = masks[(layer % MASKS) as usize];
        let reads = [heads[0], heads[1], heads[2], mask];
        let attended = graph.several(Work::Attention, &reads, &[(n, F32)])[0];
        graph.skip(3);
        let projected = graph.product(&[attended], false, n, F32);
        let normed = norm(&mut graph, &[projected, hidden], Some(projected));
        let inner = graph.product(&[normed], false, shape.wide(), F32);
        let gelu = in_place(&mut graph, inner, shape.wide());
        graph.tune_if(layer == 0, Tuned::Once);
        let projected = graph.product(&[gelu], false, n, F32);
        hidden = norm(&mut graph, &[projected, normed], Some(projected));
    }
    let pooled = graph.product(&[hidden], false, shape.first(), F32);
    let tanh = in_place(&mut graph, pooled, shape.first());
    graph.tune_if(true, Tuned::Once);
    let classes = shape.batch.saturating_mul(shape.classes);
    let logits = graph.product(&[tanh], true, classes, F32);
    graph.returns(logits);
    (graph, logits)
}

/// An element-wise function, which adds a bias first.
fn in_place(graph: &mut Graph, x: Id, elements: u64) -> Id {
    let out = graph.fused(&[x], elements, F32);
    let last = graph.kernels.len() - 1;
    graph.kernels[last].over = vec![(out, vec![x])];
    out
}
