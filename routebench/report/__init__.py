"""Makes pages and tables from a results folder. It measures nothing: the same records give the same page.

A suite joins the scorecard of a page by one field of its first analysis: see `routebench.analysis.Main`.
"""

from routebench.report._asking import Broken, ask
from routebench.report._block import own_page
from routebench.report._glossary import GLOSSARY
from routebench.report._headline import first_analysis
from routebench.report._origins import Origins, lines_of, origins_of
from routebench.report._page import Written, write_report
from routebench.report._render import rendered
from routebench.report._terminal import NetworkAnswer, answers, between_networks, comparison_table, headline
from routebench.report._text_table import best_of, cells_of

__all__ = [
    "GLOSSARY",
    "Broken",
    "NetworkAnswer",
    "Origins",
    "Written",
    "answers",
    "ask",
    "best_of",
    "between_networks",
    "cells_of",
    "comparison_table",
    "first_analysis",
    "headline",
    "lines_of",
    "origins_of",
    "own_page",
    "rendered",
    "write_report",
]
