"""Whether a routing method keeps the contract and its claims: `check`, which `routebench check` prints.

>>> from routebench.conformance import check
>>> str(check("none"))  # doctest: +SKIP
'none: conforms: 15 of 15 required, 4 of 4 claims hold'
"""

from routebench.conformance.checking import check
from routebench.conformance.findings import Finding, Kind, Outcome, Verdict

__all__ = ["Finding", "Kind", "Outcome", "Verdict", "check"]
