"""Runs one PyTorch job for real and prints what it measured, as one line of JSON.

    python torch_probe.py < job.json
    python torch_probe.py --job job.json

The job is one JSON object; its fields are those of `Job`. One process runs one job, since the
allocator's cache, the cuBLAS workspaces and the CUDA context outlive whatever asked for them.
Standard output carries the record alone, everything else goes to standard error. Running out of
memory is an outcome (exit status 0); any other end is the outcome "failed" (exit status 1).

Sizes are bytes. Nothing but the job itself allocates on the device, in the order in which the
project's other records were made: model, batch, adapters, then the steps.
"""

import argparse
import contextlib
import dataclasses
import importlib.util
import json
import math
import os
import platform
import sys
import tempfile
from typing import Any

# Imported by `load_libraries`, after the environment that they read has been set.
torch: Any = None
transformers: Any = None

# The process sees one GPU only (`prepare_environment`), so it is always the first.
DEVICE = "cuda:0"

# Task: transformers' class for the model with its head.
TASKS = {
    "base": "AutoModel",
    "sequence-classification": "AutoModelForSequenceClassification",
    "masked-lm": "AutoModelForMaskedLM",
    "causal-lm": "AutoModelForCausalLM",
    "seq2seq-lm": "AutoModelForSeq2SeqLM",
    "image-classification": "AutoModelForImageClassification",
}
LANGUAGE_MODELING = ("masked-lm", "causal-lm", "seq2seq-lm")

# Optimizer: torch.optim's class and its arguments. The same in both loops, so that a word means
# the same everywhere: Trainer's own "adafactor" would be another implementation.
OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "adamw": ("AdamW", {}),
    "adamw-single": ("AdamW", {"foreach": False}),
    "adamw-fused": ("AdamW", {"fused": True}),
    "sgd": ("SGD", {}),
    "sgd-momentum": ("SGD", {"momentum": 0.9}),
    "adafactor": ("Adafactor", {}),
}
# Small, so that a randomly initialised half-precision model stays finite.
LEARNING_RATE = 1e-5

# Precision: the type of the weights, and the type of autocast if any (names in torch).
PRECISIONS = {
    "fp32": ("float32", None),
    "bf16": ("bfloat16", None),
    "fp16": ("float16", None),
    "amp-bf16": ("float32", "bfloat16"),
    "amp-fp16": ("float32", "float16"),
}

CHOICES = {
    "task": tuple(TASKS),
    "mode": ("train", "infer"),
    "precision": tuple(PRECISIONS),
    "attention": ("eager", "sdpa"),
    "optimizer": tuple(OPTIMIZERS),
    "loop": ("plain", "trainer"),
    "placement": ("on-device", "to", "device-map"),
}

# What the query and value projections are called, over the architectures.
LORA_TARGETS = set(
    "query value q_proj v_proj q_lin v_lin q v c_attn Wqkv query_key_value qkv_proj".split()
)

# Learned position tables; rotary models have none and no limit here.
POSITION_TABLES = ("position_embeddings", "wpe", "embed_positions")

TRACED_ACTIONS = set(
    "alloc free_requested free_completed oom "
    "segment_alloc segment_free segment_map segment_unmap".split()
)


class ProbeError(Exception):
    """A job that cannot run here, said in one line."""


@dataclasses.dataclass
class Job:
    """What to run. `config` is the content of a Hugging Face config.json."""

    config: dict[str, Any]
    task: str
    mode: str
    batch: int
    seq: int = 1
    precision: str = "fp32"
    attention: str = "sdpa"
    optimizer: str = "adamw"
    checkpointing: bool = False
    accumulation: int = 1
    padding: bool = False
    loop: str = "plain"
    placement: str = "on-device"
    lora_rank: int = 0
    compile: bool = False
    models: int = 1
    allocator_conf: str = ""
    steps: int | None = None
    cap_bytes: int | None = None
    trace: bool = False
    device: int = 0

    @property
    def training(self) -> bool:
        """Whether gradients are computed."""
        return self.mode == "train"

    @property
    def amp(self) -> str | None:
        """The type of autocast, or None without."""
        return PRECISIONS[self.precision][1]

    def weight_dtype(self) -> Any:
        """The type of the weights."""
        return getattr(torch, PRECISIONS[self.precision][0])


def parse_job(text: str) -> Job:
    """Reads and checks a job."""
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        raise ProbeError(f"the job is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ProbeError("the job is not a JSON object")
    known = {field.name: field for field in dataclasses.fields(Job)}
    if unknown := sorted(set(fields) - set(known)):
        raise ProbeError(f"unknown job field {unknown[0]}; known: {', '.join(known)}")
    for name, field in known.items():
        if name not in fields and field.default is dataclasses.MISSING:
            raise ProbeError(f"the job has no {name}")
    job = Job(**fields)
    if job.steps is None:
        job.steps = 3 if job.training else 2
    check_job(job)
    return job


def check_job(job: Job) -> None:
    """Refuses values that mean nothing."""
    for name, choices in CHOICES.items():
        if getattr(job, name) not in choices:
            raise ProbeError(f"unknown {name} {getattr(job, name)!r}; known: {', '.join(choices)}")
    least = {"batch": 1, "seq": 1, "accumulation": 1, "steps": 1, "lora_rank": 0, "models": 1,
             "device": 0}
    if job.cap_bytes is not None:
        least["cap_bytes"] = 1
    for name, low in least.items():
        value = getattr(job, name)
        if type(value) is not int or value < low:
            raise ProbeError(f"{name} is {value!r}, not a whole number of at least {low}")
    for name in ("checkpointing", "padding", "compile", "trace"):
        if type(getattr(job, name)) is not bool:
            raise ProbeError(f"{name} is {getattr(job, name)!r}, not true or false")
    if type(job.allocator_conf) is not str:
        raise ProbeError("allocator_conf is not a string")
    if type(job.config) is not dict or type(job.config.get("model_type")) is not str:
        raise ProbeError("config has no model_type")
    if job.models > 1 and (job.training or job.compile):
        raise ProbeError("several models are run in inference without compilation")
    if job.loop == "trainer" and (not job.training or job.task == "base"):
        raise ProbeError("the trainer loop trains a task that has a loss")


def prepare_environment(job: Job) -> None:
    """Sets what torch reads when it is imported: the allocator's options and the one visible GPU.

    A second visible GPU would make Trainer run on both.
    """
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        os.environ.pop(name, None)
        if job.allocator_conf:
            os.environ[name] = job.allocator_conf
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        os.environ["CUDA_VISIBLE_DEVICES"] = str(job.device)
    else:
        names = visible.split(",")
        # An empty value hides every GPU, which is then reported as such.
        chosen = names[job.device].strip() if job.device < len(names) else ""
        os.environ["CUDA_VISIBLE_DEVICES"] = chosen
    # What else changes the allocator's story, or makes Trainer expect other processes.
    for name in ("CUBLAS_WORKSPACE_CONFIG", "CUBLASLT_WORKSPACE_SIZE", "RANK", "LOCAL_RANK",
                 "WORLD_SIZE", "PYTORCH_NO_CUDA_MEMORY_CACHING"):
        os.environ.pop(name, None)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def load_libraries(job: Job) -> None:
    """Imports torch and transformers, or says which one is missing."""
    global torch, transformers
    needed = {"torch": "torch", "transformers": "transformers"}
    if job.loop == "trainer":
        needed["accelerate"] = "accelerate, which the trainer loop needs"
    if job.placement == "device-map":
        needed["accelerate"] = "accelerate, which device-map needs"
    if job.lora_rank > 0:
        needed["peft"] = "peft, which LoRA needs"
    for module, words in needed.items():
        if importlib.util.find_spec(module) is None:
            raise ProbeError(f"this Python has no {words}: pip install {module}")
    import torch as torch_module
    import transformers as transformers_module

    torch, transformers = torch_module, transformers_module
    if int(transformers.__version__.split(".")[0]) < 5:
        raise ProbeError(f"transformers {transformers.__version__} is too old: 5 or later is needed")


def check_device(job: Job) -> None:
    """Says plainly why CUDA cannot be used, if it cannot."""
    if torch.version.cuda is None:
        raise ProbeError(f"this torch ({torch.__version__}) was built without CUDA")
    if not torch.cuda.is_available():
        raise ProbeError(f"there is no CUDA device {job.device}")


def read_nvml() -> tuple[dict[str, int], str | None]:
    """Used bytes of every GPU by its UUID, and the driver's version; empty where NVML is not.

    Used is that of NVML's second form, as in nvidia-smi: without what the driver reserves.
    """
    try:
        import pynvml

        pynvml.nvmlInit()
        used = {}
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
            used[pynvml.nvmlDeviceGetUUID(handle)] = memory.used
        return used, pynvml.nvmlSystemGetDriverVersion()
    except Exception as error:  # not installed, no driver, no permission: fields are then absent
        print(f"no NVML figures: {error}", file=sys.stderr)
        return {}, None


def device_uuid() -> str:
    """The GPU's UUID as NVML writes it: NVML's indices are not CUDA's."""
    return f"GPU-{torch.cuda.get_device_properties(DEVICE).uuid}"


def create_context(record: dict[str, Any], nvml_before: dict[str, int]) -> None:
    """Creates the CUDA context without allocating anything, and notes what it took."""
    torch.cuda.init()
    torch.cuda.set_device(DEVICE)
    torch.cuda.synchronize(DEVICE)
    free, total = torch.cuda.mem_get_info(DEVICE)
    record["usable"] = total
    record["used_after_context"] = total - free
    uuid = device_uuid()
    after = read_nvml()[0].get(uuid)
    record["nvml_before"] = nvml_before.get(uuid)
    record["nvml_after_context"] = after
    if after is not None and uuid in nvml_before:
        record["context_bytes"] = after - nvml_before[uuid]


def describe_machine(record: dict[str, Any], driver: str | None) -> None:
    """Notes the versions and the card."""
    properties = torch.cuda.get_device_properties(DEVICE)
    enabled = {
        "cudnn": torch.backends.cuda.cudnn_sdp_enabled(),
        "flash": torch.backends.cuda.flash_sdp_enabled(),
        "efficient": torch.backends.cuda.mem_efficient_sdp_enabled(),
        "math": torch.backends.cuda.math_sdp_enabled(),
    }
    record.update(
        gpu=properties.name,
        sms=properties.multi_processor_count,
        compute_capability=f"{properties.major}.{properties.minor}",
        driver=driver,
        cuda=torch.version.cuda,
        cudnn=torch.backends.cudnn.version(),
        cudnn_last=os.environ.get("TORCH_CUDNN_SDPA_DEPRIORITIZED") == "1",
        sdpa_backends=[name for name, on in enabled.items() if on],
    )


def limit_allocator(limit: int) -> None:
    """Caps the allocator at exactly `limit` bytes; torch takes a fraction and truncates."""
    total = torch.cuda.get_device_properties(DEVICE).total_memory
    if limit > total:
        raise ProbeError(f"cap_bytes {limit} is beyond the device's {total} bytes")
    torch.cuda.set_per_process_memory_fraction(exact_fraction(limit, total), DEVICE)


def exact_fraction(limit: int, total: int) -> float:
    """The fraction f for which int(f * total) is `limit`."""
    fraction = limit / total
    while int(fraction * total) < limit:
        fraction = math.nextafter(fraction, 1.0)
    while int(fraction * total) > limit:
        fraction = math.nextafter(fraction, 0.0)
    return fraction


class Meter:
    """Reads the allocator's high-water marks by phase and keeps the highest over all of them."""

    def __init__(self) -> None:
        self.steps: list[dict[str, int]] = []
        self.peaks = {"allocated": 0, "requested": 0, "reserved": 0}

    def fold(self) -> int:
        """Ends a phase: takes its peaks into the total and returns that of allocated bytes."""
        stats = torch.cuda.memory_stats(DEVICE)
        for name in self.peaks:
            self.peaks[name] = max(self.peaks[name], stats.get(f"{name}_bytes.all.peak", 0))
        torch.cuda.reset_peak_memory_stats(DEVICE)
        return stats.get("allocated_bytes.all.peak", 0)

    def start_step(self) -> None:
        """Begins a step."""
        self.fold()
        self.steps.append({"start": torch.cuda.memory_allocated(DEVICE)})

    def mark(self, phase: str) -> None:
        """Ends a phase of the step. The earlier passes of an accumulated step count as forward."""
        step = self.steps[-1]
        step[f"peak_{phase}"] = max(step.get(f"peak_{phase}", 0), self.fold())
        step[f"after_{phase}"] = torch.cuda.memory_allocated(DEVICE)


def start_trace() -> None:
    """Records every event of the allocator, without stacks."""
    torch.cuda.memory._record_memory_history(enabled="all", context=None, stacks="python")


def trace_events() -> list[list[Any]]:
    """The events so far. That of an OOM has the device's free bytes in place of the address."""
    events = torch.cuda.memory._snapshot()["device_traces"][torch.device(DEVICE).index]
    return [
        [e["action"], e.get("addr", e.get("device_free", 0)), e["size"], e["stream"]]
        for e in events
        if e["action"] in TRACED_ACTIONS
    ]


def read_config(job: Job) -> Any:
    """Makes transformers' config of the job's."""
    model_type = job.config["model_type"]
    if model_type not in transformers.CONFIG_MAPPING:
        raise ProbeError(f"transformers {transformers.__version__} has no model_type {model_type}")
    config = transformers.CONFIG_MAPPING[model_type].from_dict(job.config)
    if hasattr(config, "use_cache"):
        config.use_cache = False
    return config


def build_model(job: Job, config: Any) -> Any:
    """Builds the model with random weights and brings it to the device as the job says."""
    auto_class = getattr(transformers, TASKS[job.task])
    if type(config) not in auto_class._model_mapping:
        raise ProbeError(f"model_type {config.model_type} has no model for the task {job.task}")
    dtype = job.weight_dtype()
    options = {"dtype": dtype, "attn_implementation": job.attention}
    if job.placement == "on-device":
        # The modeling code is imported here, as it is in a script that builds its model so: a
        # module that makes a tensor when it is imported (torchaudio's kaldi) makes it on the GPU.
        with torch.device(DEVICE):
            model = auto_class.from_config(config, **options)
        # Rotary tables are made in fp32 whatever the type, and become the model's here.
        return model.to(dtype) if dtype != torch.float32 else model
    with tempfile.TemporaryDirectory() as folder:
        auto_class.from_config(config, **options).save_pretrained(folder)
        if job.placement == "device-map":
            return auto_class.from_pretrained(folder, device_map=DEVICE, **options)
        return auto_class.from_pretrained(folder, **options).to(DEVICE)


def check_positions(job: Job, model: Any) -> None:
    """Refuses a sequence longer than a learned position table, which CUDA would only assert on."""
    if job.task == "image-classification":
        return
    for name, module in model.named_modules():
        if name.rpartition(".")[2] in POSITION_TABLES and isinstance(module, torch.nn.Embedding):
            first = getattr(module, "offset", 0)
            if module.padding_idx is not None:  # RoBERTa counts from behind the padding index
                first = module.padding_idx + 1
            limit = module.num_embeddings - first
            if job.seq > limit:
                raise ProbeError(f"seq {job.seq} is beyond the model's {limit} positions")


def make_batch(job: Job, config: Any, device: str) -> dict[str, Any]:
    """The inputs, in the order in which the records' were allocated; labels come last, in training.

    Without labels, a decoder that would derive its inputs from them is given some.
    """
    if job.task == "image-classification":
        size, channels = config.image_size, config.num_channels
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        pixels = torch.randn(job.batch, channels, height, width, device=device)
        batch = {"pixel_values": pixels.to(job.weight_dtype())}
    else:
        shape = (job.batch, job.seq)
        ids = torch.randint(0, config.get_text_config().vocab_size, shape, device=device)
        mask = torch.ones_like(ids)
        if job.padding:
            for row in range(1, job.batch):
                end = max(1, job.seq - (37 * row % max(1, job.seq - 1)) - 1)
                mask[row, end:] = 0
        batch = {"input_ids": ids, "attention_mask": mask}
    if job.training and job.task in LANGUAGE_MODELING:
        batch["labels"] = ids.clone()
    elif job.training and job.task != "base":
        batch["labels"] = torch.zeros(job.batch, dtype=torch.long, device=device)
    if "labels" not in batch and config.is_encoder_decoder:
        batch["decoder_input_ids"] = ids
    return batch


def add_adapters(job: Job, model: Any) -> Any:
    """Freezes the model and adds LoRA's adapters to its query and value projections."""
    import peft

    names = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    targets = sorted(names & LORA_TARGETS)
    if not targets:
        raise ProbeError("found no query and value projections to adapt")
    lora = peft.LoraConfig(r=job.lora_rank, lora_dropout=0.05, target_modules=targets)
    return peft.get_peft_model(model, lora)


def autocast(job: Job) -> contextlib.AbstractContextManager:
    """Autocast for amp-*, nothing for other precisions."""
    if job.amp is None:
        return contextlib.nullcontext()
    return torch.autocast(torch.device(DEVICE).type, dtype=getattr(torch, job.amp))


def forward_loss(job: Job, model: Any, batch: dict[str, Any]) -> Any:
    """The model's loss. The outputs die here: kept, they would live through the backward pass."""
    if job.task != "base":
        return model(**batch).loss
    outputs = model(**batch)
    pooled = getattr(outputs, "pooler_output", None)
    return (outputs.last_hidden_state if pooled is None else pooled).pow(2).mean()


def train(job: Job, model: Any, batch: dict[str, Any], meter: Meter) -> dict[str, Any]:
    """A plain training loop. The previous loss is bound until the next one is."""
    name, options = OPTIMIZERS[job.optimizer]
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = getattr(torch.optim, name)(trainable, lr=LEARNING_RATE, **options)
    scaler = None
    if job.amp == "float16":
        scaler = torch.amp.GradScaler(torch.device(DEVICE).type)
    for _ in range(job.steps):
        optimizer.zero_grad(set_to_none=True)
        meter.start_step()
        for _ in range(job.accumulation):
            with autocast(job):
                loss = forward_loss(job, model, batch)
            meter.mark("fwd")
            (scaler.scale(loss) if scaler else loss).backward()
        meter.mark("bwd")
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        meter.mark("step")
    received = [p.numel() for p in trainable if p.grad is not None]
    measured = {"n_params_with_gradient": sum(received), "n_tensors_with_gradient": len(received)}
    if scaler:
        # Below the initial 65536 where steps were skipped for infinite gradients: a skipped
        # first step makes no optimizer state.
        measured["grad_scale"] = scaler.get_scale()
    return measured


def train_with_trainer(job: Job, model: Any, config: Any, meter: Meter) -> dict[str, Any]:
    """Hugging Face's Trainer over rows in host memory. Clipping counts as backward."""
    batch = make_batch(job, config, "cpu")
    rows = [{name: values[i] for name, values in batch.items()} for i in range(job.batch)]
    name, options = OPTIMIZERS[job.optimizer]

    class MeteredTrainer(transformers.Trainer):
        """Ends the forward phase where the loss is known."""

        def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
            loss = super().compute_loss(*args, **kwargs)
            meter.mark("fwd")
            return loss

    class Phases(transformers.TrainerCallback):
        """Ends the other phases."""

        def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
            meter.start_step()

        def on_pre_optimizer_step(self, *args: Any, **kwargs: Any) -> None:
            meter.mark("bwd")

        def on_optimizer_step(self, *args: Any, **kwargs: Any) -> None:
            meter.mark("step")

    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            max_steps=job.steps,
            per_device_train_batch_size=job.batch,
            gradient_accumulation_steps=job.accumulation,
            gradient_checkpointing=job.checkpointing,
            gradient_checkpointing_kwargs={"use_reentrant": False},
            bf16=job.amp == "bfloat16",
            fp16=job.amp == "float16",
            torch_compile=job.compile,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            # Every batch is then the plain loop's: random order could draw one without padding.
            train_sampling_strategy="sequential",
        )
        MeteredTrainer(
            model=model,
            args=arguments,
            train_dataset=rows * job.accumulation * job.steps,
            data_collator=transformers.default_data_collator,
            callbacks=[Phases()],
            optimizer_cls_and_kwargs=(getattr(torch.optim, name), {"lr": LEARNING_RATE, **options}),
        ).train()
    return {}


def infer(job: Job, models: list[Any], batch: dict[str, Any], meter: Meter) -> dict[str, Any]:
    """Forward passes of each model in turn, nothing kept for a backward pass; the outputs are bound
    when it ends."""
    for _ in range(job.steps):
        for model in models:
            meter.start_step()
            with torch.no_grad(), autocast(job):
                outputs = model(**batch)
            meter.mark("fwd")
            del outputs
    return {}


def run_workload(job: Job, config: Any, meter: Meter, record: dict[str, Any]) -> None:
    """Builds the model, or several in inference, then runs its steps."""
    torch.manual_seed(0)
    record["base_allocated"] = torch.cuda.memory_allocated(DEVICE)
    model = build_model(job, config)
    others = [build_model(job, config) for _ in range(job.models - 1)]
    check_positions(job, model)
    record["n_params"] = sum(p.numel() for p in model.parameters())
    record["buffer_bytes"] = sum(b.numel() * b.element_size() for b in model.buffers())
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(DEVICE)
    record["model_allocated"] = torch.cuda.memory_allocated(DEVICE) - record["base_allocated"]
    batch = {} if job.loop == "trainer" else make_batch(job, config, DEVICE)
    model.train(job.training)
    if job.training and job.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    for other in others:
        other.train(False)
    if job.lora_rank > 0:
        model = add_adapters(job, model)
        others = [add_adapters(job, other) for other in others]
    record["n_trainable"] = sum(p.numel() for p in model.parameters() if p.requires_grad)
    if job.compile and job.loop == "plain":
        model = torch.compile(model)
    if not job.training:
        measured = infer(job, [model, *others], batch, meter)
    elif job.loop == "trainer":
        measured = train_with_trainer(job, model, config, meter)
    else:
        measured = train(job, model, batch, meter)
    record.update(measured)
    # What has been freed by now is still in the cache, which is not emptied: it counts as reserved.
    finish_record(meter, record)


def finish_record(meter: Meter, record: dict[str, Any]) -> None:
    """Notes the allocator's and the device's figures at the end of the run."""
    meter.fold()
    torch.cuda.synchronize(DEVICE)
    stats = torch.cuda.memory_stats(DEVICE)
    record.update({f"peak_{name}": value for name, value in meter.peaks.items()})
    record.update(
        steps=meter.steps,
        reserved=torch.cuda.memory_reserved(DEVICE),
        nvml_used=read_nvml()[0].get(device_uuid()),
        num_alloc_retries=stats.get("num_alloc_retries", 0),
        num_ooms=stats.get("num_ooms", 0),
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the device was full: the allocator's own error, or a library's that found no room."""
    if isinstance(error, torch.OutOfMemoryError):
        return True
    words = ("CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")
    return isinstance(error, RuntimeError) and any(word in str(error) for word in words)


def first_line(error: BaseException) -> str:
    """The first line of a message; the kind of error where it has none."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def probe(job: Job, record: dict[str, Any]) -> None:
    """Runs a job and fills its record."""
    prepare_environment(job)
    nvml_before, driver = read_nvml()
    load_libraries(job)
    record.update(
        runtime_version=torch.__version__,
        transformers_version=transformers.__version__,
        python=platform.python_version(),
    )
    check_device(job)
    config = read_config(job)
    create_context(record, nvml_before)
    describe_machine(record, driver)
    if job.cap_bytes is not None:
        limit_allocator(job.cap_bytes)
    if job.trace:
        start_trace()
    meter = Meter()
    try:
        run_workload(job, config, meter, record)
        record["outcome"] = "ok"
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        record.update(outcome="oom", error=first_line(error))
        # The message is all that is wanted: the traceback holds the frames that hold the tensors,
        # and they stay held, so that the figures are those of the failure.
        finish_record(meter, record)
    if job.trace:
        record["events"] = trace_events()


def line(record: dict[str, Any]) -> str:
    """A record as one line. A figure that this machine does not have is absent, not null."""
    return json.dumps({name: value for name, value in record.items() if value is not None})


def main() -> int:
    """Reads the job, runs it with standard output kept free, prints the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--job", metavar="FILE", help="the job; standard input without it")
    arguments = parser.parse_args()
    record: dict[str, Any] = {}
    # Libraries print what they like, some of them past Python: that goes to standard error.
    stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with contextlib.redirect_stdout(sys.stderr):
        try:
            if arguments.job is None:
                text = sys.stdin.read()
            else:
                with open(arguments.job, encoding="utf-8") as file:
                    text = file.read()
            probe(parse_job(text), record)
        except Exception as error:
            if not isinstance(error, (ProbeError, OSError)):
                sys.excepthook(*sys.exc_info())
            record.update(outcome="failed", error=first_line(error))
            print(f"torch_probe: {record['error']}", file=sys.stderr)
    print(line(record), file=stdout, flush=True)
    return 1 if record["outcome"] == "failed" else 0


if __name__ == "__main__":
    sys.exit(main())
