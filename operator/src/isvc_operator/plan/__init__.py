"""Which changes the children of a service need, and which of them have to wait. Pure; ``kube`` sends them."""
