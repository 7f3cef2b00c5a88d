CASE_MODULES = tuple(f"tests.conformance.sdk.{name}" for name in ("tensors", "plain_names", "models", "clients"))
