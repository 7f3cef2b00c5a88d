"""The wire protocols, as pure functions between bytes and Python values."""
