"""Handlers for the archives of these tests, as source."""

from __future__ import annotations

# Answers each instance with the length of its text; a few texts make it misbehave.
LENGTHS = """
import time
from pathlib import Path

class Handler:
    def initialize(self, context):
        print("this handler is being initialized")

    def handle(self, instances, context):
        texts = [instance["data"] for instance in instances]
        if "raise" in texts:
            raise ValueError("cannot read this text")
        if "lose the GPU" in texts:
            self.lose_gpu()
        for text in texts:
            if text.startswith("wait for "):
                self.wait_for(Path(text.removeprefix("wait for ")))
        return [len(text) for text in texts]

    def lose_gpu(self):
        import torch

        if torch.cuda.is_initialized():
            raise RuntimeError("CUDA error: device-side assert triggered")
        torch.cuda.is_initialized, torch.cuda.synchronize = (lambda: True), self.lose_gpu
        self.lose_gpu()

    def wait_for(self, path):
        path.with_suffix(".reached").touch()
        while not path.exists():
            time.sleep(0.01)
"""

FAILING = """
class Handler:
    def initialize(self, context):
        raise RuntimeError("the weights are not there")

    def handle(self, instances, context):
        return instances
"""

SLOW = """
import time

class Handler:
    def initialize(self, context):
        time.sleep(600)

    def handle(self, instances, context):
        return instances
"""

# Ends its process when it is told to.
EXITING = """
import sys

def handle(instances, context):
    if instances and "exit" in instances:
        sys.exit(3)
    return instances
"""

# Leaves a process behind, and tells its number, when it is told to.
LEAVING = """
import os, subprocess
from pathlib import Path

def handle(instances, context):
    if instances:
        left = subprocess.Popen(["sleep", "600"], start_new_session=True)
        Path(instances[0]).write_text(str(left.pid))
        os._exit(3)
    return instances
"""

# Prints what it is sent, as handlers do while they are written.
PRINTING = """
import logging

def handle(instances, context):
    for instance in instances or []:
        print(instance)
        logging.getLogger(__name__).info("%s", instance)
    return [len(instance) for instance in instances or []]
"""
