"""`routebench cite`: the publication of a routing method."""

import click

from routebench.commands import options
from routebench.options import Execution
from routebench.terminal import answer, tell


@click.command()
@click.argument("methods", nargs=-1, required=True, metavar="METHOD...", shell_complete=options.known("methods"))
@options.of(Execution, only="plugins")
def command(methods: tuple[str, ...], plugins: tuple[str, ...]) -> None:
    """Print BibTeX of the publications behind routing methods."""
    from routebench.catalogue import refuse_unknown
    from routebench.engine.isolation import with_plugins

    refuse_unknown(plugins, methods=methods)
    cited = with_plugins(plugins, _cited, methods, plugins)
    tell(cited.removesuffix("\n"))
    answer(lambda: {"methods": methods, "bibtex": cited})


def _cited(methods: tuple[str, ...], plugins: tuple[str, ...]) -> str:
    from routebench.engine.isolation import import_plugin
    from routebench.export import citations_of

    for plugin in plugins:
        import_plugin(plugin)
    return citations_of(methods)
