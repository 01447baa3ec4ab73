"""What a job cost at every moment of a window, and who was the cheapest when."""
