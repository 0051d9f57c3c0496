"""Generative capsules (Smith et al.): objects, their parts and templates as a probabilistic model."""
