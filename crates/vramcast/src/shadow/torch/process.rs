//! What the process did before the run.

use super::Card;
use super::tensor::{Device, Tensor};
use crate::dtype::DType;
use crate::timeline::Category;
use crate::workload::Placement;

/// What a process holds when a run begins. Workspaces are never given back, so a process that has
/// trained before holds them from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// Nothing.
    Fresh,
    /// cuBLAS's workspaces of the forward and the backward thread, cuBLASLt's of the first, and the
    /// scalar of a first import, see [`Device::hold`].
    Used {
        /// Whether a checkpointed layer has run, which takes a workspace of cuBLASLt for the
        /// backward thread.
        checkpointed: bool,
    },
}

/// The workspace of cuBLASLt (`CUBLASLT_WORKSPACE_SIZE`; as traced).
pub(super) const LT_WORKSPACE: u64 = 1 << 20;
/// The block of the scalar.
const SCALAR_BLOCK: u64 = 512;

impl Process {
    /// The process that holds so many allocated bytes (`base_allocated` of a record); `None` if no
    /// known one does.
    pub fn holding(bytes: u64, card: Card) -> Option<Self> {
        let trained = 2 * card.cublas_workspace() + LT_WORKSPACE + SCALAR_BLOCK;
        match bytes {
            0 => Some(Self::Fresh),
            _ if bytes == trained => Some(Self::Used {
                checkpointed: false,
            }),
            _ if bytes == trained + LT_WORKSPACE => Some(Self::Used { checkpointed: true }),
            _ => None,
        }
    }

    /// The same run in another process: what it holds moves everything after it.
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Fresh => Self::Used { checkpointed: true },
            Self::Used { .. } => Self::Fresh,
        }
    }
}

impl Device {
    /// Allocates what the process holds before the model. What is returned lives as long as the
    /// process: a scalar that transformers' audio module makes when it is imported, which lies on
    /// the device when that happens under `torch.device("cuda")`, as it does where a model is built
    /// there (as traced).
    pub(super) fn hold(&self, process: Process, placement: Placement) -> Option<Tensor> {
        let tape = &self.0.tape;
        let scalar = || {
            tape.with_category(Category::Workspaces, || {
                self.tensor(&[], DType::F32, "import")
            })
        };
        let Process::Used { checkpointed } = process else {
            return (placement == Placement::OnDevice).then(scalar);
        };
        let scalar = scalar();
        self.cublas(true);
        self.0.in_backward.set(true);
        self.cublas(checkpointed);
        self.0.in_backward.set(false);
        Some(scalar)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of `torch-h200-runs.jsonl` and `torch-h200-fresh.jsonl.gz`.
    #[test]
    fn every_base_of_the_records_is_a_process() {
        let holding = |bytes| Process::holding(bytes, Card::H200);
        assert_eq!(holding(0), Some(Process::Fresh));
        let used = |checkpointed| Some(Process::Used { checkpointed });
        assert_eq!(holding(68_157_952), used(false));
        assert_eq!(holding(69_206_528), used(true));
        assert_eq!(holding(1), None);
    }
}
