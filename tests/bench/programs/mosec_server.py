"""``mosec_server.py WORK FOLDER OPTIONS FLAG …``: the work behind mosec; OPTIONS are its worker's settings as JSON.

mosec reads its own flags from the command line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import handling
import mosec
import msgspec


class Worker(mosec.Worker):
    """Reads and writes JSON by msgspec, which mosec has with it: its own choice is the standard library's."""

    work, folder = sys.argv[1], Path(sys.argv[2])

    def __init__(self) -> None:
        super().__init__()
        self._handle = handling.load(self.work, self.folder)

    def deserialize(self, data: bytes) -> Any:
        return msgspec.json.decode(data)["instances"][0]

    def serialize(self, data: Any) -> bytes:
        return msgspec.json.encode({"predictions": [data]})

    def forward(self, data: Any) -> Any:
        return self._handle(data) if self.max_batch_size > 1 else self._handle([data])[0]


if __name__ == "__main__":
    server = mosec.Server()
    server.append_worker(Worker, route=f"/v1/models/{sys.argv[1]}:predict", **json.loads(sys.argv[3]))
    server.run()
