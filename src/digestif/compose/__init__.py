"""From records to something that people want to read: grouping, ordering, summaries, templates."""
