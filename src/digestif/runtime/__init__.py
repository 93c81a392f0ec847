"""The worker: claims digests, runs handlers, and ends what they did."""
