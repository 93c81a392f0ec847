"""One program for each system: `producer` accepts events, `worker` delivers them.

Those of other packages run in an environment of their own, so they import nothing of ours but the standard library's
neighbours `workload`, `producing` and `sink`.
"""
