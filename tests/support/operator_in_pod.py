"""The operator with the credentials of a pod: `python -m … FOLDER FLAG…`.

FOLDER has the files of its service account; `operator_process.in_pod` writes them.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from kubernetes.aio.config import incluster_config

folder = Path(sys.argv.pop(1))
incluster_config.SERVICE_TOKEN_FILENAME = str(folder / "token")
incluster_config.SERVICE_CERT_FILENAME = str(folder / "ca.crt")

runpy.run_module("isvc_operator", run_name="__main__")
