"""Models that learn without labels, one file per model; registered as `routebench.models`."""
