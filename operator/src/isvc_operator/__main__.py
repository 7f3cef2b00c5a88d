"""``python -m isvc_operator``: the process in the operator's pod."""

from __future__ import annotations

import signal
import sys

from isvc_operator.command import main

# The first process of a container gets only the signals that it handles: until the operator does, one ends it here.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
sys.exit(main(sys.argv[1:]))
