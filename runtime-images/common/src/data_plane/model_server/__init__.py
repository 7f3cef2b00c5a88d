"""What all model servers share: flags, lifecycle and exit codes."""
