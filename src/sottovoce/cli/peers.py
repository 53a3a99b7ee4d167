# SPDX-License-Identifier: Apache-2.0
"""`sottovoce peers`: real nodes that exchange real messages, and what they give away, known beforehand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from sottovoce.cli.options import Config, Json, whole_number
from sottovoce.cli.outputs import refuse_clashes
from sottovoce.cli.printing import complain, progress, result_page, rounded_up, write_result
from sottovoce.errors import needs

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from sottovoce.peers import Checked, Knowledge, Outcome, Policy, RunCertificate

__all__ = ["peers", "prove_run"]

peers = App(
    name="peers",
    help="Run a protocol between real nodes, each a process of its own.",
    help_format="plaintext",
    version_flags=[],
)

NetworkFile = Annotated[Path, Parameter(help="The network.toml that all peers have agreed on.")]
Me = Annotated[str, Parameter(help="The name of this node in the network.")]
PolicyFile = Annotated[
    Path | None,
    Parameter(help="This node's own policy.toml: the most ε that others may have.", show_default=False),
]

SpentFile = Annotated[
    Path | None,
    Parameter(
        help="What this node spent in earlier runs, which counts; NAME.spent.jsonl beside its keys by default. For "
        "records that no earlier run has seen, name another file.",
        show_default=False,
    ),
]

KeysFile = Annotated[
    Path | None,
    Parameter(help="The node's keys; NAME.keys beside the network by default.", show_default=False),
]
RunFolder = Annotated[
    Path | None,
    Parameter(
        help="Where the node keeps its state, transcript and ledger; NAME.run beside the network by default. A "
        "node that was killed goes on from there.",
        show_default=False,
    ),
]


def _command(usage: str, example: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Register a command of peers with its usage and its example."""
    return lambda function: peers.command(
        function,
        name=function.__name__,
        usage=f"Usage: sottovoce peers {usage}",
        help_epilogue=f"Example:\n  sottovoce peers {example}",
    )


@_command("identity NAME [OPTIONS]", "identity ward-3 --address 127.0.0.1:7447")
def identity(
    name: Annotated[str, Parameter(help="What the node is called in the network.")],
    /,
    *,
    address: Annotated[
        str, Parameter(help="HOST:PORT at which others reach the node; the host is part of its certificate.")
    ] = "127.0.0.1:7447",
    folder: Annotated[Path, Parameter(help="Where the two files are put.")] = Path(),
    json: Json = False,
    config: Config = None,  # noqa: ARG001 - the defaults are read before the command runs
) -> int:
    """Make the keys of a node: NAME.keys, which stays here, and NAME.public.toml, which everybody gets."""
    _check_extras()
    from sottovoce.documents import as_json
    from sottovoce.peers import create_identity, write_identity

    made = create_identity(name, address)
    keys, public = write_identity(made, folder)
    if json:
        write_result(as_json({"kind": "identity", "keys": str(keys), "public": made.card}))
    else:
        write_result(
            f"{keys}: the keys, for your eyes alone; there is no other copy\n"
            f"{public}: paste it into network.toml, and read its signing key to the others by telephone\n"
        )
    return 0


@_command("check NETWORK --me NAME [OPTIONS]", "check network.toml --me ward-3 --policy policy.toml")
def check(
    network: NetworkFile,
    /,
    *,
    me: Me,
    policy: PolicyFile = None,
    spent: SpentFile = None,
    coalition: Annotated[
        int | None,
        Parameter(
            help="How many nodes may pool what they see; the size in the policy by default, 2 without one; 0 for none.",
            show_default=False,
            converter=whole_number,
        ),
    ] = None,
    json: Json = False,
    config: Config = None,  # noqa: ARG001 - the defaults are read before the command runs
) -> int:
    """Say what others will know of this node after the run, before any connection; exit code 3 above the policy."""
    _check_extras()
    from sottovoce.peers import Policy, known_after, read_earlier, read_network, read_policy, spent_beside

    agreed = read_network(network)
    allowed = Policy(delta=agreed.settings.delta) if policy is None else read_policy(policy)
    earlier = read_earlier(spent or spent_beside(network.parent / f"{me}.keys"), agreed)
    size = min(allowed.size, agreed.n - 1) if coalition is None else coalition
    with progress("observers") as moved:
        found = known_after(
            agreed, me, delta=allowed.delta, size=size or None, earlier=earlier, progress=moved
        )
    _print(found, allowed, agreed.hash.hex(), len(earlier.runs), json=json)
    above = found.above(allowed)
    for seen, most in above:
        complain(
            f"policy exceeded: {_who(seen.who, seen.kind)} may know ε = {rounded_up(seen.epsilon)} of {me}, and the "
            f"policy allows {most!r} (agree on more noise or fewer rounds, or allow more)"
        )
    return 3 if above else 0


@_command(
    "run NETWORK --me NAME --data FILE [OPTIONS]",
    "run network.toml --me ward-3 --data patients.csv --policy policy.toml",
)
def run(
    network: NetworkFile,
    /,
    *,
    me: Me,
    data: Annotated[Path, Parameter(help="The node's own records, a .csv or .npz file.")],
    keys: KeysFile = None,
    folder: RunFolder = None,
    policy: PolicyFile = None,
    spent: SpentFile = None,
    label: Annotated[
        str | None,
        Parameter(help="The column that holds the labels; the last by default.", show_default=False),
    ] = None,
    listen: Annotated[
        str | None,
        Parameter(
            help="HOST:PORT to listen at where others can reach it; loopback alone by default.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    config: Config = None,  # noqa: ARG001 - the defaults are read before the command runs
) -> int:
    """Run this node with the others; exit code 3 if its policy, or the others' absence, ends it early.

    Ctrl-C stops it, and so does a crash: started again, it goes on, and sends nothing twice.
    """
    _check_extras()
    from sottovoce.cli.peer_tables import outcomes_document, outcomes_text, watched
    from sottovoce.peers import Place, run_here

    place = Place(
        network=network,
        name=me,
        keys=keys or network.parent / f"{me}.keys",
        data=data,
        folder=folder or network.parent / f"{me}.run",
        policy=policy,
        spent=spent,
        label=label,
        listen=listen,
    )
    with watched() as moved:
        outcome = run_here(place, None if moved is None else lambda moment: moved({me: moment}))
    return _ended({me: outcome}, outcomes_document, outcomes_text, json=json)


@_command("local NETWORK [OPTIONS]", "local swarm/network.toml")
def local(
    network: NetworkFile,
    /,
    *,
    json: Json = False,
    config: Config = None,  # noqa: ARG001 - the defaults are read before the command runs
) -> int:
    """Run all nodes of a network on this machine, each a process of its own.

    Beside the network are, for each node, NAME.keys, NAME.csv or NAME.npz, and NAME.policy.toml if it has one.
    """
    _check_extras()
    from sottovoce.cli.peer_tables import outcomes_document, outcomes_text, watched
    from sottovoce.peers import places_beside, run_all

    with watched() as moved:
        found = run_all(places_beside(network), moved)
    return _ended(found, outcomes_document, outcomes_text, json=json)


@_command("example FOLDER [OPTIONS]", "example swarm --nodes 5 --rounds 5")
def example(
    folder: Annotated[Path, Parameter(help="A folder that is not there yet.")],
    /,
    *,
    nodes: Annotated[int, Parameter(help="How many sites there are.", converter=whole_number)] = 8,
    rounds: Annotated[int, Parameter(help="How many rounds they run.", converter=whole_number)] = 60,
    noise_multiplier: Annotated[
        float, Parameter(help="Standard deviation of each site's noise, in units of the clipping norm.")
    ] = 1.5,
    plain: Annotated[
        bool, Parameter(help="Messages in the clear between neighbours, not masked sums.", negative=())
    ] = False,
    config: Config = None,  # noqa: ARG001 - the defaults are read before the command runs
) -> int:
    """Write a network to try: sites on this machine with keys, records and policies."""
    _check_extras()
    from sottovoce.peers import write_example

    written = write_example(
        folder, nodes=nodes, rounds=rounds, noise_multiplier=noise_multiplier, masked=not plain
    )
    write_result(f"{written}: {nodes} sites (run them with: sottovoce peers local {written})\n")
    return 0


@_command("certify NETWORK --me NAME [OPTIONS]", "certify network.toml --me ward-3 --with ward-1.jsonl")
def certify(
    network: NetworkFile,
    /,
    *,
    me: Me,
    keys: KeysFile = None,
    folder: RunFolder = None,
    others: Annotated[
        tuple[Path, ...],
        Parameter(
            name="--with",
            help="The transcript of another node, as far as it lays it open.",
            negative_iterable=(),
        ),
    ] = (),
    policy: PolicyFile = None,
    output: Annotated[
        Path | None,
        Parameter(
            help="Where to write it; certificate.json in the run's folder by default.", show_default=False
        ),
    ] = None,
    config: Config = None,  # noqa: ARG001 - the defaults are read before the command runs
) -> int:
    """Certify again what a run gave away, with the transcripts of others: what they tell need not count as seen."""
    _check_extras()
    from sottovoce.peers import (
        Policy,
        authors_of,
        certify_run,
        read_identity,
        read_network,
        read_policy,
        write_run,
    )

    agreed, place = read_network(network), folder or network.parent / f"{me}.run"
    allowed = Policy(delta=agreed.settings.delta) if policy is None else read_policy(policy)
    own, written = keys or network.parent / f"{me}.keys", output or place / "certificate.json"
    transcripts = [place / "transcript.jsonl", *others]
    refuse_clashes(
        [("--output", str(written))],
        [
            ("--keys", str(own)),
            ("NETWORK", str(network)),
            *(("a transcript", str(each)) for each in transcripts),
        ],
    )
    files = authors_of(transcripts)
    made = certify_run(agreed, read_identity(own), files, delta=allowed.delta, size=allowed.size)
    write_run(made, written)
    write_result(
        f"{written}: what others know of {me} (check it with: sottovoce peers verify {written} {network})\n"
    )
    return 0


@_command("verify CERTIFICATE NETWORK [OPTIONS]", "verify ward-3.run/certificate.json network.toml")
def verify(
    certificate: Annotated[Path, Parameter(help="A certificate.json that a node wrote after a run.")],
    network: NetworkFile,
    /,
    *,
    transcript: Annotated[
        tuple[Path, ...],
        Parameter(
            help="A transcript that it follows from; transcript.jsonl beside it by default.",
            negative_iterable=(),
        ),
    ] = (),
    json: Json = False,
    config: Config = None,  # noqa: ARG001 - the defaults are read before the command runs
) -> int:
    """Prove again, offline, what a run gave away of a node; exit code 3 unless every number follows."""
    return prove_run(certificate, network, transcript, json=json)


def prove_run(certificate: Path, network: Path, transcripts: tuple[Path, ...], *, json: bool) -> int:
    """Prove a certificate of a run again, and say so: for `peers verify` and for `verify`."""
    _check_extras()
    from sottovoce.errors import InputError
    from sottovoce.peers import authors_of, read_network, read_run, verify_run

    made, agreed = read_run(certificate), read_network(network)
    files = authors_of(transcripts or [certificate.parent / "transcript.jsonl"])
    try:
        found, reason = verify_run(made, agreed, files), ""
    except InputError as error:
        found, reason = (), str(error)
    if not all(each.holds for each in found):
        reason = "a number is smaller than what follows from the transcripts"
    _print_run(made, found, json=json)
    if reason:
        complain(f"not verified: {reason}")
    return 3 if reason else 0


def _print_run(made: RunCertificate, found: tuple[Checked, ...], *, json: bool) -> None:
    """What was proved of a run, as JSON or as a table."""
    if json:
        from sottovoce.documents import as_json

        known = [
            {
                "observers": each.observers,
                "epsilon": each.proved,
                "claimed": each.claimed,
                "holds": each.holds,
            }
            for each in found
        ]
        document = {
            "kind": "peers verify",
            "run": made.run,
            "me": made.me,
            "delta": made.delta,
            "known": known,
        }
        write_result(as_json(document))
        return
    from sottovoce.cli.layout import paragraph, plain_table

    with result_page() as console:
        paragraph(console, f"What others know of {made.me} after the run, at δ = {made.delta!r}", "bold")
        table = plain_table()
        for name in ("who", "ε at most", ""):
            table.add_column(name, justify="right" if name.startswith("ε") else "left")
        for each in found:
            who = _who(each.observers, "node" if each.observers else "everyone")
            table.add_row(who, rounded_up(each.proved), "holds" if each.holds else "less was claimed")
        console.print(table)


def _ended(
    found: dict[str, Outcome | str],
    document: Callable[[dict[str, Outcome | str]], object],
    text: Callable[[Console, dict[str, Outcome | str]], None],
    *,
    json: bool,
) -> int:
    """Show how nodes ended; the worst of it is the exit code."""
    if json:
        from sottovoce.documents import as_json

        write_result(as_json(document(found)))
    else:
        with result_page() as console:
            text(console, found)
    reasons = {name: each if isinstance(each, str) else each.reason for name, each in found.items()}
    for name, reason in reasons.items():
        if reason == "policy":
            complain(f"{name} stopped before a round that its policy does not allow")
        elif reason == "alone":
            complain(
                f"{name} stopped as not all, or too few, of the others were there (start it again when they are)"
            )
        elif reason == "apart":
            complain(
                f"{name} has no part in the run that its neighbours are in, and has sent nothing (start it with the "
                "folder of that run, or end the others and start all with new folders)"
            )
        elif reason not in {"finished", "interrupted"}:
            complain(f"error: {name}: {reason}")
    if "interrupted" in reasons.values():
        complain("interrupted: started again, nodes go on where they were")
        return 130
    if set(reasons.values()) <= {"finished", "policy", "alone", "apart"}:
        return 0 if set(reasons.values()) == {"finished"} else 3
    return 2


def _print(found: Knowledge, policy: Policy, agreed: str, earlier: int, *, json: bool) -> None:
    """What others will know, as JSON or as a table."""
    rows = [*found.nodes, *([found.coalition] if found.coalition else []), found.everyone]
    if json:
        from sottovoce.documents import as_json

        document = {
            "kind": "peers check",
            "network": agreed,
            "me": found.me,
            "rounds": found.rounds,
            "earlier_runs": earlier,
            "delta": found.delta,
            "within_policy": not found.above(policy),
            "known": rows,
        }
        write_result(as_json(document))
        return
    from sottovoce.cli.layout import facts, paragraph, plain_table

    lasting = "1 round" if found.rounds == 1 else f"{found.rounds} rounds"
    # A run that is over, or goes on, is an earlier one: what it gave away by itself stands in its certificate.
    runs = "1 earlier run" if earlier == 1 else f"{earlier} earlier runs"
    more = f" more and {runs}" if earlier else ""
    with result_page() as console:
        paragraph(
            console,
            f"What others know of {found.me} after {lasting}{more}, at δ = {found.delta!r}",
            "bold",
        )
        table = plain_table()
        for name in ("who", "sees", "ε at most", "by", "assuming"):
            table.add_column(name, justify="right" if name.startswith("ε") else "left")
        for seen in rows:
            who = _who(seen.who, seen.kind) + (" (neighbour)" if seen.neighbour else "")
            table.add_row(who, seen.sees, rounded_up(seen.epsilon), seen.method, seen.assumption)
        console.print(table)
        console.print()
        console.print(
            facts(
                [
                    ("eavesdropper", "on sealed links sees who sends when and how much, and nothing of what"),
                    (
                        "rests on",
                        "everybody follows the program and nobody drops out; a run that deviates says so",
                    ),
                    (
                        "earlier runs",
                        f"{earlier}, and what they gave away is in every number; what a run gave away by itself "
                        "is in its certificate.json"
                        if earlier
                        else "none that are known",
                    ),
                    ("network", agreed),
                ]
            )
        )


def _who(names: tuple[str, ...], kind: str) -> str:
    """An observer in words."""
    if kind == "everyone":
        return "whoever reads every message"
    return names[0] if len(names) == 1 else f"the coalition {', '.join(names)}"


def _check_extras() -> None:
    """Refuse to begin without the packages that peers need."""
    from importlib.util import find_spec

    for module, package in (("cryptography", "cryptography"), ("zenoh", "eclipse-zenoh")):
        if find_spec(module) is None:
            raise needs("peers", package, "peers")
