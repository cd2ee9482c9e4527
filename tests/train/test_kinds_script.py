"""Kinds of PRMs on a real model, in small: every kind is trained on the same rows, scored, and compared case by case."""

from __future__ import annotations

import gzip
import json
import math
from argparse import Namespace
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from footfall.formats import read_parquet, write_parquet
from footfall.gguf import gguf_tokenizer
from footfall.loading import load_model
from footfall.policy.torch_policy import TorchPolicy
from footfall.reward.generative.critic import Chain, Request
from footfall.types import Cost, Judged, Step, Trajectory
from scripts import kinds, kinds_data, kinds_measure, loop, loop_files, loop_measure
from scripts.smol_rows import make_row
from tests.test_gguf import write_gguf
from tests.train.test_loop import prepared, rows

__all__ = ["prepared"]
BOXES = ["\\boxed{correct}", "\\boxed{incorrect}"]
SPLITS = ("gsm8k", "math", "olympiadbench", "omnimath")


def saved(folder: Path, tokenizer: Any, tied: bool, write: bool = False) -> Path:
    """A tiny Qwen2; one that is to `write` says `correct` and `incorrect` in boxes and ends, by its last token alone."""
    tokenizer.add_tokens([*BOXES, " yes", " no"])  # what a critic says must begin with two tokens
    torch.manual_seed(0)
    make: Any = Qwen2ForCausalLM
    model = make(Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=2048, tie_word_embeddings=tied,
        eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"),
    ))  # fmt: skip
    if write:
        right, wrong = tokenizer.convert_tokens_to_ids(BOXES)
        chances = [{right: 0.8, wrong: 0.2}, {right: 0.3, wrong: 0.3, model.config.eos_token_id: 0.4}]
        with torch.no_grad():
            for layer in model.model.layers:
                layer.self_attn.o_proj.weight.zero_()
                layer.mlp.down_proj.weight.zero_()
            model.model.embed_tokens.weight.zero_()[:, 0] = 1
            model.lm_head.weight.zero_()
            for channel, (token, after) in enumerate(
                ((None, chances[0]), (right, chances[1]), (wrong, {model.config.eos_token_id: 1.0}))
            ):
                if token is not None:
                    model.model.embed_tokens.weight[token] = torch.eye(64)[channel]
                for word, chance in after.items():  # the norm makes a state of one 1 one of one 8
                    model.lm_head.weight[word, channel] = (22 + math.log(chance)) / 8
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_matrix_that_a_file_holds_twice_is_one_again_and_two_stay_two(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "tiny.gguf", "qwen2")
    model, _ = load_model(file, "cpu", torch.float32)
    kinds.tie_again(model)
    assert not model.config.tie_word_embeddings
    with torch.no_grad():
        model.lm_head.weight.copy_(model.model.embed_tokens.weight * 1.001)
    wanted = model.lm_head.weight.detach().clone()
    kinds.tie_again(model)
    assert model.config.tie_word_embeddings and model.lm_head.weight is model.model.embed_tokens.weight
    assert torch.equal(model.lm_head.weight, wanted)
    args = Namespace(model=str(file), out=tmp_path, device="cpu")
    folder = kinds.unpacked(args)
    assert kinds.unpacked(args) == folder and not list(tmp_path.glob("*.begun"))
    begun = tmp_path / "model-tiny-1.5b.begun"  # what a killed process left
    (begun / "old").mkdir(parents=True)
    other = Namespace(**{**vars(args), "model": str(file.rename(tmp_path / "tiny-1.5b.gguf"))})
    assert kinds.unpacked(other) == str(tmp_path / "model-tiny-1.5b") and not begun.exists()
    assert not (tmp_path / "model-tiny-1.5b" / "old").exists()
    file = Path(other.model)
    ours, theirs = load_model(folder, "cpu", torch.float32)[0], load_model(file, "cpu", torch.float32)[0]
    ids = torch.arange(5)[None]
    assert torch.allclose(ours(ids).logits, theirs(ids).logits, atol=0.1)


def test_a_false_equation_is_an_error_of_mathematics_and_any_other_of_consistency() -> None:
    given = [
        make_row("a", "How much is 2 + 3?", ["2 + 3 = 6"], [0.0], "x"),
        make_row("b", "How much is 2 + 3?", ["2 + 3 = 5", "So we buy six."], [1.0, 0.0], "x"),
    ]
    found = [row.judgement for row in kinds_data.typed_rows(given)]
    assert [said and (said.values, said.aspects["math"], said.aspects["consistency"]) for said in found] == [
        ((0.0,), (0.0,), (1.0,)), ((1.0, 0.0), (1.0, 1.0), (1.0, 0.0)),
    ]  # fmt: skip


def test_chains_of_right_and_wrong_solutions_are_as_many_while_there_are_both() -> None:
    given = rows("x", [f"What is {n}?" for n in range(4)])  # wrong and right in turn
    names = [row.trajectory.id for row in kinds_data.chosen_chains(given, 4)]
    assert names == ["x-0-0", "x-0-1", "x-1-0", "x-1-1"]
    mostly_right = [row for row in given if row.trajectory.id.endswith("1") or row.trajectory.id == "x-3-0"]
    chosen = [row.trajectory.id for row in kinds_data.chosen_chains(mostly_right, 4)]
    assert len(chosen) == 4 and "x-3-0" in chosen
    none = [Judged(row.trajectory, row.judgement and replace(row.judgement, values=(None, None))) for row in given]
    assert kinds_data.chosen_chains(none, 4) == []


def chain(verdicts: tuple[bool, ...]) -> Chain:
    return Chain(Request(()), "", 0, 2, verdicts, None, Cost(generated_tokens=3))


def test_a_chain_speaks_up_to_its_first_error_and_one_with_too_many_verdicts_not_at_all(tmp_path: Path) -> None:
    said = kinds_data.verified([chain((True, False, True)), chain((True,) * 4), chain(()), chain((True, True))], 3)
    assert said == kinds_data.Verified(((True, False), None, None, (True, True)), 12)
    assert kinds_data.mean_verdicts(said.chains, 3) == [1.0, 0.5, None]
    assert kinds_data.mean_verdicts((None,), 2) == [None, None]
    loop_files.keep_lines(tmp_path / "c.gz", kinds_data.verified_lines({("math", "m"): said}))
    assert kinds_data.verified_of(tmp_path / "c.gz") == {("math", "m"): said}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Forty cases a split, half of them with a wrong second step, and eight held-out rows."""
    (tmp_path / "processbench").mkdir()
    for split in SPLITS:
        cases = [
            {"id": f"{split}-{k}", "problem": f"What is {k} and {k}?", "steps": ["a", "b", "c"], "label": 1 if k % 2 else -1,
             "generator": "g", "final_answer_correct": not k % 2} for k in range(40)
        ]  # fmt: skip
        (tmp_path / "processbench" / f"{split}.json.gz").write_bytes(gzip.compress(json.dumps(cases).encode()))
    (tmp_path / "rows").mkdir()
    write_parquet(
        tmp_path / "rows" / "held-out.parquet", rows("held", [f"What is {n} plus 1?" for n in range(4)]), "judged"
    )
    return tmp_path


def known(out: Path, name: str, values: dict[str, float], every: int = 1, **facts: Any) -> None:
    """A PRM that gives the wrong steps of each split this value and all others 0.9, at a threshold of one half."""
    given = {"kind": "ce", "model": "m", "labels": {"gold": {"traces": 7}}, "validation": {"threshold": 0.5}, **facts}
    loop_files.keep(out / f"prm-{name}" / "facts.json", given)
    loop_files.keep_lines(out / f"scores-{name}-processbench.jsonl.gz", [
        {"id": f"{split}-{k}", "split": split, "scores": [0.9, values[split] if k % 2 else 0.9, 0.9]}
        for split in SPLITS for k in range(0, 40, every)
    ])  # fmt: skip


def test_a_kind_is_held_against_the_one_beside_it_on_the_cases_that_both_have(out: Path) -> None:
    known(out, "ce", dict.fromkeys(SPLITS, 0.1) | {"math": 0.8, "omnimath": 0.8})
    known(out, "pqm", dict.fromkeys(SPLITS, 0.1) | {"gsm8k": 0.8}, every=3, beside="ce", kind="pqm")
    found = kinds_measure.evaluate(out, out, seed=0)
    ce, pqm = (found[name]["processbench"] for name in ("ce", "pqm"))
    assert ce["cases"] == 160 and "difference" not in ce and ce["figures"]["mean"]["f1"][0] == 50.0
    assert pqm["cases"] == pqm["common cases"] == 56 and pqm["figures"]["mean"]["f1"][0] == 75.0
    assert {split: each[0] for split, each in pqm["difference"].items()} == {
        "gsm8k": -100.0, "math": 100.0, "olympiadbench": 0.0, "omnimath": 100.0, "mean": 25.0,
    }  # fmt: skip
    assert pqm["difference"]["olympiadbench"] == [0.0, 0.0, 0.0], "resampled together"
    table = kinds_measure.tables(found)
    assert (
        "| pqm | 7 |" in table and "| ce: +25.0 [25.0, 25.0] | 100.0 [100.0, 100.0] | +0.0 [0.0, 0.0] | 56 |" in table
    )


def test_kinds_and_prms_of_the_loop_are_evaluated_in_one_folder_each_by_its_own_script(out: Path) -> None:
    known(out, "ce", dict.fromkeys(SPLITS, 0.1), config={"seed": 0})
    loop_files.keep(out / "prm-base" / "facts.json", {"kind": "untrained", "model": "m", "labels": {}})
    loop_files.keep(
        out / "prm-own" / "facts.json", {"labels": {}, "validation": {"threshold": 0.5}, "config": {"seed": 0}}
    )
    loop_files.keep(out / "evaluate.json", {"own": 1})
    kinds.main(["evaluate", "--data", str(out), "--out", str(out)])
    assert set(loop_files.kept(out / "evaluate-kinds.json")) == {"ce"}
    assert loop_files.kept(out / "evaluate.json") == {"own": 1}, "of the loop"
    (out / "scores-ce-processbench.jsonl.gz").unlink()
    assert set(loop_measure.evaluate(out, out, seed=0)) == {"ce", "own"}


def test_more_chains_are_voted_on_at_a_threshold_of_their_own(out: Path) -> None:
    """One chain in four is wrong about every step; of four, most are right, at a threshold above that of the majority."""
    loop_files.keep(out / "prm-think" / "facts.json", {"kind": "thinkprm", "model": "m", "labels": {}})
    held = read_parquet(out / "rows" / "held-out.parquet", "judged")
    cases = [(split, f"{split}-{k}", k % 2 == 1, 3) for split in SPLITS for k in range(40)]
    cases += [(kinds_measure.HELD, row.trajectory.id, row.trajectory.id.endswith("0"), 2) for row in held]
    lines: list[dict[str, Any]] = []
    for n, (split, id, wrong, steps) in enumerate(cases):
        true = "10" if wrong else "1" * steps
        chains = ["0" if n % 4 == j else true for j in range(4)]
        lines.append({"id": id, "split": split, "chains": chains, "tokens": 40})
    lines[5]["chains"][0] = None
    loop_files.keep_lines(out / "chains-think-processbench.jsonl.gz", lines)
    found = kinds_measure.evaluate(out, out, seed=0)
    assert set(found) == {"think, 1", "think, 4"}, "nobody wrote sixteen"
    beside = partial(kinds_measure.beside, facts={"beside": "base"}, known=("base, 1", "base, 4", "ce"))
    assert [beside(name) for name in ("think, 1", "think, 16", "ce")] == ["base, 1", "base, 4", "base, 4"]
    assert kinds_measure.beside("pqm", {"beside": "ce"}, ["ce"]) == "ce"
    assert kinds_measure.beside("ce", {}, ["ce"]) == ""
    one, four = (found[f"think, {k}"]["processbench"] for k in (1, 4))
    assert four["figures"]["mean"]["f1"][0] == 100.0 > one["figures"]["mean"]["f1"][0]
    assert 0.25 < four["threshold"] < 0.75 and four["tokens a trace"] == 40 and one["tokens a trace"] == 10
    assert one["with a verdict"] == pytest.approx(1 - 1 / len(cases), abs=1e-4)
    gained = round(four["figures"]["mean"]["f1"][0] - one["figures"]["mean"]["f1"][0], 2)
    assert four["− one chain"]["mean"][0] == gained and "− one chain" not in one
    assert f"| one chain: +{gained:.1f} [" in kinds_measure.tables(found)


@pytest.mark.parametrize("there", [SPLITS, (kinds_measure.HELD,)])
def test_a_judge_that_was_stopped_before_it_has_a_threshold_or_a_case_is_left_out_of_the_figures(
    there: tuple[str, ...], out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known(out, "ce", dict.fromkeys(SPLITS, 0.1))
    held = [row.trajectory.id for row in read_parquet(out / "rows" / "held-out.parquet", "judged")]
    keys = [(split, f"{split}-{k}") for split in SPLITS for k in range(8)] + [(kinds_measure.HELD, id) for id in held]
    said = {key: kinds_data.Verified(((True,),), 5) for key in keys if key[0] in there}
    loop_files.keep(out / "prm-think" / "facts.json", {"kind": "thinkprm", "model": "m", "labels": {}})
    loop_files.keep_lines(out / "chains-think-processbench.jsonl.gz", kinds_data.verified_lines(said))
    assert list(kinds_measure.evaluate(out, out, seed=0)) == ["ce"]
    assert "think: its verifications" in capsys.readouterr().err


def test_what_is_stored_gives_the_same_figures(out: Path) -> None:
    known(out, "ce", dict.fromkeys(SPLITS, 0.1))
    known(out, "pqm", dict.fromkeys(SPLITS, 0.8), beside="ce")
    pool = [
        Trajectory(f"{p}-{k}", make_row("p", f"What is {p}?", ["a", "b"], [1.0, 1.0], "x").trajectory.problem,
                   (Step("a"), Step("b"), Step("c")), answer=str(k), correct=k == 1)
        for p in range(5) for k in range(3)
    ]  # fmt: skip
    pool = [replace(t, problem=replace(t.problem, id=t.id.split("-")[0], answer="1")) for t in pool]
    write_parquet(out / "sample-math-500.parquet", pool, "trajectory")
    for name, right in (("ce", [0.8, 0.9, 0.7]), ("pqm", [0.8, 0.1, 0.2])):
        lines = [
            {"id": t.id, "split": "math-500", "scores": right if t.correct else [0.6, 0.4, 0.5 + 0.3 * (name == "pqm")]}
            for t in pool
        ]
        loop_files.keep_lines(out / f"scores-{name}-math-500.jsonl.gz", lines)
    found = kinds_measure.evaluate(out, out, seed=0)
    assert found["ce"]["math-500"]["accuracy"]["best of N, min"][0] == 100.0
    assert found["pqm"]["math-500"]["difference"]["best of N, last"][0] == -100.0
    loop.main(["thin", "--out", str(out), "--sets", "math-500"])
    kinds.main(["store", "--out", str(out), "--to", str(out / "kept")])
    assert kinds_measure.evaluate(out / "kept", out, seed=0) == found
    (scores,) = {tuple(v) for k, v in loop_files.scores_of(out / "kept" / "scores-ce-math-500.jsonl.gz").items()
                 if k[1] == "0-1"}  # fmt: skip
    assert scores == (0.7, 0.7)
    assert "**math-500**" in kinds_measure.tables(found)


def test_a_stage_says_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for stage, needed in (("train", "--model and --kind"), ("train --then-score", "--model and --data and --kind"),
                          ("verify", "--model and --data"), ("evaluate", "--data"), ("store", "--to")):  # fmt: skip
        with pytest.raises(SystemExit):
            kinds.main([*stage.split(), "--out", str(tmp_path)])
        assert f"the stage {stage.split()[0]} needs {needed}" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        kinds.main(
            ["train", "--kind", "thinkprm", "--then-score", "--model", "m", "--data", "d", "--out", str(tmp_path)]
        )
    assert "a judge that writes does so in the stage verify" in capsys.readouterr().err
    loop_files.keep(tmp_path / "prm-prm" / "facts.json", {"kind": "thinkprm", "against": ["math-500"]})
    with pytest.raises(SystemExit, match="may have seen problems of processbench"):
        kinds.main(["verify", "--model", "m", "--data", "d", "--out", str(tmp_path)])


def test_a_judge_that_writes_takes_as_many_rows_as_it_is_told(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside trainings it has to leave them memory."""

    def ended(*words: object, **given: object) -> None:
        raise SystemExit([*words, given.get("rows")])

    monkeypatch.setattr(kinds, "unpacked", lambda args: "folder")
    monkeypatch.setattr(kinds, "lessons_of", lambda args: Namespace(rows=rows("x", ["What is 1?"])))
    monkeypatch.setattr(TorchPolicy, "load", ended)
    monkeypatch.setattr(loop, "command", ended)
    for stage, told, wanted in (("verify", ["--told"], 7), ("chains", [], "folder,rows=7")):
        with pytest.raises(SystemExit) as found:
            kinds.main([stage, *told, "--model", "m", "--data", str(out), "--out", str(out), "--at-once", "7"])
        assert wanted in found.value.args[0]


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_who_reads_backwards_learns_from_whole_solutions_and_all_others_from_what_ends_at_the_error(
    kind: str, prepared: tuple[list[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The threshold of a kind is chosen on held-out rows of the same form."""
    shared, out = prepared

    def given(name: str, first: int, after: list[str]) -> list[Judged]:
        return [make_row(f"{name}{n}", f"What is {n} plus 1?", ["a", "b"], [1.0, n % 2], "x", [] if n % 2 else after)
                for n in range(first, first + 8)]  # fmt: skip

    for name, first in (("gold", 0), ("held-out", 20)):
        write_parquet(out / "rows" / f"{name}.parquet", given(name, first, ["c", "d"]), "judged")
    found: list[Any] = []

    def validate(judge: Any, held: list[Judged], seed: int) -> Namespace:
        found.append(held)
        return Namespace(_asdict=dict)

    monkeypatch.setattr(kinds, "unpacked", lambda args: "folder")
    monkeypatch.setattr(kinds, "train_prm", lambda rows, *_, **__: found.append(rows))
    monkeypatch.setattr(kinds, "trained_facts", lambda result: {})
    monkeypatch.setattr(kinds, "opened", lambda *_: None)
    monkeypatch.setattr(kinds, "validate", validate)
    monkeypatch.setattr(kinds, "sanity_thresholds", lambda held, seed: {})
    kinds.main(["train", *shared, "--kind", kind, "--name", kind, "--rows", "gold"])
    after = ["c", "d"] if kind == "biprm" else []
    learned, *held = found
    assert learned == kinds.KINDS[kind].rows(given("gold", 0, after))
    assert held == ([] if kind == "thinkprm" else [given("held-out", 20, after)])


def test_verifications_of_held_out_rows_are_about_their_part_up_to_the_error(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [make_row(f"h{n}", "What is 1?", ["a", "b"], [1.0, 0.0], "x", ["c"]) for n in range(2)]
    write_parquet(out / "rows" / "held-out.parquet", whole, "judged")
    asked: list[int] = []

    class Writer:
        def chains(self, traces: Any, told: str) -> list[Any]:
            asked.extend(len(trace.steps) for trace in traces)
            raise SystemExit

    monkeypatch.setattr(kinds, "unpacked", lambda args: "folder")
    monkeypatch.setattr(TorchPolicy, "load", lambda *_, **__: None)
    monkeypatch.setattr(kinds, "thinkprm", lambda *_, **__: Writer())
    with pytest.raises(SystemExit):
        kinds.main(["verify", "--told", "--chunk", "2", "--model", "m", "--data", str(out), "--out", str(out)])
    assert asked == [2, 2]


@pytest.mark.long
def test_every_kind_learns_from_the_same_rows_and_is_scored(
    prepared: tuple[list[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    shared, out = prepared
    folder = saved(out / "tiny", gguf_tokenizer(shared[3]), tied=True)
    shared[3] = str(folder)
    traces = [
        replace(row.trajectory, id=f"s{k}", correct=k % 2 == 1)
        for k, row in enumerate(rows("x", [f"What is {n} less 1?" for n in range(6)]))
    ]
    write_parquet(out / "sample-gsm8k-train.parquet", traces, "trajectory")
    small = ["--rank", "2", "--batch", "4", "--accumulation", "1", "--max-length", "512"]
    file = out.parent / "data" / "processbench" / "math.json.gz"
    cases = json.loads(gzip.decompress(file.read_bytes()))
    cases[0]["steps"] = ["a" * 400, "b" * 400]  # longer than what is trained on
    file.write_bytes(gzip.compress(json.dumps(cases).encode()))
    travelled = [{"id": "gsm8k-0", "split": "gsm8k", "scores": [0.5]}]  # of a training whose weights stayed elsewhere
    loop_files.keep_lines(out / "scores-ce-processbench.jsonl.gz", travelled)
    for kind in (name for name in kinds.KINDS if name != "thinkprm"):
        given = ["outcome"] if kind == "implicit" else ["gold"]
        beside = [] if kind == "ce" else ["--beside", "ce"]
        at_once = ["--then-score"] if kind in ("pqm", "pathfinder") else []
        kinds.main(["train", *shared, *small, "--kind", kind, "--name", kind, "--rows", *given, *beside, *at_once])
        scored = out / f"scores-{kind}-processbench.jsonl.gz"
        assert scored.is_file() == bool(at_once)
        kinds.main(["score", *shared, "--name", kind, "--on", "processbench"])
    facts = {kind: loop_files.kept(out / f"prm-{kind}" / "facts.json") for kind in kinds.KINDS if kind != "thinkprm"}
    assert {kind: (given["config"]["objective"], given["config"].get("head")) for kind, given in facts.items()} == {
        "ce": ("soft-bce", None), "pqm": ("q-ranking", None), "tdrm": ("td", None), "biprm": ("soft-bce", "both-ways"),
        "uhead": ("soft-bce", "uncertainty"), "probe": ("soft-bce", "frozen-linear"), "implicit": ("log-ratio", None),
        "pathfinder": ("error-types", None),
    }  # fmt: skip
    assert not any(given["as trained"] for given in facts.values()), "held-out rows are read once, for the threshold"
    capsys.readouterr()
    kinds.main(["evaluate", *shared])
    found = json.loads(capsys.readouterr().out)
    assert set(found) == set(facts) and found["ce"]["processbench"]["cases"] == 8
    assert all("difference" in given["processbench"] for name, given in found.items() if name != "ce")
    said = {kind: tuple(map(tuple, loop_files.scores_of(out / f"scores-{kind}-processbench.jsonl.gz").values()))
            for kind in facts}  # fmt: skip
    assert len(set(said.values())) == len(said), "no two kinds say the same"
    assert not [kind for kind, scores in said.items() if None in {value for row in scores for value in row}]


@pytest.mark.long
def test_a_thinking_judge_learns_from_its_own_chains_and_verifies(
    prepared: tuple[list[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    shared, out = prepared
    shared[3] = str(saved(out / "writer", gguf_tokenizer(shared[3]), tied=False, write=True))
    drawn = ["--max-tokens", "12", "--chunk", "8"]
    apart = [
        make_row(f"r{n}", f"What is {n} plus 1?", ["a", f"b {n % 2}"], [1.0, float(n % 2)], "gold") for n in range(16)
    ]
    write_parquet(out / "rows" / "gold.parquet", apart, "judged")
    kinds.main(["chains", *shared, *drawn, "--rows", "gold", "--n", "16", "--most", "8"])
    kept = read_parquet(out / "rows" / "chains.parquet", "judged")
    assert len(kept) == 8
    for row in kept:
        (text,) = [rationale for rationale in row.judgement.rationales if rationale]
        wanted = BOXES if row.judgement.values[-1] == 0 else [BOXES[0]] * 2
        assert text == "".join(wanted), "a chain says what the labels say"
    small = ["--rank", "2", "--batch", "4", "--epochs", "1", "--max-length", "1024"]
    kinds.main(["train", *shared, *small, "--kind", "thinkprm", "--name", "think", "--rows", "chains"])
    for name, told in (("think", []), ("base", ["--told"])):
        words = ["verify", *shared, *drawn, "--name", name, "--beside", "think", "--n", "4", *told]
        kinds.main(words)
        first = kinds_data.verified_of(out / f"chains-{name}-processbench.jsonl.gz")
        splits = [split for split, _ in first]
        assert {*splits[:16]} == {kinds_measure.HELD} and len({*splits[16:20]}) == 4, "who is stopped has some of all"
        kinds.main(words)
        assert kinds_data.verified_of(out / f"chains-{name}-processbench.jsonl.gz") == first
        assert len(first) == 8 + 16 and any(chain for said in first.values() for chain in said.chains)
    capsys.readouterr()
    kinds.main(["evaluate", *shared])
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["base, 1", "base, 4", "think, 1", "think, 4"]


@pytest.mark.long
def test_the_figures_of_kinds_on_the_page_of_results_are_those_of_the_scores_that_come_along(tmp_path: Path) -> None:
    root = Path(kinds.__file__).resolve().parents[1]
    data = root.parent / "shared" / "data"
    if not (data / "processbench").is_dir():
        pytest.skip("no ProcessBench here")
    found = kinds_measure.evaluate(root / "examples" / "coder_1_5b_kinds", data, 0)
    assert json.loads(json.dumps(found)) == json.loads((root / "docs" / "real_kinds.json").read_text(encoding="utf-8"))
