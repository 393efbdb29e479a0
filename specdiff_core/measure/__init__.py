"""Measuring: prompts, the order of runs, rows on disk, and the statistics that all share."""
