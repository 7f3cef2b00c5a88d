"""What is to be served, and how: the model directory, its settings, and the plan for each archive."""
