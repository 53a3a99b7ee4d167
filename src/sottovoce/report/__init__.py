# SPDX-License-Identifier: Apache-2.0
"""Figures of results, and the self-contained HTML report around the page."""
