"""Tells whether a routing method keeps the contract and its claims: `check`, which `routebench check` prints.

>>> from routebench.conformance import check
>>> str(check("none"))  # doctest: +SKIP
'none: conforms: 13 of 13 requirements, 5 of 5 claims hold (1 not checked)'
"""

from routebench.conformance._check import check
from routebench.conformance._findings import Checkup, Finding, Kind, Status

__all__ = ["Checkup", "Finding", "Kind", "Status", "check"]
