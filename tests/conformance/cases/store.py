"""What lies in the store: an archive of another tool, and one that is registered while the server runs."""

from __future__ import annotations

from tests.conformance.case import Case, predictions

CASES = (
    Case("unflagged-name", "a file's name in UTF-8 without the flag that says so, as `zip -r` on Linux writes it",
         "listed", predictions("listed")),
    Case("registered", "an archive that is registered while the server runs, by TorchServe's management API or the "
         "v2 protocol's repository: `batchSize`, and the version", "later", predictions("later")),
)  # fmt: skip
