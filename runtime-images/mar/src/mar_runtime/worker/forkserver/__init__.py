"""What the process from which workers are forked imports first and last, beside what workers need."""
