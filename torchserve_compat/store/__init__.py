"""A model directory as TorchServe's users lay it out: config/config.properties, a folder of archives. Mostly pure."""
