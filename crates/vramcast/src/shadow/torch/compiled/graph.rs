//! What Inductor schedules: kernels, after fusion, and the buffers between them.

use crate::dtype::DType;

/// The number of a buffer of a graph.
pub(super) type Id = usize;

/// Where a buffer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A kernel writes it into memory that the graph takes for it.
    Made,
    /// The forward graph saved it.
    Given,
    /// An operation of ATen made it, among others, and took its own memory.
    Part,
    /// All that an operation of ATen made: no memory but that of its parts.
    Tuple,
}

/// What a graph reads and writes. Parameters are none: they outlive it, and nothing that is decided
/// here looks at them.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    /// Inductor's name: buffers that die together die in the order of their names.
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) dtype: DType,
    pub(super) source: Source,
    /// Whether it outlives the graph.
    pub(super) returned: bool,
}

/// What a kernel does beside writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Triton's: no memory of its own.
    Fused,
    /// A product of cuBLAS, which may add a bias.
    Product { with_bias: bool },
    /// Scaled dot product attention.
    Attention,
    /// Its gradients.
    AttentionBackward,
    /// Takes one result out of the tuple that it reads.
    Part(usize),
}

/// How often Triton's configurations of a kernel are compared, which is when it first runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tuned {
    /// There is one configuration, or the kernel ran before in another place.
    #[default]
    Never,
    /// In the first pass.
    Once,
    /// In the second pass as well: dynamo compiles once more then, since there are gradients, and a
    /// choice of a scaled-down block is not found in Inductor's cache
    /// (torch/_inductor/runtime/triton_heuristics.py, `_dynamic_scale_rblock`; as traced).
    Twice,
}

/// A kernel, or a call of ATen.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    pub(super) work: Work,
    pub(super) reads: Vec<Id>,
    /// In the order in which they are allocated.
    pub(super) writes: Vec<Id>,
    /// Writes that may take the place of a read, the first that dies here.
    pub(super) over: Vec<(Id, Vec<Id>)>,
    /// Writes whose memory holds something else first.
    pub(super) rewritten: Vec<Id>,
    /// Bytes of what fusion left in registers, which Inductor's estimates still count.
    pub(super) unmade: u64,
    pub(super) tuned: Tuned,
}

/// Kernels in the order of the operations that they begin with.
#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    pub(super) buffers: Vec<Buffer>,
    pub(super) kernels: Vec<Kernel>,
    operations: u32,
}

impl Graph {
    /// The number of the next operation, which names its buffer.
    pub(super) fn number(&mut self) -> u32 {
        self.operations += 1;
        self.operations - 1
    }

    /// Passes over operations whose buffers are never made.
    pub(super) fn skip(&mut self, operations: u32) {
        self.operations += operations;
    }

    fn push(&mut self, name: String, elements: u64, dtype: DType, source: Source) -> Id {
        self.buffers.push(Buffer {
            name,
            bytes: elements.saturating_mul(dtype.bits()) / 8,
            dtype,
            source,
            returned: false,
        });
        self.buffers.len() - 1
    }

    /// A buffer of the next operation.
    pub(super) fn made(&mut self, elements: u64, dtype: DType) -> Id {
        let number = self.number();
        self.made_by(number, elements, dtype)
    }

    /// A buffer of an operation that was numbered before.
    pub(super) fn made_by(&mut self, number: u32, elements: u64, dtype: DType) -> Id {
        self.push(format!("buf{number}"), elements, dtype, Source::Made)
    }

    /// Something that the forward graph saved.
    pub(super) fn given(&mut self, name: String, bytes: u64, dtype: DType) -> Id {
        let id = self.push(name, 0, dtype, Source::Given);
        self.buffers[id].bytes = bytes;
        id
    }

    pub(super) fn returns(&mut self, id: Id) {
        self.buffers[id].returned = true;
    }

    pub(super) fn run(&mut self, work: Work, reads: &[Id], writes: &[Id]) -> &mut Kernel {
        self.kernels.push(Kernel {
            work,
            reads: reads.to_vec(),
            writes: writes.to_vec(),
            over: vec![],
            rewritten: vec![],
            unmade: 0,
            tuned: Tuned::Never,
        });
        let last = self.kernels.len() - 1;
        &mut self.kernels[last]
    }

    /// A kernel of one fresh buffer.
    pub(super) fn fused(&mut self, reads: &[Id], elements: u64, dtype: DType) -> Id {
        let out = self.made(elements, dtype);
        self.run(Work::Fused, reads, &[out]);
        out
    }

    /// The last kernel is compared where this is its first use.
    pub(super) fn tune_if(&mut self, first: bool, tuned: Tuned) {
        if let (true, Some(kernel)) = (first, self.kernels.last_mut()) {
            kernel.tuned = tuned;
        }
    }

    /// A product of cuBLAS.
    pub(super) fn product(
        &mut self,
        reads: &[Id],
        with_bias: bool,
        elements: u64,
        dtype: DType,
    ) -> Id {
        let out = self.made(elements, dtype);
        self.run(Work::Product { with_bias }, reads, &[out]);
        out
    }

    /// An operation of ATen with several results.
    pub(super) fn several(
        &mut self,
        work: Work,
        reads: &[Id],
        results: &[(u64, DType)],
    ) -> Vec<Id> {
        let number = self.number();
        let tuple = self.push(format!("buf{number}"), 0, DType::U8, Source::Tuple);
        self.run(work, reads, &[tuple]);
        let parts = results.iter().enumerate().map(|(i, &(elements, dtype))| {
            let number = self.number();
            let part = self.push(format!("buf{number}"), elements, dtype, Source::Part);
            self.run(Work::Part(i), &[tuple], &[part]);
            part
        });
        let parts: Vec<Id> = parts.collect();
        self.buffers[tuple].bytes = parts.iter().map(|&part| self.buffers[part].bytes).sum();
        parts
    }

    /// The kernels that read each buffer.
    pub(super) fn readers(&self) -> Vec<Vec<usize>> {
        let mut readers = vec![vec![]; self.buffers.len()];
        for (number, kernel) in self.kernels.iter().enumerate() {
            for &read in &kernel.reads {
                let of_buffer: &mut Vec<usize> = &mut readers[read];
                if of_buffer.last() != Some(&number) {
                    of_buffer.push(number);
                }
            }
        }
        readers
    }

    /// Bytes that Inductor counts when a buffer is made.
    pub(super) fn taken(&self, id: Id) -> u64 {
        match self.buffers[id].source {
            Source::Part => 0,
            Source::Made | Source::Given | Source::Tuple => self.buffers[id].bytes,
        }
    }

    /// Bytes that Inductor counts when a buffer dies.
    pub(super) fn given_back(&self, id: Id) -> u64 {
        match self.buffers[id].source {
            Source::Tuple => 0,
            Source::Made | Source::Given | Source::Part => self.buffers[id].bytes,
        }
    }
}
