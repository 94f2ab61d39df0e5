"""The demo: a ROOT file read cold and warm through a Forebay cache."""
