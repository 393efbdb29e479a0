"""Measurements: prompts, sweeps that write rows, and reports that fold them."""
