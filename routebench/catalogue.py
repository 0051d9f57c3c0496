"""The listing of everything registered. It is kept in the cache folder, so that `list` needs no torch.

Where that has none of this code, or plug-ins or other packages add something, the registries are asked.
"""

import contextlib
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from routebench.cache import keep, kept
from routebench.data_names import items_of
from routebench.errors import UserError, one_line_of, unknown
from routebench.plain import from_toml
from routebench.received import read_plain
from routebench.recipe import NOW, REGISTRIES, VERSIONS
from routebench.recipes import recipes
from routebench.registry import (
    EVERY,
    OF_TRAINING,
    PATH,
    SHIPPED,
    SHOWN,
    extensions,
    hyperparameters_of_function,
    installed_points,
    loaded_plugins,
    plugins_of_environment,
    shipped,
    suite_files,
    suite_origin,
    without,
)

PLAIN = re.compile(r"[\w.-]+")
"""A name alone, without a colon and the like."""
KINDS = ("methods", "models", "data", "suites", "presets", "analyses", "protocols", *OF_TRAINING, "recipes")

Catalogue = dict[str, list[dict[str, Any]]]


def catalogue(plugins: Sequence[str] = (), kinds: Sequence[str] = KINDS) -> Catalogue:
    """Names and facts of methods, models, data sets and so on, or of some of these kinds.

    Args:
        plugins: plug-ins to import first.
        kinds: some of `KINDS`.
    """
    if known := _kept(plugins, kinds):
        return known
    if not _extended(plugins, KINDS) and extensions.ships_whole:
        whole = collect()
        keep("catalogue", code_hash(), whole)
        return {kind: whole[kind] for kind in kinds}
    from routebench.engine.isolation import import_plugin  # only here: names of what ships are looked up without it

    for plugin in plugins:
        import_plugin(plugin)
    return collect(kinds)


def _kept(plugins: Sequence[str], kinds: Sequence[str]) -> Catalogue:
    """Reads these kinds from the cache folder; empty where that does not know everything."""
    known = {} if _extended(plugins, kinds) else _read_kept()
    return {kind: known[kind] for kind in kinds} if known else {}


def _read_kept() -> Catalogue:
    """Reads the whole of what the cache folder has; empty where that is nothing, or damaged."""
    known: Catalogue | None = kept("catalogue", code_hash())
    return known or {}


def names_at_once(kind: str, suite: str = "") -> list[str]:
    """The names of one kind that the cache folder knows of routebench's own; none where it knows nothing yet.

    Args:
        kind: one of `KINDS`.
        suite: for presets, their suite; those of all for none that is known.
    """
    whole = _read_kept()
    if kind == "presets":
        of_suite = [one for one in whole.get(kind, []) if one["suite"] == suite] or whole.get(kind, [])
        return list(dict.fromkeys(one["preset"] for one in of_suite))
    return [one["name"] for one in whole.get(kind, [])]


def refuse_unknown(
    plugins: Sequence[str] = (),
    *,
    suite: str = "",
    preset: str = "",
    methods: Sequence[str] = (),
    models: Sequence[str] = (),
    data: str | None = None,
    loss: str | None = None,
) -> None:
    """Refuses names that nothing answers to before anything imports torch, which takes seconds.

    What is no plain name is left to whoever uses it, and so is everything where no catalogue is kept yet.

    Args:
        plugins: the plug-ins of the call; with any, nothing is refused.
        suite: a name, `all` or a file; empty for none.
        preset: a preset of the suite.
        methods: methods, or entries of the suite.
        models: networks.
        data: a data set; None for none.
        loss: a loss; None for none.

    Raises:
        UserError: a suite, a preset of it, a method or loss as `NAME[key=value]`, a network or a data set is unknown.
    """
    listed = _kept(plugins, ("methods", "models", "data", "suites", "losses"))
    if not listed or not extensions.ships_whole:
        return
    known = {kind: {entry["name"] for entry in entries} for kind, entries in listed.items()}
    presets = {entry["name"]: entry["presets"] for entry in listed["suites"]}
    if suite and suite not in {"all", *presets} and not suite.endswith(".toml"):
        raise unknown("suite", suite, {"all", *presets})
    if suite in presets and preset not in presets[suite]:
        raise unknown("preset", preset, presets[suite])
    for model in models:
        if PLAIN.fullmatch(model) and model not in known["models"]:
            raise unknown("model", model, known["models"], shipped=True)
    for name in (method.partition("[")[0].strip() for method in methods):
        if name and name not in known["methods"] | known["models"] | (entries := _entries_of_suites(suite)):
            raise unknown("method", name, known["methods"] | entries, shipped=True)
    if data is not None and PLAIN.fullmatch(data) and data not in known["data"]:
        raise unknown("data set", data, known["data"], shipped=True)
    if loss is not None and (name := loss.partition("[")[0].strip()) not in known["losses"]:
        raise unknown("loss", name, known["losses"], shipped=True)


def _entries_of_suites(suite: str) -> set[str]:
    """The names that suites give to methods and baselines: those of routebench, and the user's file."""
    found: set[str] = set()
    for file in (*suite_files().values(), *([Path(suite)] if suite.endswith(".toml") else [])):
        with contextlib.suppress(
            ValueError, RecursionError, OSError, AttributeError, TypeError
        ):  # `load_suite` says it
            content = from_toml(read_plain(file, named=True)[0])
            found |= {
                str(one.get("name")) for kind in ("methods", "baselines", "controls") for one in content.get(kind, ())
            }
    return found


def shown_as(name: str) -> dict[str, str]:
    """The `SHOWN` facts of a method, or of a network that is compared with methods, as far as it says so."""
    for kind in ("methods", "models"):
        if (entry := EVERY[kind].entries.get(name)) is not None:  # registered here, by whomever
            return _shown(getattr(entry, "facts", entry))
    return _all_shown().get(name, {})


def named_colours() -> set[str]:
    """The colours that methods and networks of routebench say are theirs."""
    return {told["colour"] for told in _all_shown().values() if "colour" in told}


@cache
def _all_shown() -> dict[str, dict[str, str]]:
    entries = [entry for kind in catalogue(kinds=("models", "methods")).values() for entry in kind]
    return {entry["name"]: {key: entry[key] for key in SHOWN if key in entry} for entry in entries}


def page_of(suite: str) -> dict[str, Any]:
    """The facts that a suite states of its page: `title`, `paper`, `menu` and `place`, as far as it says so."""
    return dict(_all_pages(tuple(loaded_plugins())).get(suite, {}))


@cache
def _all_pages(plugins: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Pages by suite, with those of these loaded plug-ins."""
    found = collect(("suites",)) if plugins else catalogue(kinds=("suites",))
    return {entry["name"]: entry.get("page", {}) for entry in found["suites"]}


def registered_data(name: str) -> str:
    """The registered name of the data set whose items another has: `folder:PATH` for each folder, whatever its name.

    Args:
        name: name of a data set, as plans have it.
    """
    items, _ = items_of(name)
    kind, colon, _ = items.partition(":")
    loader = f"{kind}{PATH}"
    known = EVERY["data"].entries.keys() | _all_data(tuple(loaded_plugins())).keys() if colon else ()
    return loader if loader in known else items


def facts_of_data(name: str) -> Mapping[str, Any] | None:
    """The facts that a data set states of itself: of `take:5000:mnist` those of `mnist`, of a folder or file none.

    Args:
        name: name of the data set, as plans have it.

    Returns:
        the facts; None where no such data set is known here, as that of a plug-in which is not loaded.
    """
    registered = registered_data(name)
    if (loader := EVERY["data"].entries.get(registered)) is not None:  # registered here, by whomever
        return dict(getattr(loader, "facts", {}))
    return _all_data(tuple(loaded_plugins())).get(registered)


@cache
def _all_data(plugins: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Data sets by name, with those of these loaded plug-ins."""
    found = collect(("data",)) if plugins else catalogue(kinds=("data",))
    return {entry["name"]: entry for entry in found["data"]}


def views_of(data: str, test_images: int, told: Mapping[str, Any] | None = None) -> int | None:
    """The number of test images in a row that show the same object; None if several may, and nobody knows which.

    Args:
        data: name of the data set, as plans have it.
        test_images: the number measured. If it is only a part, nobody knows which are views of one object.
        told: the facts that a plan tells of a data set that does not ship; None where it tells none.
    """
    known = facts_of_data(data) if told is None else told
    if known is None:
        return None
    if known.get("views", 1) == 1:
        return 1
    views: int | None = known["views"] if items_of(data)[1] and test_images == known.get("test") else None
    return views if views and views > 0 and not test_images % views else None


@cache
def idle_settings(schedule: str) -> tuple[str, ...]:
    """The settings of a recipe that its schedule does without, and another reads; none of one that does not ship."""
    used = {one["name"]: {*one.get("settings", ())} for one in catalogue(kinds=("schedules",))["schedules"]}
    name = schedule.partition("[")[0]
    return tuple(sorted(set().union(*used.values()) - used[name])) if name in used else ()


RECIPE_PARTS = (*REGISTRIES, *VERSIONS)
"""Settings of a recipe that name parts with versions."""


@cache
def shipped_version(kind: str, name: str) -> int | None:
    """The version that a part has now, whose kind is named as in an identity's `versions`; None if it does not ship.

    Args:
        kind: `method`, `model`, `data` and so on.
        name: the part's, with hyperparameters in brackets or without.
    """
    if kind in VERSIONS:
        return VERSIONS[kind].get(name, 1)
    kinds = next((plural for plural, registry in EVERY.items() if registry is REGISTRIES.get(kind)), f"{kind}s")
    kinds, name = (kind, name) if kind == "data" else (kinds, name.partition("[")[0])
    known = catalogue(kinds=(kinds,))[kinds]
    return next((one.get("version", 1) for one in known if one["name"] == name and "origin" not in one), None)


@cache
def raised_within(kind: str, name: str) -> dict[str, dict[str, int]]:
    """Versions above 1 of a network's options, by option and value, or of what a protocol uses, by kind and name.

    Args:
        kind: `model` or `protocol`.
        name: its registered name.
    """
    known = catalogue(kinds=(f"{kind}s",))[f"{kind}s"]
    return next((one.get("raised", {}) for one in known if one["name"] == name), {})


def _extended(plugins: Sequence[str], kinds: Sequence[str]) -> bool:
    """Tells whether there may be more than routebench brings."""
    if plugins or plugins_of_environment() or without():
        return True
    of_suites = ("suites", "presets")
    groups = ["routebench.suites" if kind in of_suites else EVERY[kind].package for kind in kinds if kind != "recipes"]
    return bool(installed_points(*groups))


@cache
def code_hash() -> str:
    """Hashes every file that may say something of a part, this one included, as the process found it."""
    package = Path(__file__).parent
    files = [*package.rglob("*.py"), *package.rglob("*.toml"), *shipped("suites").glob("*.toml")]
    files += shipped("analyses").glob("*.py")
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"{file.parent.name}/{file.name}\n".encode() + file.read_bytes())
    for pack in _packs():
        digest.update(f"{pack.parent.name} {pack.stat().st_size}\n".encode())
    return digest.hexdigest()[:16]


def collect(kinds: Sequence[str] = KINDS) -> Catalogue:
    """The catalogue, from the registries."""
    return {kind: _entries(kind) for kind in kinds}


def _entries(kind: str) -> list[dict[str, Any]]:
    if kind == "suites":
        return [_suite(file) for _, file in sorted(suite_files().items())]
    if kind == "presets":
        return [preset for _, file in sorted(suite_files().items()) for preset in _presets(file)]
    if kind == "recipes":
        return [
            {
                "name": name,
                "summary": recipe.source,
                "settings": {NOW.get(key, key): one for key, one in recipe.settings.items()},
            }
            for name, recipe in recipes().items()
        ]
    if kind in OF_TRAINING:
        return [_of_training(kind, name) for name in EVERY[kind]]
    facts = {"methods": _method, "models": _model, "data": _data, "protocols": _protocol}.get(kind)
    return [_named(kind, name) if facts is None else facts(name) for name in EVERY[kind]]


def _of_training(kind: str, name: str) -> dict[str, Any]:
    function = EVERY[kind][name]
    known, used = hyperparameters_of_function(function), getattr(function, "uses", ())
    return {
        **_named(kind, name),
        **({"hyperparameters": known} if known else {}),
        **({"settings": list(used)} if used else {}),
    }


def _named(kind: str, name: str) -> dict[str, Any]:
    lines = (EVERY[kind][name].__doc__ or "").strip().splitlines()
    summary, version = lines[0].rstrip() if lines else "", EVERY[kind].version(name) or 1
    told = {} if version == 1 else {"version": version}
    return {"name": name, "summary": summary, **told, **_from(EVERY[kind].origin(name))}


def _from(origin: str) -> dict[str, str]:
    return {} if origin == SHIPPED else {"origin": origin}


def _method(name: str) -> dict[str, Any]:
    from routebench.routing import hyperparameters_of

    method: Any = EVERY["methods"][name]
    return {
        **_named("methods", name),
        "hyperparameters": hyperparameters_of(name),
        "source": method.source,
        "claims": [claim.value for claim in method.claims],
        **_shown(method),
    }


def _model(name: str) -> dict[str, Any]:
    known = EVERY["models"][name].facts  # type: ignore[attr-defined]  # attached by the decorator `facts`
    method = known.method if known.routed else None
    return {
        **_named("models", name),
        "parameters": _parameters(name, known, method),
        "stated_parameters": known.stated_parameters,
        "source": known.source,
        "routed": known.routed,
        "counted_for": {"shape": list(known.shape), "classes": known.classes, "method": method},
        **({"raised": known.option_versions} if known.option_versions else {}),
        **_shown(known),
    }


def _shown(of: object) -> dict[str, str]:
    """Texts in one line, whoever wrote them."""
    return {key: one_line_of(told) for key in SHOWN if (told := getattr(of, key, ""))}


def _page(content: Any) -> dict[str, Any]:
    """The table `page` of a suite, as far as it is as `suite` takes it."""
    page = content if isinstance(content, dict) else {}
    texts = {key: one_line_of(page[key]) for key in ("title", "paper", "menu") if isinstance(page.get(key), str)}
    return texts | ({"place": page["place"]} if type(page.get("place")) is int and page["place"] > 0 else {})


def _protocol(name: str) -> dict[str, Any]:
    raised = {kind: versions for kind, versions in _part_versions(name).items() if versions}
    return {**_named("protocols", name), **({"raised": raised} if raised else {})}


def _part_versions(name: str) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = getattr(EVERY["protocols"][name], "part_versions", {})
    return found


def _parameters(name: str, known: Any, method: str | None) -> int | None:
    """The number of parameters; None where a model of the user's own cannot be built."""
    import torch

    from routebench.models import build
    from routebench.models.network import count_parameters

    for device in ("meta", "cpu"):  # without memory and random numbers, where the model takes that
        try:
            with torch.device(device):
                return count_parameters(build(name, shape=known.shape, classes=known.classes, method=method))
        except Exception:
            if device == "cpu" and EVERY["models"].origin(name) == SHIPPED:
                raise
    return None


def _data(name: str) -> dict[str, Any]:
    facts = getattr(EVERY["data"][name], "facts", {})
    return {**_named("data", name), **facts}


def _suite(file: Path) -> dict[str, Any]:
    try:
        content = from_toml(read_plain(file, named=True)[0])
    except (ValueError, OSError) as error:
        content = {"question": f"cannot be read: {error}"}  # `suite` says more
    return {
        "name": file.stem,
        "summary": str(content.get("question", "")),
        "protocol": content.get("protocol"),
        "version": content.get("version"),
        "presets": list(presets) if isinstance(presets := content.get("presets"), dict) else [],
        **({"page": page} if (page := _page(content.get("page"))) else {}),
        **_from(suite_origin(file)),
    }


def _presets(file: Path) -> Iterator[dict[str, Any]]:
    """The presets of a suite's file; none of one that cannot be read, of which `list suites` says so."""
    from routebench.engine.suites import count_runs, load_suite

    try:
        suite = load_suite(file.stem)
        runs = {name: count_runs(suite, name) for name in suite.presets}
    except UserError:
        return
    for name, preset in suite.presets.items():
        yield {
            "name": f"{suite.name} {name}",
            "suite": suite.name,
            "preset": name,
            "data": preset.data,
            "take": preset.take,
            "models": [*preset.models],
            "iterations": [*preset.iterations],
            "seeds": len(preset.seeds),
            "runs": runs[name],
            "published": _published().get((suite.name, name), []),
            **_from(suite_origin(file)),
        }


def presets_told(presets: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Presets of the catalogue as a table: its titles, then a row for each."""
    titles = ["suite", "preset", "network", "data", "seeds", "runs", "published"]
    rows = (
        [one["suite"], one["preset"], ", ".join(one["models"]), one["data"], str(one["seeds"]), str(one["runs"])]
        for one in presets
    )
    return [titles, *([*row, ", ".join(one["published"])] for row, one in zip(rows, presets, strict=True))]


def _packs() -> list[Path]:
    """The records of published results, which lie beside the package in a checkout; none elsewhere."""
    return sorted((Path(__file__).parents[1] / "reports").glob("*/records.parquet"))


@cache
def _published() -> dict[tuple[str, str], list[str]]:
    """The folders of published results by suite and preset, from the names of their plans."""
    from pyarrow import parquet

    found: dict[tuple[str, str], list[str]] = {}
    for pack in _packs():
        files = parquet.read_table(pack, columns=["file"])["file"].to_pylist()
        plans = (name.removeprefix("plans/").split(".") for name in files if name.startswith("plans/"))
        for suite, preset in dict.fromkeys((name[0], name[1]) for name in plans):
            found.setdefault((suite, preset), []).append(pack.parent.name)
    return found
