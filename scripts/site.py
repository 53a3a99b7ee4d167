# SPDX-License-Identifier: Apache-2.0
"""Build the documentation as a site: `python -m scripts.site`, which `make site` runs.

Sources are laid out in build/pages as they lie in the project, so that every link means the same in both. To them come
a reference of the library, made from docstrings, and pictures of the page and of a report, taken from the running
program. Nothing is asked of a network, in building or in reading.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "build" / "pages"
SOURCES = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE",
    "Makefile",
    "docs",
    "examples",
    "benchmarks",
)
CHROMIUM = "/usr/bin/chromium"


def anchor(text: str, separator: str = "-") -> str:
    """The anchor of a heading, as code hosts make it, so that links mean the same there and here."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", separator)


def main() -> int:
    """Lay out the sources, take the pictures and build; every warning is an error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without-pictures", action="store_true", help="leave the browser out")
    asked = parser.parse_args()
    lay_out()
    if not asked.without_pictures:
        take_pictures(PAGES / "docs" / "pictures")
        show_pictures()
    settings = PAGES.parent / "mkdocs.yml"
    settings.write_text(configuration(), encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--config-file", str(settings)]
    # The theme announces its successor in every build; the variable is its own way to leave that out.
    code = subprocess.run(  # noqa: S603 - the interpreter that runs this, and words of its own
        command,
        cwd=ROOT,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)},
    ).returncode
    if not code:
        sys.stdout.write("written: build/site/index.html\n")
    return code


def lay_out() -> None:
    """Copy what the site shows, and write the reference."""
    shutil.rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir(parents=True)
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, PAGES / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, PAGES / name)
    for extra in ("site.css", "site.js", "vendor/iframe-worker.js", "vendor/iframe-worker.LICENSE.txt"):
        shutil.copy(ROOT / "scripts" / extra, PAGES)
    (PAGES / "docs" / "reference.md").write_text(reference(), encoding="utf-8")


def on_post_page(output: str, **_: object) -> str:
    """Mend what the theme writes, called by mkdocs page by page.

    The script that searches pages on disk is taken from beside them, the search has a name, and lists inside a table of
    contents are no landmarks of their own, which would bear the same name twice.
    """
    output = re.sub(r'src="[^"]*/iframe-worker/shim"', f'src="{_up(output)}iframe-worker.js"', output)
    output = output.replace('role="dialog">', 'role="dialog" aria-label="Search">', 1)
    return re.sub(r'<nav class="md-nav" aria-label="[^"]*">', '<nav class="md-nav" role="none">', output)


def on_post_template(output_content: str, template_name: str, **_: object) -> str:
    """Leave out the page for what is not found: it takes its style from the root of a server, and here is none."""
    return "" if template_name == "404.html" else output_content


def _up(page: str) -> str:
    """The way from a page to the top of the site, as the page itself names it."""
    found = re.search(r'href="((?:\.\./)*)site\.css"', page)
    assert found is not None, "every page has the style of the site"
    return found[1]


def reference() -> str:
    """The page of the library: every public name with its docstring."""
    import sottovoce

    names = [name for name in sottovoce.__all__ if not name.startswith("__")]
    return "# Reference\n\nEverything that `import sottovoce` offers.\n\n" + "".join(
        f"::: sottovoce.{name}\n\n" for name in names
    )


def configuration() -> str:
    """The settings of mkdocs, with the proofs in their place and paths from where the file lies."""
    proofs = ", ".join(
        f"docs/proofs/{path.name}" for path in sorted((ROOT / "docs" / "proofs").glob("*.md"), key=_first)
    )
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").replace("PROOFS", proofs)
    for name in ("docs_dir: build/", "site_dir: build/"):
        text = text.replace(name, name.removesuffix("build/"))
    return text.replace("paths: [src]", "paths: [../src]").replace("[scripts/", "[../scripts/")


def _first(path: Path) -> tuple[bool, str]:
    return path.name != "index.md", path.name


def take_pictures(folder: Path) -> None:
    """A report and its first page, light and dark, as a browser shows them."""
    from playwright.sync_api import sync_playwright

    from sottovoce.cli import main as run

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        report = Path(place) / "families.html"
        words = "account florentine --rounds 20 --noise-multiplier 4 --max-epsilon 5 --report"
        if run([*words.split(), str(report)]):
            raise SystemExit("the report of the pictures could not be written")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": 1200, "height": 3400}, color_scheme=scheme)
            page.goto(report.as_uri())
            page.wait_for_selector("#curves svg")
            page.locator("#sheet").screenshot(path=folder / f"first-page-{scheme}.png")
            page.locator("main").screenshot(path=folder / f"page-{scheme}.png")
        browser.close()


def show_pictures() -> None:
    """Put the pictures where the page is explained."""
    path = PAGES / "docs" / "page.md"
    text = path.read_text(encoding="utf-8")
    shown = "".join(
        f"![{words}](pictures/{name}-{scheme}.png#only-{scheme})\n"
        for name, words in (("first-page", "The first page of a report"), ("page", "The page below it"))
        for scheme in ("light", "dark")
    )
    path.write_text(text.replace("## A server\n", f"{shown}\n## A server\n", 1), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
