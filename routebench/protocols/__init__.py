"""Protocols: one kind of measurement each."""

from routebench.protocols.base import Context, Fit, FitRequest, Measurement, Metric, Protocol

__all__ = ["Context", "Fit", "FitRequest", "Measurement", "Metric", "Protocol"]
