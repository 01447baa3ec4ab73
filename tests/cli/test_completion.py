"""Completion: what a shell offers, in a real bash and as click asks for it, without a database."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from tests.cli.harness import run
from tracker.cli.completing import TIERS
from tracker.cli.main import COMMANDS, cli
from tracker.report.health import _TIERS as KNOWN_TIERS

COMMAND = Path(sys.executable).with_name("gpucost")


def offered(*words: str) -> list[str]:
    """What is offered behind ``gpucost WORDS…``, the last of which has been begun."""
    *args, incomplete = words
    completer = BashComplete(cli, {}, "gpucost", "_GPUCOST_COMPLETE")
    return [item.value for item in completer.get_completions(args, incomplete)]


@pytest.fixture(autouse=True)
def _no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address where nothing listens: whoever opens it fails."""
    monkeypatch.setenv("GPUCOST_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")


def test_commands_and_options() -> None:
    assert offered("") == list(COMMANDS)
    assert offered("che") == ["cheapest"]
    assert "--min-vram" in offered("cheapest", "--min")
    assert offered("alerts", "sil") == ["silence"]
    assert offered("--conf") == ["--config"]


@pytest.mark.parametrize(
    "words", [("nonsense", ""), ("nonsense", "--g", "x"), ("cheapest", "--no", "")]
)
def test_what_nobody_knows_is_no_mistake_while_it_is_typed(words: tuple[str, ...]) -> None:
    offered(*words)


@pytest.mark.parametrize(
    "command", [["cheapest"], ["history"], ["estimate"], ["own"], ["when"],
                ["compare", "H100", "A100"], ["month"], ["jobs", "show"]], ids=" ".join,
)  # fmt: skip
def test_jobs_by_name(command: list[str]) -> None:
    assert offered(*command, "bert-la") == ["bert-large"]


@pytest.mark.parametrize(
    "command", ["show", "ack", "eval", "test", "backtest", "history", "silence"]
)
def test_alert_rules_are_offered(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "gpucost.toml"
    config.write_text('[alerts.rules.mine]\nwhen = "cheapest"\n')
    monkeypatch.setenv("GPUCOST_CONFIG", str(config))
    found = offered("alerts", command, "")
    assert {"mine", "h100-cheaper-than-a100"} <= set(found)
    assert offered("alerts", command, "h100-ch") == ["h100-cheaper-than-a100"]


def test_kept_jobs_are_offered_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "mine.toml").write_text("")
    monkeypatch.setenv("GPUCOST_DATA_DIR", str(tmp_path))
    assert offered("cheapest", "mi") == ["mine"]


def test_a_file_is_left_to_the_shell() -> None:
    completer = BashComplete(cli, {}, "gpucost", "_GPUCOST_COMPLETE")
    assert [i.type for i in completer.get_completions(["cheapest"], "./some")] == ["file"]


def test_gpus() -> None:
    families = offered("offers", "--gpu", "")
    assert {"H100", "A100", "RTX4090"} <= set(families)
    assert "H100-SXM-80GB" not in families
    assert {"H100", "H100-SXM-80GB"} <= set(offered("offers", "--gpu", "h100"))
    assert offered("compare", "RTX409")[0] == "RTX4090"
    assert "H100" in offered("compare", "A100", "H1")


def test_a_list_goes_on_behind_its_comma_and_repeats_nothing() -> None:
    assert offered("offers", "--provider", "run") == ["runpod"]
    assert offered("offers", "--provider", "runpod,vas") == ["runpod,vastai"]
    assert offered("offers", "--provider", "runpod,run") == []
    assert "A100,H100" in offered("cheapest", "--gpu", "A100,h")
    assert "H100,A100" in offered("cheapest", "--compare", "H100,A1")
    assert offered("cheapest", "--market", "sp") == ["spot"]
    assert offered("cheapest", "--region", "us") == []


def test_columns_to_sort_by() -> None:
    assert offered("offers", "--sort", "pr") == ["provider", "price"]
    groups = ("offers", "--group-by", "tier", "--sort")
    assert offered(*groups, "m") == ["median", "max"]
    assert offered(*groups, "t") == ["tier"]


def test_providers() -> None:
    assert offered("provider", "check", "runp") == ["runpod"]
    assert "runpod" in offered("poll", "--provider", "")


def test_the_tiers_are_those_that_the_filter_takes() -> None:
    assert set(TIERS) == set(KNOWN_TIERS)


def test_a_configuration_that_is_wrong_spoils_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text("[aliases]\nx = 3\n")
    monkeypatch.setenv("GPUCOST_CONFIG", str(file))
    assert offered("cheapest", "bert-la") == ["bert-large"]
    assert offered("offers", "--gpu", "H1") == []
    assert offered("--config", str(file), "cheapest", "bert-la") == ["bert-large"]


@pytest.mark.parametrize("shell", ["zsh", "fish", "bash"])
def test_each_shell_gets_its_script(shell: str) -> None:
    done = run("completion", shell)
    assert (done.code, done.err) == (0, "")
    assert f"_GPUCOST_COMPLETE={shell}_complete" in done.out


def test_fish_keeps_the_commas_of_a_list() -> None:
    assert 'string split --max 1 "," $completion' in run("completion", "fish").out


def test_another_shell_is_refused() -> None:
    assert run("completion", "tcsh").code == 2


def in_bash(*words: str) -> list[str]:
    """What a real bash offers for these words, once it has the script."""
    script = f"""
eval "$("{COMMAND}" completion bash)"
complete -p gpucost >/dev/null || exit 9
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_gpucost_completion "{COMMAND}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", "gpucost", *words],
        capture_output=True, text=True, env=dict(os.environ), timeout=60, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split()


def test_in_bash() -> None:
    assert in_bash("che") == ["cheapest"]
    assert in_bash("cheapest", "bert-la") == ["bert-large"]
    assert in_bash("cheapest", "bert-large", "--gpu", "A100,H20") == ["A100,H200"]


def _offered_by(shell: str, script: str, words: tuple[str, ...], home: Path) -> list[str]:
    done = subprocess.run(
        [shell, *({"zsh": ["-f"], "fish": ["--no-config"]}[shell]), "-c", script, *words],
        capture_output=True, text=True, timeout=60, check=True,
        env={**os.environ, "PATH": f"{COMMAND.parent}:{os.environ['PATH']}", "HOME": str(home)},
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.splitlines()


# What zsh's own completion would call, told to print what it is given.
_ZSH = """
compdef() { [[ "$*" == "_gpucost_completion gpucost" ]] || exit 9 }
compadd() { print -rl -- "${completions[@]}" }
_describe() { print -rl -- "${completions_with_descriptions[@]%%:*}" }
eval "$(gpucost completion zsh)"
words=("$0" "$@"); CURRENT=$#words
_gpucost_completion
"""
_FISH = """
gpucost completion fish | source
complete --do-complete (string join -- " " $argv) | string replace --regex "\t.*" ""; true
"""
_ASKED = [
    (("che",), ["cheapest"]), (("cheapest", "bert-la"), ["bert-large"]),
    (("cheapest", "bert-large", "--gpu", "A100,H20"), ["A100,H200"]),
    (("provider", "check", "runp"), ["runpod"]),
]  # fmt: skip


@pytest.mark.parametrize(("words", "offered_"), _ASKED)
@pytest.mark.parametrize(("shell", "script"), [("zsh", _ZSH), ("fish", _FISH)])
def test_in_other_shells(
    tmp_path: Path, shell: str, script: str, words: tuple[str, ...], offered_: list[str]
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}: apt-get install {shell}")
    assert _offered_by(shell, script, ("gpucost", *words), tmp_path) == offered_


def test_nothing_heavy_is_imported_for_a_name() -> None:
    spy = (
        "import sys\nfrom tracker.cli.main import _run\n"
        "try: _run([])\nexcept SystemExit: pass\n"
        "heavy = {'sqlalchemy', 'psycopg', 'pydantic', 'rich', 'httpx', 'numpy', 'providers'}\n"
        "sys.exit(' '.join(heavy & sys.modules.keys()) or 0)"
    )
    asked = {"COMP_WORDS": "gpucost cheapest bert-large --gpu A100,H", "COMP_CWORD": "4"}
    done = subprocess.run(
        [sys.executable, "-c", spy], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, **asked, "_GPUCOST_COMPLETE": "bash_complete"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "plain,A100,H100" in done.stdout
