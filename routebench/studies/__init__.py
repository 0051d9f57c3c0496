"""Questions of our own, each with its networks, data, protocols, analyses and suites."""
