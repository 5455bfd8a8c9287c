//! LoRA as peft adds it to queries and values (peft, tuners/lora/layer.py; as traced): the model is
//! frozen, and beside each of those projections runs another through a few dimensions.
//!
//! Traced in single precision. In half, where the adapters are cast to single precision (peft,
//! tuners/tuners_utils.py, `cast_adapter_dtype`), the order of events follows from the source; the
//! peaks of its phases are those measured.

use super::Shadow;
use super::tensor::Tensor;
use crate::backend::Linear;
use crate::dtype::DType;
use crate::timeline::Category;

/// The projections that get an adapter, by the end of their weight's name: those of queries and
/// values, as encoders call them.
const TARGETS: [&str; 4] = [
    "query.weight",
    "value.weight",
    "q_lin.weight",
    "v_lin.weight",
];

/// The probability that an adapter drops an element of its input (as in the records).
const DROPOUT: f64 = 0.05;

/// `lora_A`, `[rank, in]`, and `lora_B`, `[out, rank]`.
#[derive(Clone)]
pub(super) struct Adapter {
    down: Tensor,
    up: Tensor,
}

impl Shadow {
    /// Whether the model's own parameters are not trained.
    pub(super) fn is_frozen(&self) -> bool {
        self.workload.lora_rank > 0
    }

    /// Remembers a weight that gets an adapter.
    pub(super) fn mark_target(&self, name: &str, weight: &Tensor) {
        if self.is_frozen() && TARGETS.iter().any(|target| name.ends_with(target)) {
            self.targets.borrow_mut().push(weight.clone());
        }
    }

    /// Makes the adapters, in the type of the weights beside which they run, and casts them.
    pub(super) fn add_adapters(&self) {
        let tape = &self.device.0.tape;
        tape.with_category(Category::Parameters, || {
            let rank = self.workload.lora_rank;
            let targets = self.targets.take();
            let made = targets.iter().map(|weight| {
                let of = |dims: &[u64]| self.device.tensor(dims, self.dtype, "lora");
                let [out, width] = weight.dims()[..] else {
                    unreachable!("a projection's weight is a matrix")
                };
                [of(&[rank, width]), of(&[out, rank])]
            });
            let made: Vec<_> = made.collect();
            let adapters = made.into_iter().map(|halves| {
                let cast = |weight: Tensor| self.device.to(&weight, DType::F32);
                let [down, up] = halves.map(|weight| self.as_leaf(cast(weight)));
                Adapter { down, up }
            });
            let numbers = targets.iter().map(Tensor::buffer);
            self.adapters.replace(numbers.zip(adapters).collect());
        });
    }

    /// What is trained: the adapters, or the model's parameters where there are none.
    pub(super) fn trained(&self) -> Vec<Tensor> {
        if self.is_frozen() {
            let adapters = self.adapters.borrow();
            let halves = adapters
                .values()
                .flat_map(|a| [a.down.clone(), a.up.clone()]);
            halves.collect()
        } else {
            self.parameters.borrow().iter().flatten().cloned().collect()
        }
    }

    /// A projection, and what its adapter adds.
    pub(super) fn adapted(&self, x: &Tensor, layer: &Linear<Tensor>) -> Tensor {
        let device = &self.device;
        let result = device.linear(x, &layer.weight, &layer.bias);
        let Some(Adapter { down, up }) =
            self.adapters.borrow().get(&layer.weight.buffer()).cloned()
        else {
            return result;
        };
        let dtype = result.dtype();
        let x = device.to(x, down.dtype());
        let kept = if self.drops(DROPOUT) {
            device.dropout(&x)
        } else {
            x.clone()
        };
        let narrow = device.linear_without_bias(&kept, &down);
        drop(kept);
        let wide = device.linear_without_bias(&narrow, &up);
        drop(narrow);
        let scaled = device.scale(&wide);
        drop(wide);
        let sum = device.add(&result, &scaled);
        drop((scaled, result));
        device.to(&sum, dtype)
    }
}
