"""`python -m benchmarks --list | NAME [OPTIONS] [--json]`, from the root of the repository."""

from __future__ import annotations

import click

from benchmarks.registry import Benchmarks


@click.command(cls=Benchmarks, invoke_without_command=True)
@click.option("--list", "listed", is_flag=True, help="Name every benchmark with what it shows.")
@click.pass_context
def main(context: click.Context, listed: bool) -> None:
    """Measure what agentaccel claims: every figure with its inputs."""
    if context.invoked_subcommand is None:
        group = context.command
        assert isinstance(group, Benchmarks)
        click.echo(group.listing(context) if listed else context.get_help())


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
