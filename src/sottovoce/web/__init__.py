# SPDX-License-Identifier: Apache-2.0
"""The server around the page: a described JSON API, jobs in worker processes, and limits on all of it."""
