"""``gpucost completion``: what a shell needs to complete commands, options and names."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("shell", type=click.Choice(SHELLS), metavar="|".join(SHELLS))
def completion(shell: str) -> None:
    """Print what makes a shell complete gpucost's commands, options, jobs, GPUs and providers.

    \b
    bash, in ~/.bashrc:   eval "$(gpucost completion bash)"
    zsh, in ~/.zshrc:     eval "$(gpucost completion zsh)"
    fish:                 gpucost completion fish > ~/.config/fish/completions/gpucost.fish

    It needs bash 4.4 or newer. No database is opened for it.
    """
    from click.shell_completion import get_completion_class

    from tracker.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None, shell  # noqa: S101 - click has all of SHELLS
    script = found(cli, {}, "gpucost", "_GPUCOST_COMPLETE").source()
    if shell == "fish":  # click's cuts a list such as A100,H100 at its own comma, too
        script = script.replace('string split ","', 'string split --max 1 ","')
    click.echo(script, nl=False)
