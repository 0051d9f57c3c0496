"""`routebench doctor`: what this machine has."""

import click

from routebench.commands import options


@click.command()
@options.device
def command(device: str) -> None:
    """Say what this machine has. Lists back ends and data, and how to get what is missing."""
    import torch

    from routebench.engine.doctor import examine
    from routebench.engine.running import choose_device

    for finding in examine(torch.device(choose_device(device))):
        click.echo(str(finding))
