"""What models and their servers say in the inference protocols, for all that send them requests. Pure."""
