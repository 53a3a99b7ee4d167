# SPDX-License-Identifier: Apache-2.0
"""The JSON and CSV forms of results: one schema, written and read in this place alone."""

from sottovoce.documents import runs
from sottovoce.documents.accounts import (
    HEAD,
    MOST_EXPOSED,
    PAIRS_IN_JSON,
    AccountDocument,
    CalibrationDocument,
    GraphDocument,
    account_document,
    as_json,
    calibration_document,
    fits_json,
    graph_document,
    pairs_possible,
    read_account_json,
)
from sottovoce.documents.audits import audit_document
from sottovoce.documents.carried import CERTIFICATES, DATA, is_report, json_element, read_report
from sottovoce.documents.coalitions import CoalitionDocument, coalition_document
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
from sottovoce.documents.damping_files import parse_damping, read_damping
from sottovoce.documents.files import check_path, write_bytes, write_whole
from sottovoce.documents.graph_files import check_graph_path, write_graph
from sottovoce.documents.occasions import InputFile, Occasion, occasion
from sottovoce.documents.pages import (
    CurveDocument,
    NetworkDocument,
    PageDocument,
    PagePart,
    curve_document,
    network_document,
    page_document,
)
from sottovoce.documents.pairs import Pair, plain_label
from sottovoce.documents.proofs import (
    CertificateDocument,
    Claim,
    ReportVerificationDocument,
    VerificationDocument,
    ViewVerification,
    certificate_document,
    check_certificate_path,
    report_verification_document,
    verification_document,
)
from sottovoce.documents.rates import rate_document
from sottovoce.documents.runs import run_document
from sottovoce.documents.sampled import SampledDocument, sampled_document, table_of_coins
from sottovoce.documents.side_by_side import ComparisonDocument, comparison_document
from sottovoce.documents.sweeps import summary_document

__all__ = [
    "CERTIFICATES",
    "COLUMNS",
    "DATA",
    "HEAD",
    "MOST_EXPOSED",
    "PAIRS_IN_JSON",
    "RATE_COLUMNS",
    "AccountDocument",
    "CalibrationDocument",
    "CertificateDocument",
    "Claim",
    "CoalitionDocument",
    "ComparisonDocument",
    "CurveDocument",
    "GraphDocument",
    "InputFile",
    "NetworkDocument",
    "Occasion",
    "PageDocument",
    "PagePart",
    "Pair",
    "ReportVerificationDocument",
    "SampledDocument",
    "VerificationDocument",
    "ViewVerification",
    "account_document",
    "as_json",
    "audit_document",
    "calibration_document",
    "certificate_document",
    "check_certificate_path",
    "check_csv_path",
    "check_graph_path",
    "check_path",
    "coalition_document",
    "comparison_document",
    "curve_document",
    "fits_json",
    "graph_document",
    "is_report",
    "json_element",
    "network_document",
    "occasion",
    "page_document",
    "pairs_possible",
    "parse_damping",
    "plain_label",
    "rate_document",
    "read_account_csv",
    "read_account_json",
    "read_damping",
    "read_report",
    "report_verification_document",
    "run_document",
    "runs",
    "sampled_document",
    "summary_document",
    "table_of_coins",
    "verification_document",
    "write_account_csv",
    "write_bytes",
    "write_graph",
    "write_named_account_csv",
    "write_named_rate_csv",
    "write_rate_csv",
    "write_whole",
]
