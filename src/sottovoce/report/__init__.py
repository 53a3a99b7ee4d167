# SPDX-License-Identifier: Apache-2.0
"""Pictures and pages of what accounts, runs and studies found: matplotlib figures and self-contained HTML."""

from sottovoce.report.reproduction import Reproduction, reproduce

__all__ = ["Reproduction", "reproduce"]
