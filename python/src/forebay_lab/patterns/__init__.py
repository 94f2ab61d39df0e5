"""Access patterns: the reads of a job with their times, and the cost of other strategies."""
