"""The worker process: its main function, and the loaded handler."""
