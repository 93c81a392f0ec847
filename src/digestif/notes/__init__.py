"""Notes: information that processes share through a store, apart from timelines. One module per subject."""
