"""KServe's SDK and ours, run side by side; `sdk_table` makes docs/sdk-conformance.md of the outcome.

`answers` runs the cases of CASE_MODULES in a process of either SDK; a case is a function of the SDK, and has the names
that it shows (`case`). `servers` starts the models of `program` on either SDK, and asks them what is in `asked` and
`over_grpc`. What differs has its reason in `differences`.
"""

CASE_MODULES = tuple(f"tests.conformance.sdk.{name}" for name in ("tensors", "plain_names", "models", "clients"))
