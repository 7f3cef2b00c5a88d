"""The operator with the credentials of a pod: `python -m … FOLDER FLAG…`.

FOLDER has the files of its service account; `operator_process.in_pod` writes them.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from isvc_operator.kube import credentials

credentials.SERVICE_ACCOUNT = Path(sys.argv.pop(1))  # type: ignore[misc]

runpy.run_module("isvc_operator", run_name="__main__")
