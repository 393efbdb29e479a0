"""Drafters, one file each, named after its drafter and imported when a run first needs it."""
