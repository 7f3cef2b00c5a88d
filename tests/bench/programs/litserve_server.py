"""``litserve_server.py WORK FOLDER PORT OPTIONS``: the work behind LitServe; OPTIONS are its settings as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import handling
import litserve


class Api(litserve.LitAPI):
    def __init__(self, work: str, folder: Path, **batching: Any) -> None:
        super().__init__(api_path=f"/v1/models/{work}:predict", **batching)
        self._work, self._folder = work, folder

    def setup(self, device: str) -> None:
        self._handle = handling.load(self._work, self._folder)

    def decode_request(self, request):  # without types: LitServe would take them for a pydantic model
        return request["instances"][0]

    def predict(self, x: Any) -> Any:
        return self._handle(x) if self.max_batch_size > 1 else self._handle([x])[0]

    def encode_response(self, output: Any) -> dict[str, Any]:
        return {"predictions": [output]}


if __name__ == "__main__":
    options = json.loads(sys.argv[4])
    api = Api(sys.argv[1], Path(sys.argv[2]), **options.get("api", {}))
    server = litserve.LitServer(api, accelerator="cpu", timeout=120, **options.get("server", {}))
    server.run(host="127.0.0.1", port=int(sys.argv[3]), generate_client_file=False, log_level="warning")
