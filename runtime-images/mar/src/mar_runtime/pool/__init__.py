"""The server's side of the workers: pools of processes or threads, restarts, and the connection with each process."""
