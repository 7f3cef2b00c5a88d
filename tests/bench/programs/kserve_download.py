"""KServe's storage-initializer, which is little more than this; then how long it took without its imports."""

from __future__ import annotations

import json
import sys
import time

from kserve_storage import Storage

if __name__ == "__main__":
    started = time.perf_counter()
    Storage.download(sys.argv[1], sys.argv[2])
    print(json.dumps({"seconds": time.perf_counter() - started}))
