# SPDX-License-Identifier: Apache-2.0
"""Pictures and pages of what accounts, runs and studies found: matplotlib figures and self-contained HTML."""

from sottovoce.report.accounts import check_plot_path, needs_matplotlib, plot_account
from sottovoce.report.comparisons import comparison_sections, plot_comparison
from sottovoce.report.drawings import DRAWN, program_drawing, view_drawing, view_tree
from sottovoce.report.frontiers import frontier_picture, frontier_sections
from sottovoce.report.html import (
    Section,
    check_report_path,
    report_html,
    result_html,
    save_report,
    says_what_it_carries,
    write_report,
)
from sottovoce.report.page import results_page
from sottovoce.report.proofs import page_report, proof_section
from sottovoce.report.reproduction import reproduction_sections
from sottovoce.report.sheet import sheet_html

__all__ = [
    "DRAWN",
    "Section",
    "check_plot_path",
    "check_report_path",
    "comparison_sections",
    "frontier_picture",
    "frontier_sections",
    "needs_matplotlib",
    "page_report",
    "plot_account",
    "plot_comparison",
    "program_drawing",
    "proof_section",
    "report_html",
    "reproduction_sections",
    "result_html",
    "results_page",
    "save_report",
    "says_what_it_carries",
    "sheet_html",
    "view_drawing",
    "view_tree",
    "write_report",
]
