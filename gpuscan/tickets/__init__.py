"""What is kept of a failure, and the ticket made of it."""
