"""The command `wolfmeans`: each command is the function of its name in the module of its name.

Typer and rich are imported when the command runs, never with the package. NumPy and scikit-learn
are imported only when a command has work to do, after help and usage errors.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from wolfmeans import __version__
from wolfmeans.commands.process import finish, printing, say, take_over

if TYPE_CHECKING:
    from typer import Typer

_COMMANDS = ("fit", "predict", "certify", "check", "scan", "demo", "study", "bench", "info")
_GROUPS = ("study",)
_INSTALL = "wolfmeans: this command needs typer and rich; install them: pip install typer rich"


def application(only: str | None = None) -> Typer:
    """Return the Typer application with all commands, or with one of them."""
    import typer

    app = typer.Typer(
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def show_version(wanted: bool) -> None:
        if wanted:
            typer.echo(f"wolfmeans {__version__}")
            raise typer.Exit

    @app.callback()
    def root(
        version: bool = typer.Option(
            False, "--version", callback=show_version, is_eager=True, help="Show the version."
        ),
    ) -> None:
        """K-means that proves its answer.

        [bold]Examples[/bold]

          wolfmeans demo

          wolfmeans fit measurements.csv -k 8 --labels labels.csv
        """

    for name in _COMMANDS if only is None else (only,):
        module = import_module(f"wolfmeans.commands.{name}")
        if name in _GROUPS:
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(getattr(module, name))
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, 1, 2 for an error, 130 for Ctrl-C."""
    if arguments is None:
        take_over()
    try:
        import rich  # noqa: F401
        import typer
    except ImportError:
        say(_INSTALL)
        return finish(2)
    given = list(sys.argv[1:] if arguments is None else arguments)
    only = given[0] if given and given[0] in _COMMANDS else None
    command = typer.main.get_command(application(only))
    try:
        with printing():  # help, and the version
            code = command.main(given, prog_name="wolfmeans", standalone_mode=False, obj=given)
    except KeyboardInterrupt:
        say("wolfmeans: interrupted")
        return finish(130)
    except BrokenPipeError:
        return finish(141)
    except OSError as error:
        say(f"wolfmeans: {error}")
        return finish(2)
    except Exception as error:
        # Wrong usage; the class of such errors has moved between versions of typer.
        if type(error).__name__ == "Abort":  # click's class for Ctrl-C
            say("wolfmeans: interrupted")
            return finish(130)
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        if not (text := message()):
            return finish(0)  # no command was given, and help was shown
        say(f"wolfmeans: {text}")
        return finish(int(getattr(error, "exit_code", 2)))
    return finish(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    sys.exit(main())
