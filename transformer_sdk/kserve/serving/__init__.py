"""How a server runs the hooks of models. Nothing in here has a name that users write."""
