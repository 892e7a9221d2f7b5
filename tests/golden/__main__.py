"""`python -m tests.golden [--write] [--out FOLDER] [NAME…]`: the cases whose names begin so, or all."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from tests.golden.corpus import DIGESTS, chosen, compared, made, written
from tests.golden.form import canonical


@click.command()
@click.option("--write", is_flag=True, help="Write the digests anew.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Write the rows of each case there.")
@click.argument("names", nargs=-1)
def main(write: bool, out: Path | None, names: tuple[str, ...]) -> None:
    """Compare what is planned, sent and recorded with the digests that are committed."""
    found = {}
    for name, case in chosen(names).items():
        with tempfile.TemporaryDirectory() as folder:
            rows, found[name] = made(case, Path(folder))
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            data = b"\n".join(map(canonical, rows)) + b"\n"
            (out / f"{name.replace('/', '_')}.jsonl").write_bytes(data)
    if write:
        written(found, all_=not names)
        click.echo(f"{len(found):,} digests written to {DIGESTS}")
        return
    different = compared(found)
    for line in different:
        click.echo(line)
    click.echo(f"{len(found) - len(different):,} of {len(found):,} cases are as they were")
    sys.exit(1 if different else 0)


main(prog_name="python -m tests.golden")
