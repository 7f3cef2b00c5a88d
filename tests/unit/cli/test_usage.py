"""What `isvc` says of a command line that it does not understand: one line, with what to do; exit code 2."""

from __future__ import annotations

import pytest

from isvc.commands import COMMANDS, SECTIONS, main

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["rnu"], "isvc: No such command 'rnu'. Did you mean 'run'? See: isvc --help\n"),
        (["run"], "isvc: Missing argument 'FILE...'. See: isvc run --help\n"),
        (["run", "a.yaml", "--wacth"], "isvc: No such option '--wacth'. Did you mean '--watch'? "
         "See: isvc run --help\n"),
        (["run", "a.yaml", "--http-port=0"], "isvc: Invalid value for '--http-port': '0' is not a whole number from 1 "
         "to 65535. See: isvc run --help\n"),
        (["predict", "a", "--timeout=3601"], "isvc: Invalid value for '--timeout': '3601' is not a whole number from 1 "
         "to 3600. See: isvc predict --help\n"),
        (["logs", "a", "--tail=100001"], "isvc: Invalid value for '--tail': '100001' is not a whole number from 1 to "
         "100000. See: isvc logs --help\n"),
        (["migrate", "apply", "--parallel=21"], "isvc: Invalid value for '--parallel': '21' is not a whole number from "
         "1 to 20. See: isvc migrate apply --help\n"),
        (["migrate", "back", "--timeout=571"], "isvc: Invalid value for '--timeout': '571' is not a whole number from "
         "1 to 570. See: isvc migrate back --help\n"),
        (["logs", "a", "--since=0s"], "isvc: Invalid value for '--since': no line is that new; give a time of a second "
         "or more. See: isvc logs --help\n"),
        (["run", "a.yaml", "--pvc"], "isvc: Option '--pvc' requires an argument. See: isvc run --help\n"),
        (["run", "a.yaml", "--watch=yes"], "isvc: Option '--watch' does not take a value. See: isvc run --help\n"),
        (["migrate", "plan", "--context"], "isvc: Option '--context' requires an argument. "
         "See: isvc migrate plan --help\n"),
        (["--version=1"], "isvc: Option '--version' does not take a value. See: isvc --help\n"),
        (["predict", "http://a:80/v1"], "isvc: Invalid value for 'NAME': a URL is given by a flag; write isvc predict "
         "NAME --url http://HOST[:PORT]. See: isvc predict --help\n"),
        (["migrate", "plan", "x\n\x1b[31m"], "isvc: Got unexpected extra argument (x\\n\\x1b[31m) See: "
         "isvc migrate plan --help\n"),
    ],
    ids=["command", "argument", "option", "value", "bound", "lines", "services",
         "step", "no time", "no value", "a value too many", "below a group",
         "above all", "URL",
         "hostile"],
)  # fmt: skip
def test_a_command_line_that_is_wrong_is_one_line_and_exit_code_2(
    arguments: list[str], line: str, capsys: Captured
) -> None:
    assert main(arguments) == 2

    assert capsys.readouterr() == ("", line)


@pytest.mark.parametrize("arguments", [[], ["new"], ["migrate"]], ids=" ".join)
def test_without_a_command_the_commands_are_listed(arguments: list[str], capsys: Captured) -> None:
    assert main(arguments) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert "\nCommands:\n" in printed.err or "\nModels:\n" in printed.err


def test_help_has_one_line_for_each_command(capsys: Captured) -> None:
    assert main(["--help"]) == 0

    listed = capsys.readouterr().out.partition("\nModels:\n")[2].splitlines()
    names = [line.split()[0] for line in listed if line.startswith("  ")]
    assert names == [name for section in SECTIONS.values() for name in section]
    assert {*COMMANDS} - {*names} == {"operator"}


@pytest.mark.parametrize(
    ("arguments", "same"),
    [
        (["help"], ["--help"]),
        (["help", "run"], ["run", "--help"]),
        (["help", "migrate", "plan"], ["migrate", "plan", "-h"]),
        (["version"], ["--version"]),
        (["-V"], ["--version"]),
    ],
    ids=" ".join,
)
def test_help_and_version_are_found_where_people_look(arguments: list[str], same: list[str], capsys: Captured) -> None:
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert main(same) == 0

    assert printed == capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["help", "rnu"], "isvc: No such command 'rnu'. Did you mean 'run'? See: isvc --help\n"),
        (["help", "run", "fast"], "isvc: isvc run has no commands. See: isvc run --help\n"),
    ],
)
def test_there_is_no_help_for_what_is_no_command(arguments: list[str], line: str, capsys: Captured) -> None:
    assert main(arguments) == 2

    assert capsys.readouterr() == ("", line)


@pytest.mark.process
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_completes_isvc_in_a_shell(shell: str, capsys: Captured) -> None:
    assert main(["completion", shell]) == 0

    assert f"_ISVC_COMPLETE={shell}_complete" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "completed"),
    [("isvc val", "plain,validate\n"), ("isvc predict --port", "plain,--port-forward\n")],
    ids=["a command", "an option"],
)
def test_a_shell_gets_what_completes_a_word(
    words: str, completed: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    for name, value in {"_ISVC_COMPLETE": "bash_complete", "COMP_WORDS": words}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))

    with pytest.raises(SystemExit, match=r"^0$"):
        main([])

    assert capsys.readouterr().out == completed
