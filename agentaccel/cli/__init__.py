"""The command line: thin commands over the library, each in a module of its own that loads only when it is used."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterator
from contextlib import contextmanager

import click

import agentaccel

_COMMANDS = {
    "run": ("agentaccel.cli.run", "run_command", "A program, with every client that it makes wrapped."),
    "report": ("agentaccel.cli.report", "report_command", "What the cache did, why, and what it saved."),
    "check": ("agentaccel.cli.check", "check_command", "Whether the cache does what you demand, as an exit code."),
    "replay": (
        "agentaccel.cli.replay",
        "replay_command",
        "What recorded conversations would cost under other policies.",
    ),
    "explain": (
        "agentaccel.cli.explain",
        "explain_command",
        "The plan for one request, and where two requests differ.",
    ),
    "effects": (
        "agentaccel.cli.effects",
        "effects_command",
        "What a call would do, and whether it could ever be run early.",
    ),
    "patterns": (
        "agentaccel.cli.patterns",
        "patterns_command",
        "What was learned of tool calls: look at it, take it elsewhere, clear it.",
    ),
    "learn": ("agentaccel.cli.learn", "learn_command", "Learn tool calls from recorded conversations."),
    "demo": ("agentaccel.cli.demo", "demo_command", "A support desk in five forms, side by side."),
    "emulate": ("agentaccel_emulator.command", "emulate", "A local provider with the caches that are documented."),
    "selfhost": ("agentaccel.cli.selfhost", "selfhost_command", "A real engine on this machine."),
    "purge": ("agentaccel.cli.purge", "purge_command", "Remove old turns from the trace store."),
}


@contextmanager
def _harmless() -> Iterator[None]:
    """What click says of a command line stands there as it was typed: printed, it is harmless on a terminal."""
    try:
        yield
    except click.UsageError as error:
        from agentaccel.report.numbers import clean_lines

        said = error.format_message()
        if clean_lines(said) == said:
            raise
        raise click.UsageError(clean_lines(said), error.ctx) from None


class _Lazy(click.Group):
    """A group that imports a command when it is asked for."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with _harmless():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        with _harmless():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, name, _ = _COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], _COMMANDS, 1)
            if not near or near[0] in error.message:
                raise
            raise click.UsageError(f"{error.message} Did you mean {near[0]!r}?", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, what) for name, (_, _, what) in _COMMANDS.items()])


@click.group(cls=_Lazy)
@click.version_option(agentaccel.__version__, prog_name="agentaccel")
def main() -> None:
    """Make LLM agent loops cheaper and faster, and see the evidence."""
