"""Every shipped routing method can be cited."""

import re

import pytest

from routebench.errors import UserError
from routebench.export import citations_of
from routebench.registry import SHIPPED, load_plugin, routing

SHIPPED_METHODS = [name for name in routing if routing.origin(name) == SHIPPED]
PLUGIN = """
from routebench import routing


@routing.register("cited-{name}")
class Cited(routing.RoutingMethod):
    \"\"\"Does nothing.\"\"\"

    source = {source!r}

    def route(self, votes, activations):
        raise NotImplementedError
"""


@pytest.mark.parametrize("name", SHIPPED_METHODS)
def test_every_method_has_an_entry_that_fits_its_source(name):
    comment, entry = citations_of([name]).split("\n", 1)
    fields = dict(re.findall(r"^  (\w+) = \{(.*)\},?$", entry, re.MULTILINE))
    assert comment == f"% {name}: {routing[name].source}"
    assert {"author", "title", "year"} <= fields.keys()
    assert "methods" not in fields
    assert entry.count("{") == entry.count("}")
    assert fields["author"].split(",")[0] in comment
    assert set(re.findall(r"\b20\d\d\b", comment)) <= {fields["year"]}
    assert set(re.findall(r"\d{4}\.\d{5}", comment)) <= {fields.get("eprint")}


def test_a_publication_of_two_methods_stands_there_once():
    text = citations_of(["uniform", "dynamic", "random", "uniform"])
    assert text.count("@") == 2
    assert text.index("% uniform: ") < text.index("% random: ") < text.index("@inproceedings{paik2019capsule,")


def test_a_method_of_ones_own_gives_its_words_or_says_what_is_missing(tmp_path):
    for name, source in (("somewhere", "Somebody 2030, equation 7"), ("nowhere", "")):
        file = tmp_path / f"{name}.py"
        file.write_text(PLUGIN.format(name=name, source=source))
        load_plugin(str(file))
    assert citations_of(["cited-somewhere"]) == "% cited-somewhere: Somebody 2030, equation 7\n"
    with pytest.raises(UserError, match="names no publication; set `source`"):
        citations_of(["cited-nowhere"])


def test_a_mistyped_method_is_answered_with_the_nearest():
    with pytest.raises(UserError, match="did you mean 'dynamic'"):
        citations_of(["dynamc"])
