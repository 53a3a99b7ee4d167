# SPDX-License-Identifier: Apache-2.0
"""Pictures and pages: what accounts, runs and studies found, drawn with matplotlib or written as self-contained HTML."""

from sottovoce.report.reproduction import Reproduction, reproduce

__all__ = ["Reproduction", "reproduce"]
