"""Digestif with others: task queues that drive it, and systems that watch it. Each module needs an extra of its own."""
