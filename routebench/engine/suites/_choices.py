"""What a user asks for on the command line, over what a suite file says."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from routebench.routing.spec import MethodSpec


@dataclass(frozen=True)
class Choices:
    """What the user asked for beside suite and preset.

    Args:
        methods: run these instead of the suite's; empty for the suite's.
        added: methods to run beside the suite's.
        broken: plug-in files that failed to import, with the reason.
        faulty: methods that cannot be made, as one would type them, with the reason.
        data: instead of the preset's.
        models: instead of the preset's; empty for the preset's.
        seeds: instead of the preset's.
        backend: instead of those that a preset compares, unless it is `auto`.
    """

    methods: tuple[MethodSpec, ...] = ()
    added: tuple[str, ...] = ()
    broken: Mapping[str, str] = field(default_factory=dict)
    faulty: Mapping[str, str] = field(default_factory=dict)
    data: str | None = None
    seeds: int | None = None
    backend: str = "auto"
    models: tuple[str, ...] = ()
