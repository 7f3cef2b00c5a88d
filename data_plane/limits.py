"""Bounds of the data plane: what a client can make the server hold, do or wait for. docs/limits.md lists them.

Only constants stand here, each with its unit in the comment above it.
"""

from __future__ import annotations

# Bytes of the request line and all headers: proxies take less, and a session's cookies and tokens are far below.
MAX_HEAD = 64 * 1024
# Bytes of a response in pieces that may wait for a client who reads more slowly than the model writes.
MAX_STREAM_BUFFER = 1024 * 1024

# Inputs, and requested outputs, of a v2 request.
MAX_TENSORS = 1024
# Parameters of a v2 request, of a tensor, and of a requested output.
MAX_PARAMETERS = 128
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

# Lines of the log on settings of one file without effect; more are counted.
MAX_NOTICES = 100
# Names of settings that one line of the log lists; more are counted.
MAX_NAMED_SETTINGS = 20

# Connections over HTTP; fewer where the process may not open so many files.
MAX_CONNECTIONS = 4096

# Connections beyond those: requests that are not GET get 503, probes and metrics are answered.
MAX_SURPLUS_CONNECTIONS = 64

# Requests that a connection may send ahead of the one that is being answered.
MAX_PIPELINED = 64

# Seconds from the first byte of a head to its last one, and of a TLS handshake.
HEAD_TIMEOUT = 30

# Seconds that a body may take, and a response until the client has read it, beside the time by MIN_RATE.
TRANSFER_TIMEOUT = 30

# Bytes a second that a body or a response has to move at, when it takes longer than TRANSFER_TIMEOUT.
MIN_RATE = 8 * 1024

# Seconds that a connection without a request is kept, while there are less than MAX_CONNECTIONS. Longer than any proxy
# keeps an idle connection (Envoy: one hour), or the proxy picks one that is closing.
KEEP_ALIVE = 3660

# Seconds that a refused client may go on sending before the connection is closed over it.
LINGER = 5

# Bytes of a refused body that are read and thrown away, so that the client gets to read its response: closing a
# connection with unread data resets it.
MAX_DISCARDED = 64 * 1024 * 1024

# Share of the container's memory limit, or of the machine's memory, for requests that are read, queued or answered.
BUFFERED_SHARE = 0.25

# Bytes of requests that are held at a time, where nobody has asked what memory there is.
MAX_BUFFERED = 1024 * 1024 * 1024

# Bytes that requests have held together, after which free memory is given back to the kernel.
LEAST_WAVE = 64 * 1024 * 1024

# Bytes of a response that does not count among those: a call or connection itself takes as much.
SMALL_ANSWER = 4 * 1024

# Files that are left for workers, models and connections to other servers.
FILE_RESERVE = 256

# Files that a process may open: its soft limit is raised to this, as far as the hard one goes.
MAX_FILES = 65536

# Bytes of a body, or of what it becomes, that are read and written on the event loop; more is, in a thread.
ON_LOOP_BYTES = 64 * 1024
# Lists and objects in a JSON body that this process makes objects of: the garbage collector looks at all in one go.
MAX_JSON_CONTAINERS = 500_000
# Lists and objects within one another, in a JSON body of more than 128 KiB.
MAX_JSON_DEPTH = 100

# Bytes of a structured CloudEvent without its data: as much as the headers of a binary one.
MAX_EVENT_ATTRIBUTES = 64 * 1024

# Fields of a gRPC request of more than ON_LOOP_BYTES: its own and its tensors', without the contents of these.
MAX_MESSAGE_FIELDS = 10_000
# Elements in the typed contents of such a request that are fields of their own: those of BYTES, and unpacked numbers.
MAX_MESSAGE_ELEMENTS = 1_000_000
# Whole numbers and booleans in the typed contents of such a request.
MAX_MESSAGE_NUMBERS = 4_000_000

# Fields and files of a form, and fields of a query.
MAX_FORM_PARTS = 1000

# How often a gRPC message is there while it is answered: as it came, parsed, and as tensors.
GRPC_COPIES = 3

# Messages that are read at a time over gRPC without regard to time and room.
MAX_GRPC_ARRIVING = 16

# Messages of ModelInfer that are read at a time over gRPC, beside those, at most, however many go into the budget.
MAX_GRPC_READERS = 64

# The same at least, and messages of all other methods.
MIN_GRPC_READERS = 8

# Calls that wait until their message is read.
MAX_GRPC_WAITING = 1024

# Seconds that a message may take over gRPC while other calls wait.
HURRIED_MESSAGE_TIMEOUT = 5

# Connections over gRPC; fewer where the process may not open so many files.
MAX_GRPC_CONNECTIONS = 1024

# Calls at a time on one connection; the client keeps others back.
MAX_GRPC_STREAMS = 1024

# Seconds after which a silent client of a gRPC connection is asked whether it is still there.
GRPC_PING = 60

# Seconds that it has to say so.
GRPC_PING_TIMEOUT = 20

# Bytes of a predictor's response that is read whole, over HTTP or gRPC: a larger one would end in a process that is
# out of memory.
MAX_ANSWER = 1024 * 1024 * 1024

# Bytes of a predictor's response in pieces that wait for a client who reads more slowly than the predictor writes.
MAX_WAITING_PIECES = 256 * 1024

# Connections over HTTP to one predictor.
MAX_PREDICTOR_CONNECTIONS = 1000

# Seconds between two attempts to connect to a predictor, of as many as are configured.
MAX_RETRY_PAUSE = 5.0

# Requests that wait for each thread of sync hooks.
HOOKS_WAITING = 256

# Seconds that a model may take to say whether it can serve requests, where it overrides `healthy`.
HEALTHY_TIMEOUT = 5.0

# Bytes of a sequence's id, of a model that keeps state between requests.
MAX_SEQUENCE_ID = 1024
# Ids of sequences that a model has lost with a worker, and refuses to go on with; the oldest are forgotten first.
MAX_LOST_SEQUENCES = 10_000

# Characters of an error's message, which may quote the request.
MAX_ERROR_TEXT = 16 * 1024
# Characters of a record of the log, and of a traceback.
MAX_LOG_TEXT = 64 * 1024
