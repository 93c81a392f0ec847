"""Who may do what: tokens, hosts, sessions, rates, and the log of what people changed."""
