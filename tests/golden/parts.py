"""All parts that have a version, and what of them has no golden number."""

from collections.abc import Iterator

from routebench.recipe import LEGAL
from routebench.registry import protocols
from tests.golden.book import REFUSED, GoldenBook, GoldenPart
from tests.golden.measured import PROTOCOLS, attack_parts, protocol_parts
from tests.golden.methods import method_parts
from tests.golden.networks import model_parts, option_parts
from tests.golden.pictures import data_parts
from tests.golden.recipes import OF_KIND, corruption_parts, recipe_parts

KINDS = {
    "method": method_parts, "model": model_parts, "option": option_parts, "recipe": recipe_parts, "data": data_parts,
    "corruption": corruption_parts, "protocol": protocol_parts, "attack": attack_parts,
}  # fmt: skip

FIRST_HALF = ("capsnet", "cnn")
"""How names begin of networks that are tested beside the other parts, so that two workers share the time."""
WHY = {
    "crops": "only images of 48 x 48 or more are cropped, by one line that all of its networks share; it takes seconds",
    "sprites": "a table of further options; the published ones are the defaults",
    "part_whole": "likewise",
    "part_encoder": "likewise",
    "object_encoder": "likewise",
    "inference_params": "options of a routing method, which has golden numbers",
    "transfer_recipe": "the name of another recipe; recipes are settings, which have golden numbers",
    "milestones": "no single number; schedule milestones has golden numbers of its own",
    "schedule='equilibrium-implicit'": "refused: the state of these methods has no fixed point",
    "several classes": "refused: a softmax says one class",
    "memory_budget_mb": "processes of their own look for the largest batch in it, which differs between machines",
}
"""What has no golden number, by the name of a setting or of a case, and why."""
BEYOND = {
    "times and memory": "they differ between machines; what a protocol counts has golden numbers",
    "GPUs, torch.compile and the Triton kernels": "tests/kernels and tests/gpu compare them with the reference",
    "pairs of settings": "those that the transcriptions of papers are compared at; not all",
    "floors in networks": "changes below 2e-5 of what a network says, or that act on degenerate poses only",
    "when APGD halves its steps": "RHO shows only in longer attacks than these",
    "protocols": "one configuration, in which every option has another value than its default",
    "official images": "all but MNIST's are on no machine of ours; their files are checked by MD5",
}


def all_parts() -> Iterator[GoldenPart]:
    for parts in KINDS.values():
        yield from parts()


def missing(book: GoldenBook) -> Iterator[tuple[str, str]]:
    """Settings without a golden number, and those that are refused: in words, and by the name that has the reason."""
    for part in book.parts.values():
        told = " ".join(part.cases)
        if part.kind in ("method", "model"):
            yield from ((f"{part.title}, {key}", key) for key in part.defaults if f"{key}=" not in told)
        for label, numbers in ((book.entry(part) or {}).get("numbers", {})).items():
            if numbers == REFUSED:
                yield f"{part.title}, {label}", label
    for name in protocols:
        given = PROTOCOLS.get(name, ({}, {}))[1]
        yield from ((f"protocol {name}, {key}", key) for key in protocols[name].options if key not in given)
    settings = {*OF_KIND, *(key for keys in OF_KIND.values() for key in keys), "augmentation"}
    yield from ((f"recipe, {key}", key) for key in LEGAL if key not in settings)


def uncovered() -> Iterator[tuple[str, str]]:
    """What has no golden number, and why; the reason is empty where nobody gave one."""
    book = GoldenBook.read(all_parts())
    yield from ((part.title, part.absent) for part in book.parts.values() if part.absent)
    for what, key in missing(book):
        yield what, next((why for name, why in WHY.items() if name in key), "")
    yield from BEYOND.items()
