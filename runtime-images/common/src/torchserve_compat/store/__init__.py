"""A model directory in TorchServe's layout: config/config.properties and a folder of archives. Mostly pure."""
