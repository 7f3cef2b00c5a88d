"""A module-level function is a handler; it is called without data once, to load."""

calls = []


def handle(data, context):
    calls.append(None if data is None else len(data))
    if data is None:
        return None
    texts = [text_of(row) for row in data]
    if "raise" in texts:
        raise ValueError("one of these cannot be read")
    version = context.manifest["model"]["modelVersion"]
    return [{"first call": calls[0], "version": version, "text": text} for text in texts]


def text_of(row):
    """A row of TorchServe's is a dictionary; behind an envelope it is the item itself."""
    text = row["body"] if isinstance(row, dict) else row
    return text if isinstance(text, str) else text.decode()
