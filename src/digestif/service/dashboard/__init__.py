"""The dashboard: pages that the server renders, with a little script for what is live."""
