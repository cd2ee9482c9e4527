"""One PRM class: what was saved before loads under its old name, and every published family can be saved and loaded again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from footfall.judging import traits
from footfall.registry import create, parts
from footfall.reward.checkpoint import Options, checkpoint, evidence, published, to_train
from footfall.reward.config import CONFIG_FILE, PRMConfig
from footfall.reward.family import families, recognise
from footfall.reward.heads import make_head
from footfall.reward.judge import PRMJudge, step_head
from footfall.reward.prm import PRM
from footfall.reward.readout import MeanOfHeads, Readout, Several, readout_from
from footfall.types import content_key
from tests.reward.families.zoo import ZOO, folder_of
from tests.reward.tiny_models import byte_tokenizer, decoder, some_traces, trace

torch.set_num_threads(1)
ONE_PASS = [name for name, entry in ZOO.items() if families()[entry.family].open is None]
EARLIER: dict[str, tuple[dict[str, Any], str]] = {
    "one logit": ({}, "960a2f1d0152"),
    "a marker": ({"read": "marker", "marker": "<step>", "marker_added": True, "lora": True}, "1ca702a030a3"),
    "classes": ({"classes": ["bad", "good"], "good": ["good"]}, "9e88e1ec5986"),
    "small networks": ({"heads": 4, "head_width": 8}, "4441d9dcc79f"),
    "named outputs": ({"columns": ["q50", "q10", "q90"]}, "1f3a874c503d"),
}
"""Fields of `step_head.json` as the first version wrote them, and the name that it gave."""


def values(judge: Any) -> list[tuple[float | None, ...]]:
    return [judgement.values for judgement in judge.judge(some_traces(4))]


@pytest.mark.parametrize("kind", EARLIER)
def test_a_model_keeps_the_name_that_the_first_version_gave_it(kind: str) -> None:
    fields, name = EARLIER[kind]
    config = PRMConfig.from_dict({"backbone": "b", "max_length": 9, **fields}, "step_head.json")
    assert content_key(config.address(), "weights")[:12] == name
    assert PRMConfig.from_dict(json.loads(json.dumps(config.to_dict())), "step_head.json") == config


@pytest.mark.parametrize("kind", [kind for kind in EARLIER if kind != "a marker"])
def test_a_folder_of_the_first_version_says_the_same_under_the_same_name(kind: str, tmp_path: Path) -> None:
    fields, _ = EARLIER[kind]
    model = PRM.from_backbone(decoder(), byte_tokenizer(), seed=1, **fields)
    model.save(tmp_path)
    stored = json.loads((tmp_path / CONFIG_FILE).read_text(encoding="utf-8"))
    for name in ("family", "head", "readout"):
        del stored[name]
    earlier = {"classes": [], "good": [], "heads": 0, "head_width": 128, "columns": [], **fields}
    (tmp_path / CONFIG_FILE).write_text(json.dumps({**stored, **earlier}), encoding="utf-8")
    loaded = step_head(tmp_path, device="cpu")
    assert loaded.name == PRMJudge(model).name
    assert values(loaded) == values(PRMJudge(model))


@pytest.mark.long
@pytest.mark.parametrize("name", ONE_PASS)
def test_every_family_is_saved_with_its_layout_head_and_readout(name: str, tmp_path: Path) -> None:
    folder = folder_of(name)
    seen = evidence(folder)
    model = published(seen, recognise(seen), Options(device="cpu"))
    model.save(tmp_path)
    stored = json.loads((tmp_path / CONFIG_FILE).read_text(encoding="utf-8"))
    assert (stored["family"], stored["readout"]["name"]) == (ZOO[name].family, "outputs")
    assert stored["head"]["name"] in parts("head")
    before = checkpoint(folder, device="cpu")
    for after in (step_head(tmp_path, device="cpu"), checkpoint(tmp_path, device="cpu")):
        assert after.name == before.name
        assert traits(after).threshold == traits(before).threshold
        for one, other in zip(values(after), values(before), strict=True):
            assert one == pytest.approx(other, abs=1e-6)


def test_a_plain_decoder_and_what_is_not_one_head_on_one_backbone_are_no_prms_to_train(tmp_path: Path) -> None:
    decoder().save_pretrained(tmp_path / "lm")
    byte_tokenizer().save_pretrained(tmp_path / "lm")
    assert to_train(tmp_path / "lm", None, torch.float32) is None
    assert to_train(folder_of("eurus-prm"), None, torch.float32) is None
    with pytest.raises(ValueError, match="is no head on a backbone: it is trained by the objective log-ratio"):
        to_train(folder_of("eurus-prm"), "eurus-prm", torch.float32)


@pytest.mark.parametrize(
    "readout",
    [
        Readout(), Readout("raw", probability=True), Readout("margin", ("bad", "good"), ("good",)),
        Readout("good", ("a", "b", "c"), ("b", "c"), sums={"s": ("b",)}, labels={"l": ("s", 0.15)}),
        MeanOfHeads(members=3), Several(names=("q50", "q10")),
    ],
)  # fmt: skip
def test_a_readout_is_data(readout: Readout) -> None:
    assert readout_from(json.loads(json.dumps(readout.to_dict()))) == readout


@pytest.mark.parametrize(
    "readout",
    [Readout(), Readout("good", ("a", "b", "c"), ("b", "c")), Readout("margin", ("bad", "good"), ("good",)),
     Several(names=("q50", "q10"))],
)  # fmt: skip
def test_log_odds_are_those_of_the_probability_that_a_step_is_good(readout: Readout) -> None:
    logits = torch.randn(5, readout.outputs, generator=torch.Generator().manual_seed(0))
    good = (readout.values(logits) + 1) / 2 if readout.value == "margin" else readout.values(logits)
    torch.testing.assert_close(readout.log_odds(logits).sigmoid(), good)
    torch.testing.assert_close(readout.chances(logits), good)


@pytest.mark.parametrize(
    "name", sorted({*parts("head")} - {"uncertainty"})
)  # its sizes are a decoder's: tests of its own
def test_a_head_is_data(name: str) -> None:
    head = make_head({"name": name}, width=6, outputs=1, seed=3)
    again = make_head(json.loads(json.dumps(head.settings)), width=6, outputs=1, seed=3)
    assert {k: v.shape for k, v in head.state_dict().items()} == {k: v.shape for k, v in again.state_dict().items()}
    if not head.both_ways and not head.asks:  # others read more than a state; their own tests have what they read
        assert head(torch.zeros(2, 6)).shape == (2, 1)
    assert create("head", name, width=6, outputs=1).settings == head.settings


def test_a_published_family_that_is_read_at_its_own_tokens_values_the_prompts_end_and_every_token() -> None:
    judge = checkpoint(folder_of("reasoneval-34b"), device="cpu", initial=True, token_values=True)
    plain = checkpoint(folder_of("reasoneval-34b"), device="cpu")
    traces = [trace("3 + 4 = 7.", "So 7.")]
    (said,), (usual,) = judge.judge(traces), plain.judge(traces)
    assert said.values == pytest.approx(usual.values) and said.initial is not None
    assert [step[-1] for step in said.token_values] == pytest.approx(list(said.values))
    assert len(said.token_values[0]) > 1
