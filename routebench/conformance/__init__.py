"""Tells whether a routing method keeps the contract and its claims: `check`, which `routebench check` prints.

>>> from routebench.conformance import check
>>> str(check("none"))  # doctest: +SKIP
'none: conforms: 15 of 15 required, 4 of 4 claims hold'
"""

from routebench.conformance._check import check
from routebench.conformance._findings import Checkup, Finding, Kind, Status

__all__ = ["Checkup", "Finding", "Kind", "Status", "check"]
