"""Measures several PyTorch processes that share one card of the size of a T4.

    python sharing.py >> sharing.jsonl

Prints one JSON record a group: processes of one job that run at the same time, each with its allocator
limited to an equal share of what a T4 offers less a context, and what NVML shows while all of them are
there. Sizes are bytes.
"""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from typing import Any

import torch_probe

# What a process can use of a T4, and the most that a context is assumed to take there (`gpu.rs`,
# `context.rs`).
USABLE = int(14.563 * 2**30)
CONTEXT = 800 * 2**20

MODEL = "bert-large-uncased"
CONFIG = {
    "model_type": "bert",
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
}
# Processes, and what each of them runs.
GROUPS = (
    (2, {"task": "sequence-classification", "mode": "train", "batch": 8, "seq": 128}),
    (2, {"task": "sequence-classification", "mode": "train", "batch": 8, "seq": 512}),
    (3, {"task": "sequence-classification", "mode": "train", "batch": 8, "seq": 128}),
    (4, {"task": "base", "mode": "infer", "batch": 8, "seq": 128}),
)


def work() -> None:
    """One process: runs the job on its first line of input, prints the record, and keeps what it
    holds until its input ends."""
    stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    record: dict[str, Any] = {}
    with contextlib.redirect_stdout(sys.stderr):
        job = torch_probe.parse_job(sys.stdin.readline())
        try:
            torch_probe.probe(job, record)
        except Exception as error:
            record.update(outcome="failed", error=torch_probe.first_line(error))
    print(json.dumps(record), file=stdout, flush=True)
    sys.stdin.read()


def used() -> int | None:
    """What NVML says is used of the first card."""
    return next(iter(torch_probe.read_nvml()[0].values()), None)


class Highest:
    """Reads NVML until it is stopped."""

    def __init__(self) -> None:
        self.bytes: int | None = None
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self) -> None:
        while not self.ended.is_set():
            now = used()
            if now is not None:
                self.bytes = max(now, self.bytes or 0)
            time.sleep(0.01)

    def stop(self) -> int | None:
        self.ended.set()
        self.thread.join()
        return self.bytes


def together(count: int, job: torch_probe.Job) -> dict[str, Any]:
    """Runs a job in so many processes at once."""
    before, highest = used(), Highest()
    text = json.dumps(dataclasses.asdict(job))
    processes = []
    for _ in range(count):
        process = subprocess.Popen(
            [sys.executable, __file__, "--work"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        process.stdin.write(text + "\n")
        process.stdin.flush()
        processes.append(process)
    records = [json.loads(process.stdout.readline()) for process in processes]
    nvml_used = highest.stop()
    for process in processes:
        process.communicate()
    outcomes = [record["outcome"] for record in records]
    worst = next((word for word in ("failed", "oom") if word in outcomes), "ok")
    first = records[outcomes.index(worst)]
    return {
        "runtime_version": first.get("runtime_version"),
        "gpu": first.get("gpu"),
        "driver": first.get("driver"),
        "outcome": worst,
        "error": first.get("error"),
        "nvml_before": before,
        "nvml_used": nvml_used,
        "each": [
            {name: record.get(name) for name in ("outcome", "peak_allocated", "peak_reserved")}
            for record in records
        ],
    }


def main() -> None:
    """Runs every group, prints a record each."""
    if sys.argv[1:] == ["--work"]:
        work()
        return
    for count, words in GROUPS:
        cap = USABLE // count - CONTEXT
        job = torch_probe.Job(config=CONFIG, cap_bytes=cap, **words)
        workload = dataclasses.asdict(job)
        for name in ("config", "trace", "device", "steps"):
            del workload[name]
        record = {
            "schema": 1,
            "kind": "sharing",
            "id": uuid.uuid4().hex[:12],
            "model": MODEL,
            **workload,
            "runtime": "torch",
            "processes": count,
            **together(count, job),
        }
        print(torch_probe.line(record), flush=True)


if __name__ == "__main__":
    main()
