"""Archives on disk: unpack them, and install what they require."""
