"""The model directory, its settings, and the plan for each archive."""
