"""The worker: a loop that claims attempts, runs handlers side by side, and ends what they did."""
