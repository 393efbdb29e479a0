"""Benchmarks: what is measured, its rows and results on disk, and the reports made from them."""
