"""Places a method among the published ones: tunes and trains it as they were, and compares it with each of them.

What is published travels with the package: `boards/NAME` holds the records and answers of a published comparison.
"""

from routebench.ranking._board_page import write_board
from routebench.ranking._boards import BOARDS, Board, board_of, expect_primary, published
from routebench.ranking._files import entry_of
from routebench.ranking._measuring import Ahead, Measured, Teller, Wanted, ahead, expect_comparable, measure, part_of
from routebench.ranking._page import as_numbers, as_table, told, write_page
from routebench.ranking._shipping import ship, sums_of
from routebench.ranking._standing import Machines, Standing, standing_of
from routebench.ranking._submission import submit
from routebench.ranking._verification import missed, verify

__all__ = [
    "BOARDS",
    "Ahead",
    "Board",
    "Machines",
    "Measured",
    "Standing",
    "Teller",
    "Wanted",
    "ahead",
    "as_numbers",
    "as_table",
    "board_of",
    "entry_of",
    "expect_comparable",
    "expect_primary",
    "measure",
    "missed",
    "part_of",
    "published",
    "ship",
    "standing_of",
    "submit",
    "sums_of",
    "told",
    "verify",
    "write_board",
    "write_page",
]
