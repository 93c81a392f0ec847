"""From a call to an arrival: checks, policies in force, patterns of timelines."""
