"""The ports of every server here, where nothing else is asked for: KServe's.

The operator, a distribution of its own, has them in `isvc_operator.resolve.ports`, for containers that name none.
"""

from __future__ import annotations

HTTP_PORT = 8080
GRPC_PORT = 8081
