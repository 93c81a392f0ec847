"""The rules. Pure: time comes in as `now`, new values go out; no clock, no input or output, no logging."""
