"""The servers that are measured side by side, each a module that says how to launch it and how to ask it."""
