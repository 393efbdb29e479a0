"""Drafters, one file each, imported when a run first needs it."""
