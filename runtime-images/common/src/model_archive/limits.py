"""Limits of a model archive, the same for who copies it and for who serves it. ``docs/limits.md`` lists them."""

from __future__ import annotations

MAX_ENTRIES = 100_000
"""Files and folders of one archive."""
MAX_EXPANSION = 200
"""Times its own size that an archive may unpack to. Weights hardly compress, text does up to about a hundredfold."""
HARMLESS_SIZE = 1 << 30
"""Bytes that an archive may unpack to however small it is."""
MAX_NAME = 255
"""Bytes of one name: Linux's own limit."""
MAX_PATH = 1024
"""Bytes of a path: a quarter of Linux's limit, which leaves room for the folder it is unpacked to."""
MAX_ZIP_DIRECTORY = 16 << 20
"""Bytes of a zip's directory, which is held in memory."""
MAX_TAR_HEADER = 64 << 10
"""Bytes of all headers of a tar's member: its own, its long names, its extended attributes."""
MAX_XZ_MEMORY = 128 << 20
"""Bytes of memory that a .tar.xz may require; ``xz -9`` requires 65 MiB."""
MAX_MANIFEST = 1 << 20
"""Bytes of MAR-INF/MANIFEST.json."""
MAX_CHECKED = 1 << 20
"""Bytes of a handler or a file of settings that is checked before it is served; a longer one is not."""
MAX_FIELDS = 1_000_000
"""Fields of an ONNX file that are passed over in the search for its inputs and outputs."""
MAX_TENSORS = 100
"""Inputs and outputs of a model file, and sizes of each of them, that are shown."""
MAX_REQUIREMENTS = 64 << 10
"""Bytes of an archive's requirements file that are shown."""
