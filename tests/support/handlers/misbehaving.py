"""Does to its own process what the instance says; any other text is answered with the process that saw it."""

import os
import signal
import sys
import threading


def handle(instances, context):
    if instances is None:
        return None
    return [ACTIONS.get(instance, os.getpid)() for instance in instances]


ACTIONS = {
    "exit": lambda: sys.exit(3),
    "end": lambda: os._exit(0),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "hang": threading.Event().wait,
}
