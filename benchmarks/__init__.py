# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: ratios measured in one run, never timed tests. `python -m benchmarks` runs them all in small size."""
