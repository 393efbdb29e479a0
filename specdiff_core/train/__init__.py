"""Trains every part of a model pair: tokenizer, target and drafters."""
