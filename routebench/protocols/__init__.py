"""Protocols: one kind of measurement each."""

from routebench.declared import Measure, declare
from routebench.protocols.base import Context, Fit, FitRequest, Measurement, Metric, Protocol
from routebench.registry import protocols as registry

register = registry.register

__all__ = ["Context", "Fit", "FitRequest", "Measure", "Measurement", "Metric", "Protocol", "declare", "register"]
