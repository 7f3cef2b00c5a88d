"""The server's side of the workers: pools of processes, restarts, and the connection with each process."""
