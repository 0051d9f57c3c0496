"""`routebench doctor`: what this machine has."""

import textwrap

import click

from routebench.commands import options
from routebench.options import Execution
from routebench.terminal import answer, tell


@click.command()
@options.of(Execution, only="device")
def command(device: str) -> None:
    """Say what this machine has. Lists back ends and data, and how to get what is missing."""
    import torch

    from routebench.engine.doctor import examine
    from routebench.engine.running import choose_device

    findings = examine(torch.device(choose_device(device)))
    for finding in findings:
        tell(textwrap.fill(str(finding), 110, subsequent_indent=9 * " ", break_on_hyphens=False))
    lacking = [finding.about for finding in findings if not finding.is_ok and not finding.is_optional]
    but = f"; missing: {', '.join(lacking)}" if lacking else ""
    tell(f"you can run `routebench suite accuracy`{but}")
    answer(lambda: {"findings": [vars(finding) for finding in findings], "missing": lacking})
