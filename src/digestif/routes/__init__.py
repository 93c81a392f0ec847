"""Routes: Digestif groups, renders and sends the digests of a pattern's timelines; the user writes no handler."""
