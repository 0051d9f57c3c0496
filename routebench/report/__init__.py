"""Pages and tables made from a results folder. Nothing is measured here: the same records give the same page."""

from routebench.report.page import comparison_table as comparison_table
from routebench.report.page import headline as headline
from routebench.report.page import write_report as write_report
