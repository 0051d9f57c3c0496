"""Kiefer et al., "Capsule networks as generative models": inference in place of routing, generative attention."""
