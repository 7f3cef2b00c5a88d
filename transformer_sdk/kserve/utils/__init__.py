"""`kserve.utils`."""
