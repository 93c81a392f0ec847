"""The Redis client: connections, clusters, sentinels, retries, subscriptions. Knows nothing of timelines."""
