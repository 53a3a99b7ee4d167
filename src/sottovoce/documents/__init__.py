# SPDX-License-Identifier: Apache-2.0
"""The JSON and CSV forms of results: one schema, written and read in this place alone."""

from sottovoce.documents.accounts import (
    MOST_EXPOSED,
    PAIRS_IN_JSON,
    AccountDocument,
    account_document,
    as_json,
    calibration_document,
    fits_json,
    graph_document,
    pairs_possible,
    read_account_json,
)
from sottovoce.documents.audits import audit_document
from sottovoce.documents.csv_tables import (
    COLUMNS,
    RATE_COLUMNS,
    check_csv_path,
    read_account_csv,
    write_account_csv,
    write_named_account_csv,
    write_named_rate_csv,
    write_rate_csv,
)
from sottovoce.documents.damping_files import read_damping
from sottovoce.documents.graph_files import check_graph_path, write_graph
from sottovoce.documents.pages import PageDocument, curve_document, network_document, page_document
from sottovoce.documents.pairs import Pair, plain_label
from sottovoce.documents.proofs import (
    certificate_document,
    check_certificate_path,
    report_verification_document,
    verification_document,
)
from sottovoce.documents.rates import rate_document

__all__ = [
    "COLUMNS",
    "MOST_EXPOSED",
    "PAIRS_IN_JSON",
    "RATE_COLUMNS",
    "AccountDocument",
    "PageDocument",
    "Pair",
    "account_document",
    "as_json",
    "audit_document",
    "calibration_document",
    "certificate_document",
    "check_certificate_path",
    "check_csv_path",
    "check_graph_path",
    "curve_document",
    "fits_json",
    "graph_document",
    "network_document",
    "page_document",
    "pairs_possible",
    "plain_label",
    "rate_document",
    "read_account_csv",
    "read_account_json",
    "read_damping",
    "report_verification_document",
    "verification_document",
    "write_account_csv",
    "write_graph",
    "write_named_account_csv",
    "write_named_rate_csv",
    "write_rate_csv",
]
