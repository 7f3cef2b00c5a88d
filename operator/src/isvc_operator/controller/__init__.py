"""The controller: a queue of services, and the reconcile of one: read, decide, apply, observe, write the status."""
