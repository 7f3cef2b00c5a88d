"""Limits on what a client can make the data plane hold, do or wait for; docs/limits.md lists them.

This module has constants only, each with its unit in the comment above it.
"""

from __future__ import annotations

# Bytes of a request's body, where neither config.properties nor a flag says more: TorchServe's own default.
MAX_REQUEST = 6_553_500
# The most that this can be set to: the length of a gRPC message, and a number of TorchServe's, have 31 bits.
MAX_REQUEST_SIZE = 2**31 - 1
# As MAX_REQUEST, for servers that are built with the SDK.
MAX_SDK_REQUEST = 100 * 1024 * 1024
# Bytes of the request line and all headers. Proxies accept less, and cookies and tokens need far less.
MAX_HEAD = 64 * 1024
# Header fields of a request, those behind its body included: each takes memory beside its bytes.
MAX_FIELDS = 128
# Bytes of a streamed response that may wait for a client that reads more slowly than the model writes.
MAX_STREAM_BUFFER = 1024 * 1024

# Instances in a batch: enough to amortise a call, and few enough to stay in a CPU's caches.
DEFAULT_MAX_BATCH_SIZE = 32
# Requests that wait for a model.
DEFAULT_QUEUE_SIZE = 1000

# Inputs, and requested outputs, of a v2 request.
MAX_TENSORS = 1024
# Parameters of a v2 request, of a tensor, and of a requested output.
MAX_PARAMETERS = 128
# Dimensions of a tensor's shape: numpy's limit.
MAX_DIMENSIONS = 64
# Nested lists that a tensor may become, for each of its elements: [1000, 2] is 1001 lists, and so is [1000, 0].
TENSOR_LISTS_PER_ELEMENT = 8
# Nested lists that any tensor may become, however few elements it has.
SMALL_TENSOR_LISTS = 1024
# Nested lists that no tensor may exceed, however many elements it has.
MAX_TENSOR_LISTS = 2_000_000

# Seconds that a hook may block the event loop before the log reports it: so long may a readiness probe take.
LOOP_HELD_S = 2.0

# Log lines about settings without effect in one file; further ones are only counted.
MAX_NOTICES = 100
# Names of settings in one log line; further ones are only counted.
MAX_NAMED_SETTINGS = 20

# Connections over HTTP; fewer if the process may not open that many files.
MAX_CONNECTIONS = 4096

# Connections beyond those, which serve probes and metrics; requests other than GET get 503.
MAX_SURPLUS_CONNECTIONS = 64

# Requests that a client may pipeline on a connection behind the one in progress.
MAX_PIPELINED = 16

# Times a second that the metrics are read; requests beyond them get what was read last.
METRICS_PER_SECOND = 20

# Seconds to receive a request's head, from its first byte to its last; over gRPC, to complete a handshake.
HEAD_TIMEOUT = 30

# Seconds to receive a body, and to send a response, in addition to the time that MIN_RATE allows.
TRANSFER_TIMEOUT = 30

# Bytes per second at which a body or response must be transferred after TRANSFER_TIMEOUT.
MIN_RATE = 8 * 1024

# Seconds that an idle connection is kept open while there are fewer than MAX_CONNECTIONS. Longer than the keep-alive of
# any proxy (Envoy: one hour): else a proxy may send a request on a closing connection.
KEEP_ALIVE = 3660

# Seconds that idle connections stay open when a server ends: a request may be on its way, and its response says that it
# is the last. Over gRPC, clients are told at once that it ends, and calls that they have begun by then are served.
DRAIN_IDLE = 1

# Seconds for which a rejected client may pause while it sends the rest of its body, and for which one that sent what is
# no request may continue to send.
LINGER = 5

# Bytes of a rejected body that are read and discarded so that the client can read the response: closing a connection
# with unread data resets it.
MAX_DISCARDED = 64 * 1024 * 1024

# Share of the container's memory limit, or of the machine's memory, for requests in progress (read, queued, served).
BUFFERED_SHARE = 0.25

# Bytes of requests in progress, if the available memory is not known.
MAX_BUFFERED = 1024 * 1024 * 1024

# Bytes of requests in progress above which free memory is returned to the kernel afterwards.
LEAST_WAVE = 64 * 1024 * 1024

# Bytes of a response that is too small to count: a call or connection itself takes as much.
SMALL_RESPONSE = 4 * 1024

# File descriptors reserved for workers, models and connections to other servers.
FILE_RESERVE = 256

# File descriptors of the process: its soft limit is raised to this number, at most to the hard limit.
MAX_OPEN_FILES = 65536

# Bytes of a body, or of its decoded form, that are processed on the event loop; larger ones are processed in a thread.
ON_LOOP_BYTES = 64 * 1024
# Lists and objects in a JSON body that this process decodes: each takes up to thirty times the memory of its text.
MAX_JSON_CONTAINERS = 500_000

# Bytes of a structured CloudEvent without its data: as many as a binary one may have in headers.
MAX_EVENT_ATTRIBUTES = 64 * 1024

# Fields of a gRPC request of more than ON_LOOP_BYTES: its own and its tensors', without the tensors' contents.
MAX_MESSAGE_FIELDS = 10_000
# Elements of the typed contents of such a request that are separate fields: those of BYTES, and unpacked numbers.
MAX_MESSAGE_ELEMENTS = 1_000_000
# Whole numbers and booleans in the typed contents of such a request.
MAX_MESSAGE_NUMBERS = 4_000_000

# Fields and files of a form, and fields of a query.
MAX_FORM_PARTS = 1000

# Copies of a gRPC message in memory while it is served: serialized, parsed, and as tensors.
GRPC_COPIES = 3

# ModelInfer messages that may be received concurrently, however many the budget would allow.
MAX_GRPC_READERS = 64

# ModelInfer messages that may always be received concurrently, and messages of all other methods.
MIN_GRPC_READERS = 8

# gRPC calls that may wait until their message is received.
MAX_GRPC_WAITING = 1024

# Seconds to receive a gRPC message while other calls wait.
HURRIED_MESSAGE_TIMEOUT = 5

# Connections over gRPC; fewer if the process may not open that many files.
MAX_GRPC_CONNECTIONS = 1024

# Frames of HTTP/2 until a gRPC client acknowledges the server's settings, which it does with the first that it reads.
MAX_UNACKNOWLEDGED_FRAMES = 1024

# Concurrent calls on one gRPC connection, as its client is told; it delays further ones.
MAX_GRPC_STREAMS = 128

# Calls of one gRPC connection until gRPC has released them, which is after their clients have the response and may have
# begun the next ones. It refuses calls beyond.
MAX_GRPC_UNRELEASED = 2 * MAX_GRPC_STREAMS

# Bytes of a gRPC call's metadata, as gRPC counts them: with 32 for each field.
MAX_GRPC_METADATA = 16 * 1024

# Seconds without data on a gRPC connection after which the server sends a keepalive ping.
GRPC_PING = 60

# Seconds that the client has to acknowledge the ping.
GRPC_PING_TIMEOUT = 20

# Bytes of a predictor's response that is read whole, over HTTP or gRPC: the process could run out of memory with a
# larger one.
MAX_RESPONSE = 1024 * 1024 * 1024

# Bytes of a predictor's streamed response that wait for a client that reads more slowly than the predictor writes.
MAX_WAITING_PIECES = 256 * 1024

# Connections over HTTP to one predictor.
MAX_PREDICTOR_CONNECTIONS = 1000

# Seconds between two attempts to connect to a predictor; the number of attempts is configured.
MAX_RETRY_PAUSE = 5.0

# Share of the container's memory limit, or of the machine's memory, for payloads that wait for the logger's sink.
LOGGED_SHARE = 1 / 16
# Bytes of these payloads, however much memory there is. While a payload is sent, its bytes are there twice.
MAX_LOGGED_BYTES = 64 * 1024 * 1024
# Payloads that wait for the sink.
MAX_LOGGED_EVENTS = 10_000
# Bytes of one payload that is logged: sending a larger one would block the event loop for too long.
MAX_LOGGED_PAYLOAD = 8 * 1024 * 1024
# Bytes that a payload holds beside its body and the headers that are sent with it.
PAYLOAD_OVERHEAD = 1024
# Bytes of the sink's response, which is discarded.
MAX_SINK_RESPONSE = 64 * 1024
# Payloads that are sent at the same time, each on a connection of its own.
LOG_SENDERS = 16
# Seconds until the sink has to respond.
LOG_TIMEOUT = 10.0
# Attempts to send a payload while the sink cannot be reached, closes the connection, or responds with 429 or 5xx.
LOG_ATTEMPTS = 4
# Seconds between two log lines about payloads that were not delivered.
LOG_REPORT_EVERY = 60.0
# Seconds that a server which has used its grace period may still take to send payloads.
MIN_LOG_FLUSH = 1.0

# Requests that may wait for each thread of sync hooks.
HOOKS_WAITING = 256

# Seconds that an overridden `healthy` of a model may take.
HEALTHY_TIMEOUT = 5.0

# Bytes of the id of a sequence: the requests between which a model keeps state.
MAX_SEQUENCE_ID = 1024
# Ids of sequences whose state a worker's death has lost, and whose requests are rejected; the oldest are dropped first.
MAX_LOST_SEQUENCES = 10_000

# Characters of an error's message, which may quote the request.
MAX_ERROR_TEXT = 16 * 1024
# Characters of a log record, and of a traceback.
MAX_LOG_TEXT = 64 * 1024
