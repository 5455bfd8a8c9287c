"""Measures what emptying PyTorch's cache does to a training loop whose batches differ in length.

    python empty_cache.py >> epochs.jsonl

Prints one JSON record a run: the same epochs without emptying, with `torch.cuda.empty_cache()` after
each epoch, and after each step; first with all of the card, then with the allocator limited to little
more than the longest batch needs. Sizes are bytes. The runs share a process, and each begins with an
empty cache.
"""

import contextlib
import dataclasses
import gc
import os
import sys
import time
import uuid
from typing import Any

import torch_probe

MODEL = "bert-base-uncased"
JOB = torch_probe.Job(
    # transformers' defaults are those of bert-base-uncased.
    config={"model_type": "bert"},
    task="sequence-classification",
    mode="train",
    batch=16,
)
# Tokens of the longest sequence in each batch of an epoch, as a collator that pads to it gives them.
LENGTHS = (96, 352, 512, 128, 256, 448, 64, 384, 160, 480, 224, 320)
EPOCHS = 3
EMPTIED = ("never", "epoch", "step")
# A batch of 512 tokens alone needs 6.31 GiB by the project's prediction.
LIMITS = (None, int(6.5 * 2**30))


def train_epoch(job: torch_probe.Job, model: Any, optimizer: Any, config: Any, emptied: str) -> None:
    """One step a length."""
    torch = torch_probe.torch
    for length in LENGTHS:
        batch = torch_probe.make_batch(dataclasses.replace(job, seq=length), config, torch_probe.DEVICE)
        optimizer.zero_grad(set_to_none=True)
        torch_probe.forward_loss(job, model, batch).backward()
        optimizer.step()
        del batch
        if emptied == "step":
            torch.cuda.empty_cache()


def run(job: torch_probe.Job, config: Any, emptied: str) -> dict[str, Any]:
    """All epochs of one run. An OOM ends it, and is its outcome."""
    torch = torch_probe.torch
    cuda = torch.cuda
    torch.manual_seed(0)
    model = torch_probe.build_model(job, config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch_probe.LEARNING_RATE)
    record: dict[str, Any] = {"outcome": "ok", "epochs": []}
    retries = cuda.memory_stats().get("num_alloc_retries", 0)
    for _ in range(EPOCHS):
        cuda.reset_peak_memory_stats()
        began = time.monotonic()
        try:
            train_epoch(job, model, optimizer, config, emptied)
        except torch.OutOfMemoryError as error:
            record.update(outcome="oom", error=torch_probe.first_line(error))
            break
        if emptied == "epoch":
            cuda.empty_cache()
        cuda.synchronize()
        record["epochs"].append(
            {
                "peak_allocated": cuda.max_memory_allocated(),
                "peak_reserved": cuda.max_memory_reserved(),
                "reserved_after": cuda.memory_reserved(),
                "nvml_after": torch_probe.read_nvml()[0].get(torch_probe.device_uuid()),
                "milliseconds": round(1000 * (time.monotonic() - began)),
            }
        )
    record["num_alloc_retries"] = cuda.memory_stats().get("num_alloc_retries", 0) - retries
    return record


def main() -> None:
    """Runs everything with standard output kept free, prints a record a run."""
    stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with contextlib.redirect_stdout(sys.stderr):
        torch_probe.prepare_environment(JOB)
        before, driver = torch_probe.read_nvml()
        torch_probe.load_libraries(JOB)
        torch_probe.check_device(JOB)
        torch = torch_probe.torch
        config = torch_probe.read_config(JOB)
        machine: dict[str, Any] = {}
        torch_probe.create_context(machine, before)
        torch_probe.describe_machine(machine, driver)
        whole = torch.cuda.get_device_properties(torch_probe.DEVICE).total_memory
        # Workspaces and kernels, which stay.
        run(JOB, config, "never")
        workload = dataclasses.asdict(dataclasses.replace(JOB, seq=max(LENGTHS), steps=len(LENGTHS)))
        for name in ("config", "cap_bytes", "trace", "device"):
            del workload[name]
        for limit in LIMITS:
            for emptied in EMPTIED:
                # What ran out of memory may hold itself in a cycle.
                gc.collect()
                torch.cuda.empty_cache()
                torch_probe.limit_allocator(limit or whole)
                record = {
                    "schema": 1,
                    "kind": "epochs",
                    "id": uuid.uuid4().hex[:12],
                    "model": MODEL,
                    **workload,
                    "runtime": "torch",
                    "runtime_version": torch.__version__,
                    "gpu": machine["gpu"],
                    "driver": driver,
                    "nvml_before": machine["nvml_before"],
                    "cap_bytes": limit,
                    "lengths": LENGTHS,
                    "emptied": emptied,
                    **run(JOB, config, emptied),
                }
                print(torch_probe.line(record), file=stdout, flush=True)


if __name__ == "__main__":
    main()
