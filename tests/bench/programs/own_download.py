"""Our storage-initializer, and how long it took without its imports."""

from __future__ import annotations

import json
import sys
import time

from storage_initializer.cli import main

if __name__ == "__main__":
    started = time.perf_counter()
    code = main(sys.argv[1:])
    print(json.dumps({"seconds": time.perf_counter() - started}))
    sys.exit(code)
