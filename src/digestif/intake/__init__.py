"""From a call to an arrival: checks, the policies in force, patterns of timelines."""
