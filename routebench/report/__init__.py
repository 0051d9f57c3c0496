"""Pages and tables made from a results folder. Nothing is measured here: the same records give the same page.

A suite joins the overview of a page by one field of its first analysis: see `routebench.analysis.Main`.
"""

from routebench.report.page import write_report as write_report
from routebench.report.terminal import comparison_table as comparison_table
from routebench.report.terminal import headline as headline
