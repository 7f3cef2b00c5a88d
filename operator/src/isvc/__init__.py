"""``isvc``: what people do with services, on their machine, in a terminal and in a browser."""
