# SPDX-License-Identifier: Apache-2.0
"""Who gets how much of what a server has: connections, bytes, jobs that wait, tickets."""

from __future__ import annotations

import ipaddress
from collections import Counter

__all__ = ["FairShares", "client_name"]


class FairShares:
    """So much in all, of which a client may hold as much as is left free.

    A client gets `amount` if (what it holds) + amount ≤ most − (what all hold). So k clients that take all they can
    end up with most / (k + 1) each, and as much stays free, of which the next one gets half at once: one client never
    has more than half of everything, and none shuts out another.

    Source: Choudhury and Hahne, Dynamic queue length thresholds for shared-memory packet switches (1998).

    >>> shares = FairShares(12)
    >>> [shares.take("a", 2) for _ in range(4)], shares.take("b", 4)
    ([True, True, True, False], True)
    >>> shares.give("a", 6)
    >>> shares.total
    4
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.total = 0
        self._held: Counter[str] = Counter()

    def take(self, client: str, amount: int = 1) -> bool:
        """Let a client hold so much more; False, and nothing changes, if that is too much."""
        if self._held[client] + amount > self.most - self.total:
            return False
        self._held[client] += amount
        self.total += amount
        return True

    def give(self, client: str, amount: int = 1) -> None:
        """Take back so much of what a client holds."""
        self._held[client] -= amount
        self.total -= amount
        if not self._held[client]:
            del self._held[client]


def client_name(host: str) -> str:
    """Whom an address belongs to: itself, or the 64 bits that one owner of IPv6 addresses shares.

    >>> client_name("192.0.2.7"), client_name("::ffff:192.0.2.7"), client_name("2001:db8::1:2")
    ('192.0.2.7', '192.0.2.7', '2001:db8::/64')
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))
