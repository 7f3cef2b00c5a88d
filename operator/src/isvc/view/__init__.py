"""What people see of services: one set of values for the dashboard, the command line and ``isvc run``. Pure."""
