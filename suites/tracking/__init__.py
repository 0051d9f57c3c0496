"""Benchmarks that asv runs over commits. Lower is better in every one of them."""
