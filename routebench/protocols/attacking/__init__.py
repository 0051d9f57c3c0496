"""The parts of the protocol `robustness`. It imports them when it measures, because foolbox takes long to import."""
