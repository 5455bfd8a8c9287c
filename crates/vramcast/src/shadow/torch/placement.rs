//! How the weights come to the device (transformers, modeling_utils.py, and torch/nn/modules/
//! module.py, `_apply`; as traced).
//!
//! A model that is moved there takes its parameters and buffers in the order of its modules, which
//! is that of the constructors but for a module's own buffers, which come last in it; what the
//! constructors made and threw away was on the host. A model that is
//! loaded there takes a block of the size of all parameters first and gives it back, so that they
//! are carved from one segment; then its parameters, in an order that depends on the threads that
//! load them and is here that of the constructors; then its buffers. That the block leaves 1.2 GiB
//! of the card free is not followed.

use super::Shadow;
use super::layout::Layout;
use super::tensor::Tensor;
use crate::backend::BiasOf;
use crate::config::ModelConfig;
use crate::dtype::DType;
use crate::models::{self, Model};
use crate::timeline::Category;
use crate::workload::Placement;
use std::convert::Infallible;

impl Shadow {
    /// Brings a model to the device.
    pub(super) fn place(&self, config: &ModelConfig) -> Result<Model<Tensor>, Infallible> {
        let task = self.workload.task;
        if self.workload.placement == Placement::DeviceMap {
            let scratch = self.scratch();
            models::build(&scratch, config, task)?;
            let all = [scratch.elements_of_parameters()];
            drop(
                self.device
                    .tensor(&all, self.dtype, "caching_allocator_warmup"),
            );
        }
        let model = models::build(self, config, task)?;
        self.place_late_buffers();
        Ok(model)
    }

    pub(super) fn place_buffer(&self, dims: &[u64]) -> Tensor {
        match self.workload.placement {
            Placement::OnDevice => self.buffer(dims),
            Placement::To | Placement::DeviceMap => {
                let layout = Layout::contiguous(dims);
                self.late_buffers.borrow_mut().push(layout.dims.clone());
                self.device.ghost(layout, DType::I64)
            }
        }
    }

    /// At the end of a module that is moved, or of a model that is loaded.
    pub(super) fn place_late_buffers(&self) {
        for dims in self.late_buffers.take() {
            let buffer = self.buffer(&dims);
            self.buffers.borrow_mut().push(buffer);
        }
    }

    fn buffer(&self, dims: &[u64]) -> Tensor {
        let device = self.begin();
        device.0.tape.with_category(Category::Parameters, || {
            device.tensor(dims, DType::I64, "buffer")
        })
    }

    /// Initialization writes the positions anew, through a copy.
    pub(super) fn initialize_positions(&self, positions: &Tensor) {
        match self.workload.placement {
            Placement::OnDevice => {
                drop(self.begin().tensor(positions.dims(), DType::I64, "arange"));
            }
            Placement::To | Placement::DeviceMap => {}
        }
    }

    /// The bias of a decoder whose weight is the word table. Built on the device, the decoder has a
    /// weight and a bias of its own first; then `tie_weights` of transformers replaces the weight
    /// by the table, and the bias by the head's where the head has one. The bias is padded to the
    /// vocabulary, as it may be, each time that a parameter of the decoder is tied.
    pub(super) fn tied_bias(&self, table: &Tensor, bias_of: BiasOf) -> Tensor {
        let make = || self.fresh_parameter(&table.dims()[..1]);
        let bias = match (self.workload.placement, bias_of) {
            (Placement::To | Placement::DeviceMap, _) => make(),
            (Placement::OnDevice, BiasOf::Head) => {
                let weight = self.fresh_parameter(table.dims());
                let own = make();
                let of_head = make();
                drop(weight);
                let padded = make();
                drop((own, padded));
                let bias = make();
                drop(of_head);
                bias
            }
            (Placement::OnDevice, BiasOf::Decoder) => {
                let weight = self.fresh_parameter(table.dims());
                let own = make();
                drop(weight);
                let bias = make();
                drop(own);
                bias
            }
        };
        self.as_parameter(bias)
    }
}
