"""Drafters, one file each. The file name is the drafter's name; it is imported when a run first needs it."""
