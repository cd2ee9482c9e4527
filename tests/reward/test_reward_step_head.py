"""Step-head PRMs: what is read where, and that nothing around a trace changes its values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from footfall.hashing import vocabulary_fingerprint
from footfall.loading import pack
from footfall.registry import create, parts
from footfall.render import Reading, encode
from footfall.reward.canary import CanaryError
from footfall.reward.config import PRMConfig
from footfall.reward.families.footfall import StepEnds
from footfall.reward.judge import PRMJudge
from footfall.reward.prm import PRM
from footfall.reward.readout import Readout
from footfall.types import Judgement, Step, Trajectory
from tests.reward.tiny_models import backbone_folder, byte_tokenizer, decoder, some_traces, trace

torch.set_num_threads(1)
TOLERANCE = 1e-5
MARKER = "<step>"
NASTY = (MARKER, f"a {MARKER}\n\n{MARKER}", "", " ", "ends in spaces   ", "例えば、三は奇数です。", "🙂👨‍👩‍👧",
         "\\frac{1}{2} \\\\", "</s>", "\n\n", ".", "x" * 300, "null\x00byte", "<s><pad>")  # fmt: skip


def model(read: str = "last", family: str = "llama", **options: object) -> PRM:
    marker = MARKER if read == "marker" else None
    given: dict[str, object] = {"max_length": 8192, "marker": marker, "seed": 1, **options}
    return PRM.from_backbone(decoder(family, context=8192), byte_tokenizer(), **given)  # type: ignore[arg-type]


def marker_id(m: PRM) -> int | None:
    assert isinstance(m.layout, StepEnds)
    return m.layout.marker_id


MODELS = {read: model(read) for read in ("last", "marker")}
JUDGES = {read: PRMJudge(m) for read, m in MODELS.items()}


def values(judgements: Sequence[Judgement]) -> list[list[float]]:
    return [[v for v in j.values if v is not None] for j in judgements]


def assert_same(a: Sequence[Judgement], b: Sequence[Judgement], tolerance: float = TOLERANCE) -> None:
    assert [j.trajectory_id for j in a] == [j.trajectory_id for j in b]
    for x, y in zip(values(a), values(b), strict=True):
        assert x == pytest.approx(y, abs=tolerance)


@pytest.mark.parametrize("read", ["last", "marker"])
@settings(max_examples=25, deadline=None)
@given(steps=st.lists(st.sampled_from(NASTY) | st.text(max_size=12), min_size=1, max_size=5))
def test_every_step_has_one_value_whatever_its_text(read: str, steps: list[str]) -> None:
    judge = JUDGES[read]
    whole = judge.judge([trace(*steps)])[0]
    assert len(whole.values) == len(steps)
    assert all(v is not None and 0 <= v <= 1 for v in whole.values)
    half = judge.judge([trace(*steps[: len(steps) // 2 + 1])])[0]
    assert half.values == pytest.approx(whole.values[: len(half.values)], abs=TOLERANCE), (
        "a prefix gets the same values"
    )


def test_a_value_is_read_at_the_steps_last_token() -> None:
    m = MODELS["last"]
    t = trace("3 + 4 = 7.", "So 7.")
    encoded = encode(byte_tokenizer(), t, m.prm_config.template)
    assert m.read(t) == encoded
    hidden = m.backbone(input_ids=torch.tensor([encoded.ids])).last_hidden_state[0, list(encoded.step_ends)]
    assert isinstance(m.head, torch.nn.Linear)
    expected = torch.sigmoid(hidden @ m.head.weight[0] + m.head.bias[0]).tolist()
    assert JUDGES["last"].judge([t])[0].values == pytest.approx(expected, abs=TOLERANCE)


def test_a_marker_is_one_new_token_after_each_step_and_its_text_is_no_marker() -> None:
    m = MODELS["marker"]
    t = trace(f"look: {MARKER}", "b")
    reading = m.read(t)
    assert marker_id(m) == len(byte_tokenizer())
    assert [i for i, token in enumerate(reading.ids) if token == marker_id(m)] == list(reading.positions)
    without = [token for token in reading.ids if token != marker_id(m)]
    assert tuple(without) == encode(byte_tokenizer(), t, m.prm_config.template).ids


def test_a_marker_the_vocabulary_has_is_used_as_it_is() -> None:
    m = model("marker", marker="th")
    assert not m.prm_config.marker_added
    assert marker_id(m) == byte_tokenizer().get_vocab()["th"]


def test_sampled_ids_are_kept_even_when_a_marker_was_added() -> None:
    sampled = tuple(byte_tokenizer().encode("t h", add_special_tokens=False)) + (5,)
    t = replace(
        trace("x"), steps=(Step("other text", token_ids=sampled),), tokenizer=vocabulary_fingerprint(byte_tokenizer())
    )
    for m in MODELS.values():
        ids = m.read(t).ids
        assert sampled == (ids[-len(sampled) :] if marker_id(m) is None else ids[-len(sampled) - 1 : -1])


@pytest.mark.parametrize("family", ["llama", "qwen2"])
@pytest.mark.parametrize("read", ["last", "marker"])
def test_order_batch_size_and_padding_do_not_change_a_value(read: str, family: str) -> None:
    m = model(read, family)
    traces = list(some_traces(12))
    alone = [PRMJudge(m, token_budget=1).judge([t])[0] for t in traces]
    assert_same(PRMJudge(m).judge(traces), alone)
    assert_same(PRMJudge(m, token_budget=300).judge(traces[::-1])[::-1], alone)
    assert_same(PRMJudge(m).judge([*traces, trace("long " * 200)])[:-1], alone)


def test_named_classes_give_the_good_classes_probability_wherever_they_stand() -> None:
    m = model(classes=("good", "neutral", "bad"), good=("good", "neutral"))
    t = trace("a", "b")
    logits = m.logits([m.read(t)])[0]
    p = logits.softmax(dim=-1)
    judged = PRMJudge(m).judge([t])[0]
    assert judged.values == pytest.approx((p[:, 0] + p[:, 1]).tolist(), abs=TOLERANCE)
    assert judged.aspects["bad"] == pytest.approx(p[:, 2].tolist(), abs=TOLERANCE)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"classes": ("bad", "good"), "good": ("fine",)}, "good classes"),
        ({"classes": ("bad", "good")}, "good classes"),
        ({"classes": ("one",), "good": ("one",)}, "two or more"),
        ({"read": "marker"}, "marker"),
        ({"max_length": 0}, "max_length"),
    ],
)
def test_a_config_that_makes_no_sense_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PRMConfig.from_dict({"backbone": "b", "max_length": 9, **fields}, "step_head.json")


def test_the_cost_counts_real_tokens_and_two_flops_a_parameter() -> None:
    judge = JUDGES["last"]
    short, long = judge.judge([trace("a"), trace("a" * 50)])
    tokens = len(judge.model.read(trace("a")).ids)
    assert short.cost.scored_tokens == tokens
    assert short.cost.flops == 2 * judge.model.size * tokens
    assert (short.cost.calls, long.cost.scored_tokens) == (1, tokens + 49)


def test_a_trace_without_steps_gets_no_values_and_costs_nothing() -> None:
    empty, other = JUDGES["last"].judge([trace(), trace("a")])
    assert (empty.values, empty.cost.scored_tokens, empty.cost.calls) == ((), 0, 0)
    assert len(other.values) == 1


def test_too_long_is_an_error_that_names_the_trace() -> None:
    m = model(max_length=40)
    with pytest.raises(ValueError, match=r"'far'.*40.*partial"):
        PRMJudge(m).judge([trace("a"), trace("b" * 80, id="far")])


def test_partial_judges_the_steps_that_fit_and_says_why_the_others_are_missing() -> None:
    steps = ("3 + 4 = 7.", "b" * 10, "c" * 60, "d")
    judged = PRMJudge(model(max_length=50), too_long="partial").judge([trace(*steps), trace("e" * 90)])
    whole = PRMJudge(model()).judge([trace(*steps)])[0]
    assert judged[0].values[:2] == pytest.approx(whole.values[:2], abs=TOLERANCE)
    assert judged[0].values[2:] == (None, None)
    assert judged[0].failures[:2] == (None, None)
    assert "the context holds 50" in str(judged[0].failures[2])
    assert judged[1].values == (None,)
    assert judged[1].cost.calls == 0


def test_a_context_longer_than_the_backbones_is_refused() -> None:
    with pytest.raises(ValueError, match="more than the 64"):
        PRM.from_backbone(decoder(context=64), byte_tokenizer(), max_length=65)


@settings(max_examples=60, deadline=None)
@given(lengths=st.lists(st.integers(1, 400), max_size=40), budget=st.integers(1, 1500))
def test_batches_hold_each_trace_once_within_budget_and_with_little_padding(lengths: list[int], budget: int) -> None:
    groups = pack(lengths, budget, max_waste=0.25)
    assert sorted(i for g in groups for i in g) == list(range(len(lengths)))
    for group in groups:
        padded = len(group) * max(lengths[i] for i in group)
        assert padded <= budget or len(group) == 1
        assert sum(lengths[i] for i in group) >= 0.75 * padded


@pytest.mark.parametrize("read", ["last", "marker"])
def test_a_saved_model_says_the_same_when_loaded(read: str, tmp_path: Path) -> None:
    m = model(read, classes=("bad", "good"), good=("good",))
    m.save(tmp_path / "prm")
    judge = create("reward", "step-head", path=str(tmp_path / "prm"), device="cpu")
    assert_same(judge.judge(some_traces()), PRMJudge(m).judge(some_traces()), 1e-7)
    assert judge.name == PRMJudge(m).name
    assert judge.model.prm_config == m.prm_config
    assert not [p.name for p in (tmp_path / "prm").iterdir() if p.suffix in (".bin", ".pt", ".pth", ".pkl")]


def test_the_name_follows_the_weights() -> None:
    assert PRMJudge(model(seed=1)).name == PRMJudge(model(seed=1)).name
    assert PRMJudge(model(seed=1)).name != PRMJudge(model(seed=2)).name


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")
def test_a_language_model_folder_is_a_backbone_and_half_precision_is_read_in_float32(tmp_path: Path) -> None:
    folder = backbone_folder(tmp_path / "lm")
    m = PRM.from_backbone(folder, dtype=torch.bfloat16)
    assert m.prm_config.max_length == 512
    assert m.logits([m.read(trace("a"))]).dtype == torch.float32


def test_a_backbone_with_missing_weights_is_refused(tmp_path: Path) -> None:
    folder = backbone_folder(tmp_path / "lm")
    state = safetensors.torch.load_file(folder / "model.safetensors")
    state.pop("model.layers.1.mlp.up_proj.weight")
    safetensors.torch.save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"lacks 1 weights.*up_proj"):
        PRM.from_backbone(folder)


def damage_head(folder: Path) -> None:
    state = safetensors.torch.load_file(folder / "head.safetensors")
    safetensors.torch.save_file({k: torch.zeros_like(v) for k, v in state.items()}, folder / "head.safetensors")


def damage_backbone(folder: Path) -> None:
    state = safetensors.torch.load_file(folder / "model.safetensors")
    name = next(k for k in state if "q_proj" in k)
    state[name] = state[name] * -3
    safetensors.torch.save_file(state, folder / "model.safetensors", metadata={"format": "pt"})


def damage_tokenizer(folder: Path) -> None:
    stored = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    stored["model"]["merges"] = []
    (folder / "tokenizer.json").write_text(json.dumps(stored), encoding="utf-8")


def reverse_canary(folder: Path) -> None:
    stored = json.loads((folder / "step_head.json").read_text(encoding="utf-8"))
    ranked = sorted((v, n, k) for n, t in enumerate(stored["canary"]["traces"]) for k, v in enumerate(t["values"]))
    stored["canary"].update(good=ranked[0][1:], bad=ranked[-1][1:])
    (folder / "step_head.json").write_text(json.dumps(stored), encoding="utf-8")


@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        (damage_head, "every canary step gets the value 0.5"),
        (damage_backbone, "when the model was saved"),
        (damage_tokenizer, "the tokenizer turns"),
        (reverse_canary, "wrong output"),
    ],
)
def test_the_canary_refuses_a_damaged_model_and_says_why(damage: object, cause: str, tmp_path: Path) -> None:
    model().save(tmp_path)
    damage(tmp_path)  # type: ignore[operator]
    with pytest.raises(CanaryError, match=cause):
        PRM.load(tmp_path, device="cpu")
    assert PRM.load(tmp_path, device="cpu", check=False).prm_config.max_length == 8192


@pytest.mark.parametrize("bias", [60.0, -60.0])
def test_a_model_that_is_sure_of_every_canary_step_loads_until_it_changes(bias: float, tmp_path: Path) -> None:
    """Training can end there; what it said then it still says, unlike a model whose head was lost."""
    sure = model()
    with torch.no_grad():
        sure.head.get_parameter("bias").fill_(bias)
    sure.save(tmp_path)
    PRM.load(tmp_path, device="cpu")
    damage_head(tmp_path)
    with pytest.raises(CanaryError, match="when the model was saved"):
        PRM.load(tmp_path, device="cpu")


def test_values_that_are_no_probabilities_must_differ_even_if_they_were_zero_when_saved(tmp_path: Path) -> None:
    """Of a raw readout a lost head says zero."""
    lost = model()
    lost.prm_config = replace(lost.prm_config, readout=Readout("raw"))
    with torch.no_grad():
        for weight in lost.head.parameters():
            weight.zero_()
    lost.save(tmp_path)
    with pytest.raises(CanaryError, match=r"every canary step gets the value 0\.0"):
        PRM.load(tmp_path, device="cpu")


def test_a_canary_is_written_and_checked_without_tf32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that was trained under TF32 must load where it is off."""
    seen = []
    score = PRM.score

    def watched(self: PRM, readings: Sequence[Reading]) -> list[tuple[float, ...]]:
        seen.append(torch.get_float32_matmul_precision())
        return score(self, readings)

    monkeypatch.setattr(PRM, "score", watched)
    torch.set_float32_matmul_precision("high")
    try:
        model().save(tmp_path)
        PRM.load(tmp_path, device="cpu")
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert seen and set(seen) == {"highest"}


def test_a_head_in_half_precision_gives_logits_in_float32() -> None:
    """FSDP2 with mixed precision hands its layers out in bfloat16."""
    own = model()
    reading = [own.read(trace("a"))]
    exact = own.logits(reading)
    own.head.to(torch.bfloat16)
    rough = own.logits(reading)
    assert rough.dtype == torch.float32 and torch.allclose(rough, exact, atol=0.02)


def test_a_head_of_another_width_is_refused(tmp_path: Path) -> None:
    model().save(tmp_path)
    safetensors.torch.save_file({"weight": torch.zeros(2, 32), "bias": torch.zeros(2)}, tmp_path / "head.safetensors")
    with pytest.raises(ValueError, match=r"\(2, 32\).*\(1, 32\)"):
        PRM.load(tmp_path)


def test_a_folder_that_is_no_step_head_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no step_head.json"):
        PRM.load(tmp_path)


@pytest.mark.parametrize("merge", [False, True])
def test_lora_is_saved_beside_its_base_or_merged(merge: bool, tmp_path: Path) -> None:
    base = backbone_folder(tmp_path / "lm")
    m = PRM.from_backbone(base, marker=MARKER, lora_rank=4)
    for name, parameter in m.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.3, generator=torch.Generator().manual_seed(0))
    m.save(tmp_path / "prm", merge=merge)
    assert (tmp_path / "prm" / "adapter_model.safetensors").exists() is not merge
    loaded = PRM.load(tmp_path / "prm", device="cpu")
    assert loaded.prm_config.lora is not merge
    assert_same(PRMJudge(loaded).judge(some_traces()), PRMJudge(m).judge(some_traces()), 1e-4)


def test_an_adapters_config_is_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    """PEFT keeps the modules' names in a set, whose order changes from process to process."""
    PRM.from_backbone(backbone_folder(tmp_path / "lm"), lora_rank=4).save(tmp_path / "prm")
    modules = json.loads((tmp_path / "prm" / "adapter_config.json").read_text())["target_modules"]
    assert modules == sorted(modules) and len(modules) > 10


def test_the_judge_is_listed_without_loading_torch() -> None:
    assert parts("reward")["step-head"].target == "footfall.reward.judge:step_head"


def test_gradient_checkpointing_reaches_the_backbone() -> None:
    m = model()
    m.gradient_checkpointing_enable()
    assert m.backbone.is_gradient_checkpointing
    m.gradient_checkpointing_disable()
    assert not m.backbone.is_gradient_checkpointing


def test_an_unjudgeable_trace_is_named() -> None:
    bare: Trajectory = trace("a", "", separator="", id="bare")
    with pytest.raises(ValueError, match=r"'bare': step 2"):
        JUDGES["last"].judge([bare])


@pytest.mark.parametrize("cached", [False, True])
def test_the_empty_prefix_and_every_token_are_valued_in_the_same_pass(cached: bool) -> None:
    m = MODELS["last"]
    traces = list(some_traces(5))
    plain = PRMJudge(m).judge(traces)
    more = PRMJudge(m, initial=True, token_values=True, cache_tokens=4000 * cached).judge(traces)
    assert_same(more, plain)
    assert cached or [j.cost.scored_tokens for j in more] == [j.cost.scored_tokens for j in plain]
    for t, said in zip(traces, more, strict=True):
        encoded = encode(byte_tokenizer(), t, m.prm_config.template)
        hidden = m.backbone(input_ids=torch.tensor([encoded.ids])).last_hidden_state[0]
        every = torch.sigmoid(m.head(hidden)).squeeze(-1).tolist()
        assert said.initial == pytest.approx(every[encoded.prompt_length - 1], abs=TOLERANCE)
        flat = [value for own in said.token_values for value in own]
        assert flat == pytest.approx(every[encoded.prompt_length : encoded.step_ends[-1] + 1], abs=TOLERANCE)
        assert [own[-1] for own in said.token_values] == pytest.approx(list(said.values), abs=TOLERANCE)
    assert all(j.initial is None and not j.token_values for j in plain), "off unless asked for"


def test_a_trace_without_steps_has_a_value_of_its_empty_prefix_if_that_is_asked_for() -> None:
    empty, other = PRMJudge(MODELS["last"], initial=True).judge([trace(), trace("a")])
    assert empty.values == () and empty.initial == pytest.approx(other.initial, abs=TOLERANCE)
    assert other.token_values == ()


def test_steps_that_do_not_fit_have_no_tokens_either() -> None:
    steps = ("3 + 4 = 7.", "b" * 10, "c" * 60)
    judge = PRMJudge(model(max_length=50), too_long="partial", initial=True, token_values=True)
    (said,) = judge.judge([trace(*steps)])
    assert said.values[2] is None and [bool(own) for own in said.token_values] == [True, True, False]


def test_a_model_that_reads_at_a_marker_has_no_values_of_other_tokens() -> None:
    for initial in (True, False):
        with pytest.raises(ValueError, match="at marks"):
            PRMJudge(MODELS["marker"], initial=initial, token_values=not initial)
