"""Input files: generated once, then kept."""
