"""`kserve.protocol`."""
