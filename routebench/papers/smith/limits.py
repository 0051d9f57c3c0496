"""Limits beyond which templates and objects count as collapsed. They are here for who shows them without torch."""

DEAD = 0.1
"""A template is dead if it draws less than this fraction of an equal share."""
ALONE = 0.5
"""One template draws everything if its share of the brightness is above this."""
IDLE = 0.1
"""An object is idle if the standard deviation of its presence over images is less than this share of its mean."""
