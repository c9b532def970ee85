"""The loop: budget, workers, findings. Yields events; whoever wants to show something handles them."""
