"""A model directory as TorchServe's users lay it out: config/config.properties and a folder of archives. Mostly pure."""
