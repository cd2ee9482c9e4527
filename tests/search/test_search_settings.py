"""What a method says of its settings: one that plays no part is declared `idle`, and `footfall search` refuses it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from footfall import cli
from footfall.registry import create, declared, parts
from footfall.search.searcher import Searcher
from footfall.search.state import Course, Method, SearchState, roles_of, unused_by
from footfall.types import Judgement, Trajectory
from tests.search.coins import Coins, SeesCoins, problems

SEARCHERS = list(parts("searcher"))
SWITCHED = {"play": 2, "tau": 1.0, "entropy": 0.5, "penalty_times": 0}
"""Settings that are no choice among words, and yet others depend on them."""


class Unsure(SeesCoins):
    """Values in between, so that folds of them differ."""

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        said = super().judge(trajectories)
        return [replace(each, values=tuple(0.35 + (v or 0.0) / 2 for v in each.values)) for each in said]


def variants(name: str) -> Iterator[Any]:
    """The method as tests run it, and once more for each other value of a setting that is a choice."""
    plain = create("searcher", name, **declared("searcher", name).smoke)
    yield plain
    hints = get_type_hints(type(plain))
    for field in fields(plain):
        hint = hints[field.name]
        choices: tuple[Any, ...] = get_args(hint) if get_origin(hint) is Literal else ()
        choices = (True, False) if hint is bool else choices
        for other in (*choices, *(value for key, value in SWITCHED.items() if key == field.name)):
            if other == getattr(plain, field.name) or (field.name, other) in (("rule", "plan"),):
                continue
            try:
                made = replace(plain, **{field.name: other})
            except ValueError as refused:
                assert "weigh no vote" in str(refused)  # scores that can be negative, of a method that votes by them
                continue
            yield made
    if "play" in hints:
        yield replace(plain, play=2, tau=1.0)


def found_by(method: Any) -> list[Any]:
    """What the search decides: chosen traces, scores, decisions."""
    policy, roles = Coins(p=0.7), roles_of(method)
    searcher = Searcher(
        policy,
        Unsure() if method.judged else None,
        method,
        helpers=dict.fromkeys(roles.helpers, policy),
        judges=dict.fromkeys(roles.judges, Unsure()),
    )
    return [(result.chosen, result.scores, result.decisions) for result in searcher.solve(problems(3))]


def reads(method: Any) -> set[str]:
    """The settings that the method looks at while it searches."""
    seen: set[str] = set()
    names = {field.name for field in fields(method)}

    class Watched(type(method)):  # type: ignore[misc]
        name = "watched"

        def __getattribute__(self, name: str) -> Any:
            if name in names:
                seen.add(name)
            return super().__getattribute__(name)

    watched = object.__new__(Watched)
    watched.__dict__.update(method.__dict__)
    found_by(watched)
    return seen


NOT_REACHED = {"rest", "reply_tokens", "ask", "bins"}
"""Read in the middle of a step that was cut, of a critic that was asked, and under a plan: the coins have none of these."""


@pytest.mark.parametrize("name", SEARCHERS)
def test_a_setting_that_no_search_reads_is_declared_unused(name: str) -> None:
    for method in variants(name):
        settings = {field.name for field in fields(method)}
        assert settings - reads(method) - NOT_REACHED <= unused_by(method), method.name


def others(method: Any, setting: str) -> Iterator[Any]:
    """The method with other values of a setting, as far as it takes them."""
    hint, now = get_type_hints(type(method))[setting], getattr(method, setting)
    values: tuple[Any, ...] = (0.123, now + 0.01, now - 0.2) if isinstance(now, float) else (1, 3)
    values = (frozenset(),) if setting == "ask" else ("policy",) if hint is str else values
    for value in get_args(hint) if get_origin(hint) is Literal else values:
        with suppress(ValueError, TypeError):
            yield replace(method, **{setting: value})


@pytest.mark.parametrize("name", SEARCHERS)
def test_a_setting_that_is_declared_unused_changes_nothing(name: str) -> None:
    for method in variants(name):
        before = found_by(method)
        for setting in unused_by(method):
            assert all(found_by(other) == before for other in others(method, setting)), (method.name, setting)


@pytest.mark.parametrize("name", SEARCHERS)
def test_step_values_are_folded_as_asked_or_the_option_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--aggregate` changes what is decided for every method that takes it; all others say so in one line."""
    method = create("searcher", name, **declared("searcher", name).smoke)
    taken = "aggregation" in {field.name for field in fields(method)} - unused_by(method)
    if taken:
        said = [found_by(replace(method, aggregation=how)) for how in ("mean", "prod")]
        assert said[0] != said[1]
        return
    words = ["search", "--problems", "world:arithmetic:2", "--policy", "scripted-arithmetic", "--method", name]
    assert cli.main([*words, "--aggregate", "prod", "--out", str(tmp_path / "run")]) == 2
    shown = capsys.readouterr()
    assert "--aggregate" in shown.err and shown.err.count("\n") == 1 and not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--method", "majority", "--aggregate", "prod"], "'majority' has no use for --aggregate as it is set"),
        (["--method", "majority", "--set", "aggregation=min"], "'majority' has no use for --aggregate"),
        (["--method", "mcts", "--set", "tau=1"], "'mcts' has no use for --set tau=… as it is set: mcts(paths=16"),
        (["--method", "mcts", "--set", "play=4", "paths=3"], "no use for --set paths=…"),
        (["--method", "self-consistency", "--set", "stop=window", "confidence=0.9"], "--set confidence=…"),
        (["--method", "majority", "--n", "2", "--helper", "big=scripted-arithmetic"], "asks nobody in the role 'big'"),
        (["--method", "best-of-n", "--judge", "formal", "--judge-role", "x=formal"], "asks nobody in the role 'x'"),
    ],
)
def test_what_a_method_has_no_use_for_is_refused(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = ["--problems", "world:arithmetic:2", "--policy", "scripted-arithmetic", "--out", str(tmp_path / "run")]
    assert cli.main(["search", *source, *words]) == 2
    shown = capsys.readouterr()
    assert said in shown.err and shown.out == "" and not (tmp_path / "run").exists()


def test_a_majority_vote_shows_no_aggregate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = ["--problems", "world:arithmetic:2", "--policy", "scripted-arithmetic", "--out", str(tmp_path)]
    assert cli.main(["search", *source, "--method", "majority"]) == 0
    assert "aggregate" not in capsys.readouterr().out
    assert ">aggregate<" not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_method_that_says_nothing_uses_all_its_settings() -> None:
    class Silent:
        name = "silent"
        judged = False

        def search(self, state: SearchState) -> Course:
            raise NotImplementedError

    method: Method = Silent()
    assert unused_by(method) == frozenset()
