"""Writes the boards of `routebench rank` from the published packs. Run it after a pack was published again.

python -m reports.boards
"""

import shutil
import sys
from pathlib import Path

from routebench.ranking import BOARDS, ship

if __name__ == "__main__":
    for board in BOARDS.values():
        shutil.rmtree(board.folder, ignore_errors=True)
        count = ship(Path(__file__).parent / board.pack, board, board.folder)
        size = sum(file.stat().st_size for file in board.folder.iterdir())
        sys.stdout.write(f"{board.name}: {count} runs, {size / 1e6:.2f} MB\n")
