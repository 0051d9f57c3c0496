"""Top-down capsules (Kiefer et al.): parents generate children by attention."""
