"""What there is to list, in a file, so that listing needs no torch.

`python -m routebench.catalogue` writes `catalogue.json` from the registries. The file carries a hash of the code that
it was made from; where that no longer fits, or plug-ins or other packages add something, the registries are asked.
"""

import hashlib
import importlib.metadata
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from routebench.registry import EVERY, load_plugin, shipped

FILE = Path(__file__).with_name("catalogue.json")
FOLDERS = ("capsules", "data", "models", "ops", "protocols", "routing")

Catalogue = dict[str, list[dict[str, Any]]]


def catalogue(plugins: Sequence[str] = ()) -> Catalogue:
    """Names and facts of methods, models, data sets, protocols, analyses and suites."""
    extended = plugins or any(importlib.metadata.entry_points(group=registry.package) for registry in EVERY.values())
    if not extended and FILE.exists():
        kept = json.loads(FILE.read_text(encoding="utf-8"))
        if kept["made_from"] == code_hash():
            return dict(kept["entries"])
    for plugin in plugins:
        load_plugin(plugin)
    return collect()


def code_hash() -> str:
    """A hash of every file that the catalogue is made from."""
    package = Path(__file__).parent
    files = [file for folder in FOLDERS for file in (package / folder).glob("*.py")]
    files += [*shipped("suites").glob("*.toml"), *shipped("analyses").glob("*.py"), package / "claims.py"]
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda file: (file.parent.name, file.name)):
        digest.update(f"{file.parent.name}/{file.name}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def collect() -> Catalogue:
    """The catalogue, from the registries."""
    return {
        "methods": [_method(name) for name in EVERY["methods"]],
        "models": [_model(name) for name in EVERY["models"]],
        "data": [_data(name) for name in EVERY["data"]],
        "suites": [_suite(file) for file in sorted(shipped("suites").glob("*.toml"))],
        "analyses": [_named("analyses", name) for name in EVERY["analyses"]],
        "protocols": [_named("protocols", name) for name in EVERY["protocols"]],
    }


def write() -> None:
    """Writes `catalogue.json`."""
    content = {"made_from": code_hash(), "entries": collect()}
    FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _named(kind: str, name: str) -> dict[str, Any]:
    lines = (EVERY[kind][name].__doc__ or "").strip().splitlines()
    return {"name": name, "summary": lines[0].rstrip() if lines else ""}


def _method(name: str) -> dict[str, Any]:
    from routebench.routing import hyperparameters_of

    method: Any = EVERY["methods"][name]
    return {
        **_named("methods", name),
        "hyperparameters": hyperparameters_of(name),
        "source": method.source,
        "claims": [claim.value for claim in method.claims],
    }


def _model(name: str) -> dict[str, Any]:
    from routebench.models import build
    from routebench.models.network import count_parameters

    facts = EVERY["models"][name].facts  # type: ignore[attr-defined]  # attached by the decorator `facts`
    method = "dynamic" if facts.routed else None
    return {
        **_named("models", name),
        "parameters": count_parameters(build(name, shape=facts.shape, classes=facts.classes, method=method)),
        "stated_parameters": facts.stated_parameters,
        "source": facts.source,
        "routed": facts.routed,
        "counted_for": {"shape": list(facts.shape), "classes": facts.classes, "method": method},
    }


def _data(name: str) -> dict[str, Any]:
    facts = getattr(EVERY["data"][name], "facts", {})
    return {**_named("data", name), **facts}


def _suite(file: Path) -> dict[str, Any]:
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    return {
        "name": file.stem,
        "summary": content["question"],
        "protocol": content["protocol"],
        "version": content["version"],
        "presets": list(content["presets"]),
    }


if __name__ == "__main__":
    write()
