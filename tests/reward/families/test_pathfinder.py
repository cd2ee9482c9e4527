"""PathFinder-PRM: two marks a step, then a value for the steps whose marks are good, against the slow reference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from footfall.judging import traits
from footfall.registry import create
from footfall.reward.checkpoint import checkpoint, to_train
from footfall.reward.families.pathfinder import NOT_AFTER_ERROR, TwoPassJudge
from footfall.train import TrainConfig, train_prm
from footfall.train.data import make_examples
from footfall.train.marked import by_own_marks, reads_by_own_marks
from footfall.train.objectives import fitted_to, make_objective
from footfall.train.trainer import evaluate
from footfall.types import Judged, Judgement
from tests.reward.families.reference import QUESTION, STEPS, TOLERANCE, next_logits, trace
from tests.reward.tiny_checkpoints import qwen_tokenizer, random_linear, save_checkpoint

torch.set_num_threads(1)

TOKENS = ("<+>", "<->", "<extra>")
LONG = (*STEPS, "But 16 - 3 - 4 = 8.", "Hmm <extra>, Consistency: <->", "", "So\n\nit is 9.")
INSTRUCTION = (
    "You are a Math Teacher. Given a question and a student's solution, evaluate the mathematical correctness, logic "
    "consistency of the current step and whether it will lead to the correct final solution"
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    folder = tmp_path_factory.mktemp("pathfinder")
    tokenizer = qwen_tokenizer(*TOKENS)
    model = save_checkpoint(folder, "qwen2", tokenizer, seed=10)
    return folder, model, tokenizer


def before_holders(model: Any, tokenizer: Any, steps: list[str], end: str) -> list[float]:
    """p(<+>) of the pair at the token before each place holder; user text has no place holders here."""
    answer = "\n\n".join([*steps[:-1], f"Current Step: {steps[-1]}{end}"])
    turns = [
        {"role": "user", "content": f"{INSTRUCTION}\n\n Question: {QUESTION}"},
        {"role": "assistant", "content": answer},
    ]
    ids = tokenizer.encode(tokenizer.apply_chat_template(turns, tokenize=False), add_special_tokens=False)
    good, bad, holder = (tokenizer.convert_tokens_to_ids(t) for t in TOKENS)
    at = [i - 1 for i, token in enumerate(ids) if token == holder]
    return [float(p) for p in next_logits(model, ids)[at][:, [good, bad]].softmax(-1)[:, 0]]


def reference(model: Any, tokenizer: Any, steps: list[str]) -> tuple[list[float], float]:
    marks = before_holders(model, tokenizer, steps, " Math reasoning: <extra>, Consistency: <extra>")
    if min(marks) < 0.5:
        return marks, -1.0
    end = " Math reasoning: <+>, Consistency: <+>, Correctness: <extra>"
    return marks, before_holders(model, tokenizer, steps, end)[0]


def clean(steps: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(s for s in steps if "<" not in s)


def test_each_step_is_marked_and_valued_as_by_two_passes_over_its_prefix(tiny: tuple[Path, Any, Any]) -> None:
    folder, model, tokenizer = tiny
    steps = clean(LONG)
    expected = [reference(model, tokenizer, list(steps[: k + 1])) for k in range(len(steps))]
    judgement = checkpoint(folder).judge([trace(*steps)])[0]
    assert {value == -1.0 for _, value in expected} == {True, False}, "the tiny model must both pass and fail steps"
    assert judgement.values == pytest.approx([value for _, value in expected], abs=TOLERANCE)
    for n, name in enumerate(("math", "consistency")):
        assert judgement.aspects[name] == pytest.approx([marks[n] for marks, _ in expected], abs=TOLERANCE)
    assert [c is None for c in judgement.aspects["correctness"]] == [value == -1.0 for _, value in expected]


def test_the_threshold_lies_between_a_failed_step_and_any_value(tiny: tuple[Path, Any, Any]) -> None:
    """The authors' ProcessBench script looks at the marks only: the first step with a bad one is the error."""
    folder, *_ = tiny
    judge: Any = checkpoint(folder)
    judgement = judge.judge([trace(*LONG)])[0]
    threshold = traits(judge).threshold
    assert threshold == 0.0
    assert judgement.first_below(threshold) == judgement.values.index(-1.0)


def test_stopping_at_the_first_error_says_so_of_the_steps_after_it(tiny: tuple[Path, Any, Any]) -> None:
    folder, *_ = tiny
    every = checkpoint(folder).judge([trace(*LONG)])[0]
    stopped = create("reward", "pathfinder", path=folder, judge_all=False).judge([trace(*LONG)])[0]
    first = every.values.index(-1.0)
    assert stopped.values[: first + 1] == every.values[: first + 1]
    assert set(stopped.values[first + 1 :]) == {None} and set(stopped.failures[first + 1 :]) == {NOT_AFTER_ERROR}
    assert stopped.judge != every.judge


def test_batches_order_and_a_cache_change_nothing_and_the_cache_makes_the_second_pass_cheap(
    tiny: tuple[Path, Any, Any],
) -> None:
    folder, *_ = tiny
    traces = [trace(*LONG[: 1 + n], id=f"t{n}") for n in range(len(LONG))]
    alone = [checkpoint(folder).judge([t])[0] for t in traces[:3]]
    together = checkpoint(folder, token_budget=100_000).judge(traces[::-1])[::-1]
    cached = checkpoint(folder, cache_tokens=100_000).judge(traces)
    for one, many, kept in zip(alone, together, cached, strict=False):
        assert one.values == pytest.approx(many.values, abs=TOLERANCE)
        assert one.values == pytest.approx(kept.values, abs=TOLERANCE)
    assert sum(j.cost.scored_tokens for j in cached) < 0.75 * sum(j.cost.scored_tokens for j in together)


def test_a_step_that_does_not_fit_is_an_error_or_a_reason(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, "qwen2", qwen_tokenizer(*TOKENS), seed=5, max_position_embeddings=480)
    steps = ("Short.", "x" * 200, "Never reached.")
    with pytest.raises(ValueError, match=r"step 2 makes .* tokens, pathfinder-prm@.* takes 480"):
        checkpoint(tmp_path).judge([trace(*steps)])
    judgement = checkpoint(tmp_path, too_long="partial").judge([trace(*steps)])[0]
    assert [v is None for v in judgement.values] == [False, True, True]
    assert "does not fit in a context of 480" in str(judgement.failures[1])


def test_a_trace_without_steps_gets_no_values(tiny: tuple[Path, Any, Any]) -> None:
    folder, *_ = tiny
    assert checkpoint(folder).judge([trace().prefix(0)])[0].values == ()


def test_another_checkpoint_is_refused(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "plain", "qwen2", qwen_tokenizer())
    with pytest.raises(ValueError, match="'<\\+>' is not one token"):
        checkpoint(tmp_path / "plain", family="pathfinder-prm")
    save_checkpoint(tmp_path / "head", "qwen2", qwen_tokenizer(*TOKENS), head={"score.weight": random_linear(2)})
    with pytest.raises(ValueError, match=r"it has a tensor score\.weight"):
        checkpoint(tmp_path / "head", family="pathfinder-prm")


@pytest.mark.long
def test_it_is_trained_by_its_value_given_good_marks_and_read_in_two_passes_again(
    tiny: tuple[Path, Any, Any], tmp_path: Path
) -> None:
    rows = []
    for i in range(24):
        good = [(i * 7 + k * 3 + i // 3) % 3 != 0 for k in range(1 + i % 2)]
        made = replace(trace(*("ok" if g else "no" for g in good)), id=f"t{i}")
        rows.append(Judged(made, Judgement(made.id, tuple(map(float, good)), "toy")))
    config = TrainConfig(lr=3e-3, epochs=4, batch_size=8, eval_share=0.0, device="cpu")
    result = train_prm(rows, tiny[0], config, tmp_path / "run")
    assert result.curve[-1][1] < result.curve[0][1]
    judge = checkpoint(result.folder, device="cpu")
    assert isinstance(judge, TwoPassJudge) and judge.name.startswith("pathfinder-prm@")
    (said,) = judge.judge([trace("ok", "no")])
    assert set(said.aspects) == {"math", "consistency", "correctness"}
    with pytest.raises(ValueError, match="no value at the prompt's end"):
        checkpoint(result.folder, device="cpu", initial=True)


# -- training of both passes


def typed_rows(n: int = 24) -> list[Judged]:
    """`sum` is a bad sum, `odd` does not fit what stands before; a step is good if and only if it says `ok`."""
    rows = []
    for i in range(n):
        kinds = [("ok", "sum", "odd")[(i * 7 + k + i // 3) % 3] for k in range(1 + i % 2)]
        t = replace(trace(*kinds), id=f"t{i}")
        t = replace(t, problem=replace(t.problem, id=f"p{i // 2}", prompt=f"q{i // 2}"))
        aspects = {
            "math": tuple(float(k != "sum") for k in kinds),
            "consistency": tuple(float(k != "odd") for k in kinds),
        }
        rows.append(Judged(t, Judgement(t.id, tuple(float(k == "ok") for k in kinds), "toy", aspects=aspects)))
    return rows


def test_two_examples_a_step_with_two_and_one_supervised_places(tiny: tuple[Path, Any, Any]) -> None:
    folder, _, tokenizer = tiny
    model = to_train(folder, None, torch.float32)
    assert model is not None
    objective = fitted_to(make_objective("error-types", {}), model.readout)
    row = next(row for row in typed_rows() if [s.text for s in row.trajectory.steps] == ["odd", "ok"])
    first, second, third, fourth = make_examples([row], model, objective, "error")[0]
    assert [len(e.reading.positions) for e in (first, second, third, fourth)] == [2, 1, 2, 1]
    assert (first.targets, second.targets, third.targets, fourth.targets) == ((1, 0), (0,), (1, 1), (1,))
    good, bad, holder = (tokenizer.convert_tokens_to_ids(t) for t in TOKENS)
    assert [i for i in first.reading.ids if i in (good, bad, holder)] == [holder, holder]
    assert [i for i in second.reading.ids if i in (good, bad, holder)] == [good, bad, holder], "the marks are given"
    assert all(second.reading.ids[p + 1] == holder for p in second.reading.positions)
    told = row.judgement
    assert told is not None
    wrong = [Judged(row.trajectory, replace(told, values=(1.0, 1.0)))]
    with pytest.raises(ValueError, match="step 1: the label is good and a mark is bad"):
        make_examples(wrong, model, objective, "error")


def test_held_out_steps_are_valued_given_the_model_s_own_marks_and_not_the_labelled_ones(
    tiny: tuple[Path, Any, Any],
) -> None:
    """Rows whose labelled marks are turned round have the same values: labels tell a held-out step nothing."""
    folder, _, tokenizer = tiny
    model = to_train(folder, None, torch.float32)
    assert model is not None
    objective = fitted_to(make_objective("error-types", {}), model.readout)

    def held(bad: bool) -> list[Any]:
        zeros = [Judged(t, replace(said, values=(0.0,) * len(said.values),
                                   aspects={n: tuple(1 - (v or 0) if bad else v for v in c) for n, c in said.aspects.items()}))
                 for t, said in typed_rows() if said is not None]  # fmt: skip
        return [e for e in make_examples(zeros, model, objective, "error")[0] if not e.marks]

    one, other = held(False), held(True)
    assert [e.reading.ids for e in one] != [e.reading.ids for e in other], "training tells the value the labelled marks"
    assert evaluate(model, one, objective) == evaluate(model, other, objective)
    judge: Any = checkpoint(folder)
    good, bad = (tokenizer.convert_tokens_to_ids(t) for t in TOKENS[:2])
    for example, said in zip(by_own_marks(model, one), judge.judge([e.trajectory for e in one]), strict=True):
        marks = [(said.aspects[name][-1] or 0) >= 0.5 for name in ("math", "consistency")]
        assert [i == good for i in example.reading.ids if i in (good, bad)] == marks
        if all(marks):
            assert model.score([example.reading])[0] == pytest.approx((said.aspects["correctness"][-1],), abs=TOLERANCE)
    trace_reads = reads_by_own_marks(model, [one[1].trajectory])
    assert trace_reads[0][-1] == by_own_marks(model, one)[1].reading


@pytest.mark.long
def test_typed_errors_are_learned_and_published_for_the_family_s_reader(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "lm", "qwen2", qwen_tokenizer(), seed=1)
    config = TrainConfig("error-types", lr=3e-3, epochs=12, batch_size=8, eval_share=0.2, device="cpu")
    result = train_prm(typed_rows(), tmp_path / "lm", replace(config, as_family="pathfinder-prm"), tmp_path / "run")
    ours, theirs = (checkpoint(f, device="cpu") for f in (result.folder, tmp_path / "run" / "published"))
    kinds = {row.trajectory.steps[0].text: row.trajectory.prefix(1) for row in typed_rows()}
    given = [kinds[name] for name in ("ok", "sum", "odd")]
    said = ours.judge(given)
    assert isinstance(theirs, TwoPassJudge) and isinstance(ours, TwoPassJudge)
    for own, read in zip(said, theirs.judge(given), strict=True):
        assert read.values == pytest.approx(own.values, abs=1e-5)
    assert said[0].values[0] is not None and said[0].values[0] > 0.5
    assert [each.values[0] for each in said[1:]] == [-1.0, -1.0]
    marks = [{name: (each.aspects[name][0] or 0) > 0.5 for name in ("math", "consistency")} for each in said]
    assert marks[1] == {"math": False, "consistency": True} and marks[2] == {"math": True, "consistency": False}


def test_labels_of_marks_are_refused_by_a_prm_without_marks(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "lm", "qwen2", qwen_tokenizer(), seed=1)
    with pytest.raises(
        ValueError, match=r"error-types trains PRMs that mark the math and the consistency .* pathfinder-prm"
    ):
        train_prm(typed_rows(), tmp_path / "lm", TrainConfig("error-types", device="cpu"), tmp_path / "run")
    plain = [Judged(row.trajectory, Judgement(row.trajectory.id, (1.0,) * len(row.trajectory.steps), "toy"))
             for row in typed_rows()]  # fmt: skip
    config = TrainConfig("error-types", as_family="pathfinder-prm", device="cpu")
    with pytest.raises(ValueError, match="learns from the aspect 'math' too"):
        train_prm(plain, tmp_path / "lm", config, tmp_path / "as")
