"""The service: an HTTP API, a dashboard and a worker in one process, described by one file."""
