"""The Redis client: connections, cluster, sentinels, retries, subscriptions. It knows nothing of timelines.

Why our own: tried in November 2026 on three primaries with a replica each, redis-py 8.1 and valkey-glide-sync 2.5.3
failed what our tests of faults demand, and were slower. Pipelines of 64 EVALSHA over all nodes ran at 76,000 scripts
per second here, 7,500 in redis-py, 41,000 in glide; single calls at 12,300, 5,300 and 5,700. Pipelines of the others
answer NOSCRIPT after SCRIPT FLUSH and after a failover. When a primary was killed, ours waited 2.4 s for its successor
and answered everything; redis-py went on to call the dead node, glide answered a third with MOVED, then NOSCRIPT. With
one node frozen, calls to others took at most 0.02 s here, 5 s in glide, more than 20 s in redis-py. All three survived
forks. Connections, with TLS and logins, are redis-py's.
"""
