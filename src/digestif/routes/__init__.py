"""Routes: timelines of a pattern are grouped, rendered and sent through a channel, without a handler of one's own."""
