"""What runs where the handler is: the main function of a worker process, and the loaded handler."""
