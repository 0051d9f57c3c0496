"""Routing as inference: activities that settle between a prediction from below and a target above.

Source: Kiefer et al., "Capsule Networks as Generative Models", section 3 and appendices B and C.
"""
