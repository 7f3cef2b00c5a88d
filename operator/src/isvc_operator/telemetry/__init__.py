"""What the operator reports about itself: metrics, health, traces, and the service that a log line is about."""
