"""Access patterns: what a job reads, when, and what other ways of reading the same would cost."""
