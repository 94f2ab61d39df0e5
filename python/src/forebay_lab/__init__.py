"""The lab: published measurements of caches, made again on this machine."""
