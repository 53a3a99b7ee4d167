# SPDX-License-Identifier: Apache-2.0
"""`sottovoce serve`: the page with live recomputation, and the API behind it."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from sottovoce.cli.options import Config, whole_number
from sottovoce.cli.printing import write_result
from sottovoce.errors import needs

__all__ = ["EXAMPLE", "USAGE", "serve"]

EXAMPLE = "sottovoce serve --port 8765"
USAGE = "sottovoce serve [OPTIONS]"


def serve(
    *,
    host: Annotated[str, Parameter(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int, Parameter(help="The port to listen at; 0 takes any free one.", converter=whole_number)
    ] = 8765,
    public: Annotated[
        bool, Parameter(help="Allow an address that others can reach; needs --token.", negative=())
    ] = False,
    token: Annotated[
        str | None,
        Parameter(
            help="Ask for this access token; better set as SOTTOVOCE_SERVE_TOKEN, which others cannot see.",
            show_default=False,
        ),
    ] = None,
    proxy: Annotated[
        str | None,
        Parameter(
            help="Address of a proxy that is trusted to name its clients in X-Forwarded-For.",
            show_default=False,
        ),
    ] = None,
    max_nodes: Annotated[int, Parameter(help="Most nodes of a graph.", converter=whole_number)] = 2000,
    max_rounds: Annotated[int, Parameter(help="Most rounds of a run.", converter=whole_number)] = 10_000,
    max_pairs: Annotated[int, Parameter(help="Most pairs in one answer.", converter=whole_number)] = 100_000,
    max_body: Annotated[int, Parameter(help="Most bytes of a request.", converter=whole_number)] = 2_000_000,
    max_answer: Annotated[
        int, Parameter(help="Most bytes of an answer.", converter=whole_number)
    ] = 32_000_000,
    time_limit: Annotated[float, Parameter(help="Seconds after which a job is ended.")] = 60.0,
    workers: Annotated[
        int, Parameter(help="How many jobs are computed at the same time.", converter=whole_number)
    ] = 2,
    config: Config = None,  # noqa: ARG001 - the defaults are read before the command runs
) -> int:
    """Serve the page, with live recomputation, to this machine (or to others, with a token)."""
    _check_extras()
    from sottovoce.web import Limits, bound_socket, check_access, listen

    check_access(host, public=public, token=token, proxy=proxy)
    limits = Limits(
        nodes=max_nodes,
        rounds=max_rounds,
        pairs=max_pairs,
        body=max_body,
        answer=max_answer,
        seconds=time_limit,
        workers=workers,
    )
    listener = bound_socket(host, port)
    shown = f"[{host}]" if ":" in host else host
    write_result(f"Sottovoce is at http://{shown}:{listener.getsockname()[1]}/ (Ctrl+C ends it)\n")
    listen(listener, limits, host=host, token=token, proxy=proxy)
    return 0


def _check_extras() -> None:
    """Refuse to serve without the packages that serve."""
    from importlib.util import find_spec

    missing = [name for name in ("starlette", "uvicorn", "msgspec") if find_spec(name) is None]
    if missing:
        raise needs("serve", missing[0], "web")
