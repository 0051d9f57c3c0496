"""An error in a user's file is told with the user's line."""

import pytest
import torch

from routebench.capsules import Competition, Sizes, Votes
from routebench.errors import place_of
from routebench.registry import extensions, load_plugin, routing

METHOD = '''
from routebench import routing
from routebench.ops import squash
@routing.register("wrong")
class Wrong(routing.RoutingMethod):
    """Is wrong."""
    def route(self, votes, activations):
        parents = squash(votes.sweep().first)
        return {result}
'''


def place_with(result, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(METHOD.format(result=result))
    load_plugin(str(file))
    method = routing["wrong"](Sizes(3, 2, 4, 5))
    votes = Votes(torch.randn(1, 3, 5), torch.randn(3, 2, 5, 4), Competition("types"))
    with pytest.raises((RuntimeError, ValueError, TypeError)) as raised:
        method(votes, torch.ones(1, 3))
    return place_of(raised.value)


@pytest.mark.parametrize(
    ("result", "line"),
    [
        ("routing.Routed(parents.transpose(1, 2))", 7),  # routebench refuses it: where `route` is defined
        ("parents", 7),
        ("routing.Routed(parents @ parents)", 9),  # torch raises
        ("routing.Routed(squash(parents, axis=1))", 9),
    ],
)
def test_the_line_is_the_users(result, line, tmp_path):
    with extensions.restored():
        place = place_with(result, tmp_path)
    assert place == f"mine.py:{line}"
