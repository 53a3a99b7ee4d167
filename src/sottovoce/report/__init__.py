# SPDX-License-Identifier: Apache-2.0
"""Pictures and pages: what `studies` found, drawn with matplotlib and written to a folder."""

from sottovoce.report.reproduction import Reproduction, reproduce

__all__ = ["Reproduction", "reproduce"]
