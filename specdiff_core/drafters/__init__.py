"""Drafters, one file each. The file name is the drafter's name; nothing imports it until it is asked for."""
