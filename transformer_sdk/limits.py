"""Bounds of the data plane: what a client can make the server hold, do or wait for. docs/limits.md lists them.

Only constants stand here, each with its unit in the comment above it.
"""

from __future__ import annotations

# Bytes of the request line and all headers: proxies take less, and a session's cookies and tokens are far below.
MAX_HEAD = 64 * 1024
# Bytes of an answer in pieces that may wait for a client who reads more slowly than the model writes.
MAX_STREAM_BUFFER = 4 * 1024 * 1024

# Inputs, and requested outputs, of a v2 request.
MAX_TENSORS = 1024
# Parameters of a v2 request, of a tensor, and of a requested output.
MAX_PARAMETERS = 1024
# Sizes in a tensor's shape: numpy's limit.
MAX_DIMENSIONS = 64
# Lists that a tensor is, written as nested lists, for each of its elements: [1000, 2] is 1001 lists, [1000, 0] as well.
TENSOR_LISTS_PER_ELEMENT = 8
# Lists that a tensor may be at least, however few elements it has.
SMALL_TENSOR_LISTS = 1024
# Lists that a tensor may be at most, however many elements it has.
MAX_TENSOR_LISTS = 2_000_000

# Seconds that the event loop may be held before the log says by what.
LOOP_HELD_S = 0.5

# Names of settings that one line of the log lists; more are counted.
MAX_NAMED_SETTINGS = 20
