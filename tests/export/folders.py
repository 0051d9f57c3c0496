"""Results folders whose user has called things by the worst names."""

import copy
from pathlib import Path

from tests.analysis.made_up_folder import write_folder
from tests.analysis.made_up_runs import METHODS, made_up_records

NASTY = r"my_%&#~^\{}$|`*<!--> × – é β 中"


def nasty_folder(path: Path) -> Path:
    """One method, one failure's reason and one processor have letters that every format has a use for."""
    methods = {NASTY: ([1, 2], "method", "capsnet-small", [96.3, 97.0]), "uniform": METHODS["uniform"]}
    records = copy.deepcopy(made_up_records(methods=methods))
    records[0] |= {"status": "failed", "reason": 'ValueError: "a", # b;\nsecond line --> % \\end', "metrics": []}
    for record in records:
        record["provenance"]["processor"] = "Example --> CPU\n\\input{secret} # 2"
    return write_folder(path, records)
