# SPDX-License-Identifier: Apache-2.0
"""The server around the page: a described JSON API, jobs in worker processes, and limits on all of it."""

from sottovoce.web.limits import Limits
from sottovoce.web.listening import bound_socket, check_access, listen

__all__ = [
    "Limits",
    "bound_socket",
    "check_access",
    "listen",
]
