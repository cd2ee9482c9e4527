"""EurusPRM and other implicit PRMs: the card's numbers, blockwise log-probabilities, and the slow reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from footfall.registry import create
from footfall.render import Writer
from footfall.reward.checkpoint import checkpoint
from footfall.reward.families.eurus import numbered_spans, process_rewards, published_spans, token_log_probs
from footfall.reward.family import Scored
from footfall.search.votes import aggregate
from tests.reward.families.reference import QUESTION, STEPS, next_logits, trace, values
from tests.reward.families.zoo import adapter_folder
from tests.reward.tiny_checkpoints import llama3_tokenizer, qwen_tokenizer, random_linear, save_checkpoint

torch.set_num_threads(1)

TOLERANCE = 1e-6
"""Values are σ of sums scaled by .001: a thousandth of the usual tolerance would still be loose."""


def pair(tmp_path: Path, tokenizer: Any = None, kind: str = "qwen2") -> tuple[Path, Path, Any, Any, Any]:
    tokenizer = tokenizer or qwen_tokenizer()
    folder, base = tmp_path / "EurusPRM-Stage2", tmp_path / "reference"
    policy = save_checkpoint(folder, kind, tokenizer, seed=1)
    reference = save_checkpoint(base, kind, tokenizer, seed=2)
    return folder, base, policy, reference, tokenizer


def log_probs(model: Any, ids: list[int]) -> torch.Tensor:
    """Of each token given those before it; entry j is for token j + 1."""
    logits = next_logits(model, ids)[:-1].double().log_softmax(-1)
    return logits.gather(1, torch.tensor(ids[1:]).unsqueeze(1)).squeeze(1)


def chat(tokenizer: Any, steps: list[str]) -> str:
    answer = "\n\n".join(f"Step {k}: {s}" for k, s in enumerate(steps, 1))
    turns = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": answer}]
    return str(tokenizer.apply_chat_template(turns, tokenize=False))


def published_q(policy: Any, reference: Any, tokenizer: Any, steps: list[str]) -> list[float]:
    """As the authors' evaluation counts: lengths of prefixes that are closed by the end of turn and a blank line."""
    ids = tokenizer.encode(chat(tokenizer, steps), add_special_tokens=False)
    bounds = []
    for k in range(len(steps) + 1):
        prefix = chat(tokenizer, steps[:k]).strip() + ("\n\n" if 0 < k < len(steps) else "")
        bounds.append(len(tokenizer.encode(prefix, add_special_tokens=False)) - 2)
    ratio = log_probs(policy, ids) - log_probs(reference, ids)
    ratio[: bounds[0]] = 0
    return [float(0.001 * ratio[: end + 1].sum()) for end in bounds[1:]]


def test_the_card_s_log_ratios_give_its_q_rewards_and_values() -> None:
    q, rewards = process_rewards([0.5, -0.2, 0.7, -1.2, 0.1, 0.4, 0.6, 0.1, 0.2], [2, 4, 8], beta=0.001)
    assert q == pytest.approx([0.0010, -0.0001, 0.0012], abs=1e-12)
    assert rewards == pytest.approx([0.0010, -0.0011, 0.0013], abs=1e-12)
    assert torch.tensor(q).sigmoid().tolist() == pytest.approx([0.500250, 0.499975, 0.500300], abs=1e-6)


def test_the_card_s_threshold_of_0_5005_names_the_second_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ratios = [0.2, -0.1, 0.4, -0.6, 0.1, 0.3]
    q, rewards = process_rewards(ratios, [2, 4, 5], beta=0.05)
    assert q == pytest.approx([0.025, 0.0, 0.015]) and rewards == pytest.approx([0.025, -0.025, 0.015])
    assert aggregate(rewards, "min") == pytest.approx(-0.025)
    assert aggregate(rewards, "sum") == pytest.approx(q[-1]), "the steps add up to the outcome"
    assert process_rewards(ratios, [4, 5], beta=0.05)[1] == pytest.approx([0.0, 0.015]), "two steps in one add theirs"
    folder, base, *_ = pair(tmp_path)
    judge = create("reward", "implicit", path=folder, base=str(base), beta=0.05)
    monkeypatch.setattr(judge, "spans", lambda *_: Scored((0,) * 6, 0, (2, 4, 5)))
    monkeypatch.setattr(judge, "_ratios", lambda _: ([torch.tensor(ratios)], [0.0]))
    (said,) = judge.judge([trace("One.", "Two.", "Three.")])
    assert said.values == pytest.approx([0.506250, 0.5, 0.503750], abs=1e-6)
    assert said.first_below(0.5005) == 1


@pytest.mark.parametrize(("tokens", "words"), [(1, 1), (3, 7), (100, 100)])
def test_log_probs_made_in_blocks_are_the_log_softmax(tokens: int, words: int) -> None:
    generator = torch.Generator().manual_seed(0)
    hidden, output = torch.randn(11, 8, generator=generator), 5 * torch.randn(23, 8, generator=generator)
    targets = torch.randint(0, 23, (11,), generator=generator)
    expected = (hidden @ output.T).log_softmax(-1).gather(1, targets[:, None])[:, 0]
    found = token_log_probs(hidden, targets, output, tokens=tokens, words=words)
    assert torch.allclose(found, expected, atol=1e-5)


def test_the_blocks_keep_float32_where_the_weights_are_bfloat16() -> None:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(5, 8, generator=generator).bfloat16()
    output = torch.randn(23, 8, generator=generator).bfloat16()
    targets = torch.arange(5)
    expected = (hidden.float() @ output.float().T).log_softmax(-1)[targets, targets]
    assert torch.allclose(token_log_probs(hidden, targets, output), expected, atol=1e-5)


@pytest.mark.parametrize("steps", [STEPS, ("no full stop", "nor here", "the end"), ("alone.",), ("", "x\n", " ")])
def test_eurus_counts_steps_as_the_authors_code_does(tmp_path: Path, steps: tuple[str, ...]) -> None:
    folder, base, policy, reference, tokenizer = pair(tmp_path)
    expected = published_q(policy, reference, tokenizer, list(steps))
    judge = checkpoint(folder, base=str(base))
    judgement = judge.judge([trace(*steps)])[0]
    assert judge.name.startswith("eurus-prm@")
    assert judgement.aspects["q"] == pytest.approx(expected, abs=TOLERANCE)
    assert judgement.values == pytest.approx(torch.tensor(expected).sigmoid().tolist(), abs=TOLERANCE)
    before = [0.0, *expected[:-1]]
    assert judgement.aspects["reward"] == pytest.approx(
        [b - a for a, b in zip(before, expected, strict=True)], abs=TOLERANCE
    )


def test_a_eurus_prm_without_a_chat_template_is_refused(tmp_path: Path) -> None:
    """One could be trained (`--as eurus-prm`), and each score of it then ended in an IndexError."""
    _, _, _, _, tokenizer = pair(tmp_path)
    plain, turns = trace("alone."), tokenizer.chat_template
    tokenizer.chat_template = None
    with pytest.raises(ValueError, match=r"here: a eurus-prm .* has no chat template: .* as the family implicit"):
        published_spans(Writer(tokenizer, "here"), plain)
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    with pytest.raises(ValueError, match="ends no turn"):
        published_spans(Writer(tokenizer, "here"), plain)
    tokenizer.chat_template = turns
    assert published_spans(Writer(tokenizer, "here"), plain).ends


def test_any_pair_of_language_models_is_an_implicit_prm_whose_steps_end_with_their_blank_line(tmp_path: Path) -> None:
    folder, base, policy, reference, tokenizer = pair(tmp_path, llama3_tokenizer(), "llama")
    written = tokenizer.encode(chat(tokenizer, list(STEPS)), add_special_tokens=False)
    ratio = log_probs(policy, written) - log_probs(reference, written)
    expected = []
    for k in range(1, len(STEPS) + 1):
        prefix = chat(tokenizer, list(STEPS[:k])).removesuffix("<|eot_id|>") + ("\n\n" if k < len(STEPS) else "")
        start = len(tokenizer.encode(chat(tokenizer, []), add_special_tokens=False)) - 1
        end = len(tokenizer.encode(prefix, add_special_tokens=False))
        expected.append(float(ratio[start - 1 : end - 1].sum()))

    by_family = checkpoint(folder, family="implicit", base=str(base))
    assert by_family.judge([trace()])[0].aspects["q"] == pytest.approx([0.001 * s for s in expected], abs=TOLERANCE)
    by_name = create("reward", "implicit", path=folder, base=str(base), beta=0.05)
    assert by_name.judge([trace()])[0].aspects["q"] == pytest.approx([0.05 * s for s in expected], abs=50 * TOLERANCE)
    assert by_name.name != by_family.name


def test_an_adapter_may_be_the_policy_and_its_base_the_reference(tmp_path: Path) -> None:
    tokenizer = qwen_tokenizer()
    base, folder = tmp_path / "base", tmp_path / "adapter"
    plain = save_checkpoint(base, "qwen2", tokenizer)
    adapted = adapter_folder(folder, base, tokenizer, ["q_proj", "v_proj"])
    ids = tokenizer.encode(chat(tokenizer, ["Alone."]), add_special_tokens=False)
    first = len(tokenizer.encode(chat(tokenizer, []), add_special_tokens=False)) - 3
    ratio = log_probs(adapted, ids) - log_probs(plain, ids)
    judgement = checkpoint(folder, family="implicit", base=str(base)).judge([trace("Alone.")])[0]
    assert judgement.aspects["q"] == pytest.approx([0.001 * float(ratio[first:-2].sum())], abs=TOLERANCE)


def test_a_step_s_q_does_not_depend_on_the_steps_after_it(tmp_path: Path) -> None:
    folder, base, *_ = pair(tmp_path)
    judge = checkpoint(folder, family="implicit", base=str(base))
    other = judge.judge([trace(STEPS[0], STEPS[1], "Something else.")])[0]
    assert judge.judge([trace()])[0].values[:2] == pytest.approx(other.values[:2], abs=TOLERANCE)


def test_batches_and_their_order_change_nothing(tmp_path: Path) -> None:
    folder, base, *_ = pair(tmp_path)
    traces = [trace(*STEPS[: 1 + n % 3] * (1 + n), id=f"t{n}") for n in range(4)] + [trace(id="whole")]
    alone = checkpoint(folder, base=str(base))
    together = checkpoint(folder, base=str(base), token_budget=100_000)
    found = {j.trajectory_id: j.values for j in together.judge(traces[::-1])}
    for t in traces:
        assert values(alone, t) == pytest.approx(found[t.id], abs=TOLERANCE)


def test_the_first_written_token_is_the_first_of_the_assistant_s_turn() -> None:
    tokenizer = qwen_tokenizer()
    scored = numbered_spans(Writer(tokenizer), trace("One.", "Two."))
    assert tokenizer.decode(scored.ids[: scored.first]).endswith("<|im_start|>assistant\n")
    assert tokenizer.decode(scored.ids[scored.first : scored.ends[0] + 1]) == "Step 1: One.\n\n"
    assert tokenizer.decode(scored.ids[scored.first : scored.ends[1] + 1]) == "Step 1: One.\n\nStep 2: Two."


def test_a_trace_that_does_not_fit_is_an_error_or_is_judged_as_far_as_it_fits(tmp_path: Path) -> None:
    tokenizer = qwen_tokenizer()
    folder, base = tmp_path / "EurusPRM-Stage1", tmp_path / "reference"
    save_checkpoint(folder, "qwen2", tokenizer, seed=1, max_position_embeddings=160)
    save_checkpoint(base, "qwen2", tokenizer, seed=2)
    given = {"base": str(base), "check": False}
    with pytest.raises(ValueError, match=r"tokens, eurus-prm@.* takes 160"):
        checkpoint(folder, **given).judge([trace()])  # type: ignore[arg-type]
    partial = checkpoint(folder, **given, too_long="partial").judge([trace()])[0]  # type: ignore[arg-type]
    assert [v is None for v in partial.values] == [False, False, True]
    assert "context holds" in str(partial.failures[2])


def test_a_trace_without_steps_costs_nothing(tmp_path: Path) -> None:
    folder, base, *_ = pair(tmp_path)
    empty, full = checkpoint(folder, base=str(base)).judge([trace().prefix(0), trace()])
    assert (empty.values, empty.cost.scored_tokens) == ((), 0)
    assert full.cost.calls == 2


def test_a_reference_is_asked_for_and_must_differ_and_share_the_vocabulary(tmp_path: Path) -> None:
    folder, *_ = pair(tmp_path)
    with pytest.raises(ValueError, match="needs a reference model"):
        checkpoint(folder, family="implicit")
    with pytest.raises(ValueError, match="they are one model"):
        checkpoint(folder, base=str(folder))
    save_checkpoint(tmp_path / "other", "qwen2", qwen_tokenizer("<extra_0>"))
    with pytest.raises(ValueError, match="do not share a vocabulary"):
        checkpoint(folder, base=str(tmp_path / "other"))


def test_a_model_with_a_class_head_is_no_implicit_prm(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, "qwen2", qwen_tokenizer(), head={"score.weight": random_linear(2)})
    for name in ("eurus-prm", "implicit"):
        with pytest.raises(ValueError, match=f"not of the family {name}: it has a tensor score.weight"):
            checkpoint(tmp_path, family=name)
