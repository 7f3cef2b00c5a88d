"""A handler that does what each instance says, `{"do": ACTION, …}`, and answers with the process it did it in.

By /predictions/<model> the body is the instance.
"""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

log = logging.getLogger(__name__)
leaked = []


def fail_on_gpu():
    raise RuntimeError("CUDA error: device-side assert triggered\nFor debugging consider …")


class Acting:
    def initialize(self, context):
        self.settings = context.model_yaml_config or {}
        self.version = context.manifest["model"]["modelVersion"]
        wait_while(Path(context.system_properties["model_dir"]).parent / "closed")

    def handle(self, rows, context):
        instances = [row.get("body", row) for row in rows]
        if len(instances) > 1:
            log.info("a batch of %d", len(instances))
        results = [getattr(self, instance["do"])(**{**instance, "do": None}) for instance in instances]
        return results[1:] if any(instance["do"] == "forget" for instance in instances) else results

    def tell(self, **_):
        return os.getpid()

    forget = tell

    def tell_version(self, **_):
        return self.version

    def tell_settings(self, **_):
        return self.settings

    def tell_where(self, **_):
        return [str(Path.cwd()), sys.path[0]]

    def tell_module(self, name, **_):
        return __import__(name).WORD

    def tell_module_of_a_process(self, name, **_):
        """The same of a Python process of its own, which does not look for modules where it is."""
        program = f"import {name}; print({name}.WORD)"
        return subprocess.check_output([sys.executable, "-c", program], cwd="/", text=True).strip()

    def tell_arguments(self, **_):
        return sys.argv[1:]

    def tell_variable(self, name, **_):
        """As it is here, and in a process of its own."""
        return [os.environ.get(name), subprocess.run(["printenv", name], capture_output=True, text=True).stdout.strip()]

    def wait(self, file, **_):
        """Until there is a file of this name; says by another that it waits."""
        Path(file).with_suffix(".reached").touch()
        while not Path(file).exists():
            time.sleep(0.01)
        return os.getpid()

    def note(self, file, text, **_):
        with Path(file).open("a") as notes:
            notes.write(text)
        return text

    def start(self, **_):
        """A process of its own, which would outlive it."""
        return subprocess.Popen(["sleep", "1000"]).pid

    def leave(self, **_):
        """The same, which does not end with it either."""
        return subprocess.Popen(["sleep", "1000"], start_new_session=True).pid

    def fork(self, **_):
        """A process that has all open that this one has, its connection too."""
        child = os.fork()
        if not child:
            time.sleep(1000)
            os._exit(0)
        return child

    def say(self, text, **_):
        print(text)
        return text

    def leak(self, mib, **_):
        """Memory that is really used, and never given back."""
        leaked.append(os.urandom(1) * (mib * 1024 * 1024))
        return os.getpid()

    def echo(self, text, **_):
        return text

    def fail(self, **_):
        raise ValueError("cannot read this")

    def lose_gpu(self, **_):
        """Fail as CUDA does after an assertion on a GPU, from now on; tests/gpu has such an assertion."""
        import torch

        torch.cuda.is_initialized, torch.cuda.synchronize = (lambda: True), fail_on_gpu
        fail_on_gpu()

    def quote(self, text, **_):
        print(text)
        raise ValueError(f"cannot read {text}")

    def quote_last(self, text, **_):
        sys.exit(text)

    def hang(self, **_):
        while True:
            time.sleep(10)

    def exit(self, **_):
        sys.exit(3)

    def end(self, **_):
        os._exit(7)

    def interrupt(self, **_):
        raise KeyboardInterrupt

    def kill(self, **_):
        os.kill(os.getpid(), signal.SIGKILL)

    def crash(self, **_):
        os.abort()


def wait_while(file):
    while file.exists():
        time.sleep(0.01)
    if file.with_name("broken").exists():
        raise RuntimeError(json.dumps("it is broken now"))
