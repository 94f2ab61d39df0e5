"""Event loops in the ways physicists write them. Each runs as a program of its own, given a job."""
