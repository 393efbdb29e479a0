"""Drafters, one file each, named as the drafter; imported when a run first needs it."""
