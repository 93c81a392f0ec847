"""From the records of a digest to texts for people: grouping, summaries, templates."""
