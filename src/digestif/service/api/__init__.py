"""The HTTP API under /v1: plain JSON in and out, problems as RFC 9457 describes them."""
