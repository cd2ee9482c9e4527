"""Damaged models: every attempt to use one ends in one line that names its files, or in the scores that it had."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from footfall.damaged import check_claims, naming
from footfall.formats import read_parquet
from footfall.gguf.container import read_container
from footfall.loading import load_model
from footfall.policy.http import http_policy
from footfall.reward.backbone import load_backbone
from footfall.reward.canary import default_pair
from footfall.reward.prm import PRM
from tests.attacks.commands import say
from tests.reward.tiny_models import backbone_folder, byte_tokenizer, decoder
from tests.test_gguf import write_gguf

torch.set_num_threads(1)
MOST_MEMORY_KB = 1 << 20
"""That a damaged file may make this process grow by."""
TOLERANCE = 0.05
LONGEST = 4100
"""Characters of an error."""
HUGE = 10**12
Damage = Callable[[random.Random, bytes], bytes]


def flip(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 8))):
        # The header is where a flip does most; the weights are most of the file.
        at = rng.randrange(len(changed) if rng.random() < 0.5 else min(len(changed), 4000))
        changed[at] ^= 1 << rng.randrange(8)
    return bytes(changed)


@pytest.mark.parametrize("kind", [ValueError, OSError, KeyError])
def test_what_a_library_says_is_one_line_that_names_the_file_whatever_a_name_in_it_says(kind: type[Exception]) -> None:
    for said in ("a tensor is called 'out of memory\n\x1b]52;'", "word " * 100_000):
        with pytest.raises((ValueError, OSError), match=r"^some\.gguf: ") as refused, naming("some.gguf"):
            raise kind(said)
        assert len(str(refused.value)) < LONGEST and str(refused.value).isprintable()


def cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def garbage(rng: random.Random, data: bytes) -> bytes:
    at, length = rng.randrange(len(data)), rng.randrange(1, 200)
    return data[:at] + rng.randbytes(length) + data[at + length :]


def other_json(rng: random.Random, data: bytes) -> bytes:
    """JSON with one value, at any depth, made another; a file that is none gets it in its place."""
    values: list[Any] = [
        None,
        -1,
        0,
        HUGE,
        1e308,
        "",
        "x" * 1000,
        [],
        {},
        [[]] * 9,
        True,
        "../../etc/passwd",
        float("nan"),
    ]
    try:
        parsed = json.loads(data)
    except ValueError:
        return json.dumps(rng.choice(values)).encode()
    at = parsed
    while isinstance(at, dict | list) and at:
        key = rng.choice(list(at) if isinstance(at, dict) else range(len(at)))
        inner: Any = at[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.2:
            at[key] = rng.choice(values)
            break
        at = inner
    return json.dumps(parsed).encode()


DAMAGES: tuple[Damage, ...] = (flip, cut, garbage, other_json)


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_MEMORY_KB


def make_prms(folder: Path) -> dict[str, Path]:
    """A PRM whose weights were all trained, and one that is an adapter."""
    PRM.from_backbone(decoder(), byte_tokenizer(), max_length=256).save(folder / "whole")
    base = backbone_folder(folder / "base")
    PRM.from_backbone(str(base), lora_rank=2, max_length=256).save(folder / "adapter")
    return {"whole": folder / "whole", "adapter": folder / "adapter"}


def canary_traces(path: Path) -> Path:
    """The traces of the canary: of these a model that loads has promised the values."""
    rows = [(f"c{k}", trace) for k, trace in enumerate(default_pair())]
    path.write_text(
        "".join(
            json.dumps({"id": id, "problem": t.problem.text, "steps": [s.text for s in t.steps]}) + "\n"
            for id, t in rows
        )
    )
    return path


@pytest.fixture(scope="module")
def prms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_prms(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return canary_traces(tmp_path_factory.mktemp("traces") / "traces.jsonl")


def scores(model: Path, traces: Path) -> list[float] | str:
    """What `footfall score` gives: the values, or its one line."""
    to = model.parent / "scored.parquet"
    to.unlink(missing_ok=True)
    words = ["--judge", str(model), "--out", str(model.parent / "run"), "--fresh", "--to", str(to), "--show", "0"]
    code, _, errors = say(["score", str(traces), *words])
    if code == 0:
        return [value for row in read_parquet(to, "judged") for value in row.judgement.values]
    assert code == 2
    (line,) = [line for line in errors.splitlines() if line.startswith("footfall: ")]
    assert str(model.name) in line, "the line names the model"
    assert len(line) < LONGEST
    return line


def test_a_length_that_is_true_is_refused_with_the_name_of_the_model(
    prms: dict[str, Path], traces: Path, tmp_path: Path
) -> None:
    damaged = Path(shutil.copytree(prms["whole"], tmp_path / "damaged"))
    stored = json.loads((damaged / "step_head.json").read_text())
    (damaged / "step_head.json").write_text(json.dumps({**stored, "max_length": True}))
    assert "max_length must be a whole number" in str(scores(damaged, traces))


def one_damage(model: Path, traces: Path, seed: int, folder: Path) -> str:
    """Damage one file of the model, the next kind of damage for the next seed, and score with it: how it ended."""
    whole = WHOLE.setdefault(model, scores(model, traces))
    assert isinstance(whole, list) and whole
    files = sorted(path.name for path in model.iterdir() if path.is_file() and path.suffix != ".md")
    damaged = folder / "damaged"
    shutil.rmtree(damaged, ignore_errors=True)
    shutil.copytree(model, damaged)
    file = damaged / files[seed % len(files)]
    damage = DAMAGES[seed // len(files) % len(DAMAGES)]
    file.write_bytes(damage(random.Random(seed), file.read_bytes()))
    found = scores(damaged, traces)
    if isinstance(found, list):
        assert found == pytest.approx(whole, abs=TOLERANCE), (seed, file.name, damage.__name__)
    return "refused" if isinstance(found, str) else "scored"


WHOLE: dict[Path, list[float] | str] = {}
"""The scores of models before they are damaged."""


@pytest.mark.parametrize("kind", ["whole", pytest.param("adapter", marks=pytest.mark.long)])
def test_a_damaged_prm_is_refused_in_one_line_or_scores_as_before(
    kind: str, prms: dict[str, Path], traces: Path, tmp_path: Path
) -> None:
    ended = Counter(one_damage(prms[kind], traces, seed, tmp_path) for seed in range(28))
    assert ended["refused"] > 5


@pytest.mark.parametrize("family", [None, [], {}, 7, "x"])
def test_a_family_that_is_no_name_or_of_nobody_is_refused_in_one_line(
    family: object, prms: dict[str, Path], traces: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(prms["whole"], tmp_path / "strange")
    config = json.loads((folder / "step_head.json").read_text())
    (folder / "step_head.json").write_text(json.dumps({**config, "family": family}))
    found = scores(folder, traces)
    assert isinstance(found, str) and "strange/step_head.json: " in found and "family" in found


def one_damaged_decoder(whole: Path, seed: int, folder: Path) -> str:
    """A GGUF file, or a file of a decoder's folder, damaged and loaded: how it ended."""
    if whole.is_dir():
        path = folder / "damaged_decoder"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(whole, path)
        files = sorted(file for file in path.iterdir() if file.is_file())
        file = files[seed % len(files)]
    else:
        path = file = folder / "damaged.gguf"
        file.write_bytes(whole.read_bytes())
    file.write_bytes(DAMAGES[seed % 3](random.Random(seed), file.read_bytes()))
    try:
        load_model(path)
    except (ValueError, OSError) as error:
        assert path.name in str(error) and "\n" not in str(error) and len(str(error)) < LONGEST, seed
        return "refused"
    return "loaded"


def test_a_damaged_decoder_is_refused_in_one_line_that_names_it(tmp_path: Path) -> None:
    for whole in (write_gguf(tmp_path / "whole.gguf"), backbone_folder(tmp_path / "decoder")):
        assert Counter(one_damaged_decoder(whole, seed, tmp_path) for seed in range(30))["refused"] >= 10


@pytest.mark.parametrize(
    "claim",
    [
        {"num_hidden_layers": 10**6},
        {"vocab_size": HUGE},
        {"hidden_size": HUGE},
        {"intermediate_size": HUGE},
        {"head_dim": HUGE},
        {"num_key_value_heads": HUGE},
        {"num_hidden_layers": -3},
    ],
)
def test_a_config_that_claims_more_than_the_weights_are_is_refused_before_it_is_built(
    claim: dict[str, int], prms: dict[str, Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(prms["whole"], tmp_path / "claims")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **claim}))
    with pytest.raises(ValueError, match=r"claims.config\.json"):
        PRM.load(folder)


@pytest.mark.parametrize("fact", ["block_count", "embedding_length", "feed_forward_length"])
def test_a_gguf_header_that_claims_more_than_the_file_is_refused(fact: str, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "claims.gguf")
    data = path.read_bytes()
    at = data.index(f"llama.{fact}".encode()) + len(f"llama.{fact}") + 4
    path.write_bytes(data[:at] + (10**9).to_bytes(4, "little") + data[at + 4 :])
    assert read_container(path).fact(fact) == 10**9
    with pytest.raises(ValueError, match=r"claims\.gguf"):
        load_model(path)


def test_what_a_model_claims_is_held_against_its_bytes() -> None:
    """2 layers of width 8 with 100 words in 1000 bytes: 800 numbers of at most 8000."""
    sound: Any = type("Config", (), {"num_hidden_layers": 2, "hidden_size": 8, "vocab_size": 100})
    check_claims(sound, 2, 1000, "here")
    with pytest.raises(ValueError, match="num_hidden_layers = 2"):
        check_claims(sound, 1, 1000, "here")
    with pytest.raises(ValueError, match="vocab_size = 100"):
        check_claims(sound, 2, 99, "here")


def rewritten(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    stored = json.loads((folder / "tokenizer.json").read_text())
    change(stored)
    (folder / "tokenizer.json").write_text(json.dumps(stored))


DOUBLING = {"type": "Replace", "pattern": {"Regex": "."}, "content": "aa"}


@pytest.mark.parametrize(
    "change",
    [
        lambda stored: stored.update(normalizer={"type": "Sequence", "normalizers": [DOUBLING] * 60}),
        lambda stored: stored.update(padding={"strategy": {"Fixed": HUGE}, "direction": "Right", "pad_to_multiple_of": None,
                                              "pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>"}),
        lambda stored: stored["model"].update(merges=[["nothing", "known"]]),
        lambda stored: stored["model"].update(type="None such"),
    ],
    ids=["grows", "pads", "merges", "kind"],
)  # fmt: skip
def test_a_hostile_tokenizer_is_refused(
    change: Callable[[dict[str, Any]], object], prms: dict[str, Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(prms["whole"], tmp_path / "hostile")
    rewritten(folder, change)
    with pytest.raises(ValueError, match="hostile"):
        PRM.load(folder)


def test_a_tokenizer_nested_without_end_or_too_large_is_refused(prms: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(prms["whole"], tmp_path / "hostile")
    file = folder / "tokenizer.json"
    file.write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"tokenizer\.json"):
        PRM.load(folder)
    sparse(file, 1 << 40)
    with pytest.raises(ValueError, match="no tokenizer or config has more"):
        PRM.load(folder)


def test_an_adapter_in_a_pickle_is_never_read(prms: dict[str, Path], tmp_path: Path) -> None:
    """Also if other safetensors lie beside it; peft by itself would take the pickle."""
    folder = shutil.copytree(prms["adapter"], tmp_path / "adapter")
    (folder / "adapter_model.safetensors").rename(folder / "other.safetensors")
    torch.save({}, folder / "adapter_model.bin")
    with pytest.raises(FileNotFoundError, match=r"adapter_model\.bin is a pickle.*never read"):
        PRM.load(folder)


def test_an_adapter_that_claims_a_huge_rank_is_refused(prms: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(prms["adapter"], tmp_path / "adapter")
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps({**config, "r": HUGE}))
    with pytest.raises(ValueError, match="claims the ranks"):
        PRM.load(folder)


def weights_changed(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> Path:
    path = folder / "model.safetensors"
    stored = load_file(path)
    change(stored)
    save_file(stored, path, metadata={"format": "pt"})
    return folder


def no_number(name: str, value: float) -> Callable[[dict[str, torch.Tensor]], object]:
    return lambda stored: stored[name].view(-1)[3].fill_(value)


NORM, MATRIX = "model.norm.weight", "model.layers.1.mlp.up_proj.weight"


@pytest.mark.parametrize(("name", "value"), [(NORM, float("nan")), (MATRIX, float("inf")), (MATRIX, -float("inf"))])
def test_weights_that_are_no_numbers_are_refused(name: str, value: float, tmp_path: Path) -> None:
    """An embedding that no canary uses among them; a GGUF file as a folder."""
    folder = weights_changed(backbone_folder(tmp_path / "decoder"), no_number(name, value))
    for load in (lambda: load_model(folder), lambda: load_backbone(folder, torch.float32)):
        with pytest.raises(
            ValueError, match=rf"decoder: its weights .*{name.removeprefix('model.')} hold NaN or infinity"
        ):
            load()


def test_weights_of_a_gguf_file_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "damaged.gguf")
    data = path.read_bytes()
    path.write_bytes(data[:-4] + np.float32("nan").tobytes())
    with pytest.raises(ValueError, match=r"damaged\.gguf: its weights .* hold NaN or infinity"):
        load_model(path)


def test_a_weight_whose_name_was_damaged_is_not_drawn_at_random(tmp_path: Path) -> None:
    """One bit in the name of a tensor: transformers by itself would put random numbers in its place."""
    folder = backbone_folder(tmp_path / "decoder")
    file = folder / "model.safetensors"
    file.write_bytes(
        file.read_bytes().replace(b"model.layers.1.mlp.up_proj.weight", b"model.layers.1.mlp.tp_proj.weight")
    )
    with pytest.raises(ValueError, match=r"decoder lacks 1 weights of a LlamaForCausalLM, .*up_proj\.weight first"):
        load_model(folder)


@pytest.mark.parametrize("damage", ["pads", "huge", "code"])
def test_the_tokenizer_of_a_server_is_held_to_the_same_rules(damage: str, tmp_path: Path) -> None:
    folder = tmp_path / "hostile"
    byte_tokenizer().save_pretrained(folder)
    assert http_policy("http://localhost:1/v1", tokenizer=str(folder)).tokenizer is not None
    if damage == "pads":
        rewritten(folder, lambda stored: stored.update(normalizer={"type": "Sequence", "normalizers": [DOUBLING] * 60}))
    elif damage == "huge":
        sparse(folder / "vocab.txt", 1 << 40)
    else:
        (folder / "evil.py").write_text("raise SystemExit('ran')")
        (folder / "tokenizer_config.json").write_text(
            json.dumps({"tokenizer_class": "Evil", "auto_map": {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}})
        )
    with pytest.raises(ValueError, match="hostile"):
        http_policy("http://localhost:1/v1", tokenizer=str(folder))


def sparse(path: Path, size: int) -> None:
    """A file that takes no room here."""
    with path.open("wb") as stream:
        stream.truncate(size)


HOLES: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "huge": lambda path: sparse(path, 1 << 40),
}


@pytest.mark.parametrize("hole", HOLES)
@pytest.mark.parametrize("name", ["config.json", "step_head.json", "tokenizer_config.json", "tokenizer.json"])
def test_what_is_no_plain_file_is_not_waited_for(
    name: str, hole: str, prms: dict[str, Path], traces: Path, tmp_path: Path
) -> None:
    """An archive of a model may hold pipes, links to devices and files of a terabyte."""
    folder = shutil.copytree(prms["whole"], tmp_path / "hostile")
    (folder / name).unlink()
    HOLES[hole](folder / name)
    assert isinstance(scores(folder, traces), str)


@pytest.mark.parametrize("hole", HOLES)
def test_a_calibration_that_is_no_plain_file_is_not_waited_for(hole: str, traces: Path, tmp_path: Path) -> None:
    (tmp_path / "judge").mkdir()
    HOLES[hole](tmp_path / "judge" / "calibration.json")
    assert isinstance(scores(tmp_path / "judge", traces), str)


def test_a_library_that_panics_is_a_damaged_file(prms: dict[str, Path], tmp_path: Path) -> None:
    """The tokenizers are written in Rust; what they raise then is no `Exception`."""
    folder = shutil.copytree(prms["whole"], tmp_path / "hostile")
    rewritten(folder, lambda stored: stored["model"].update(continuing_subword_prefix="x" * 1000))
    with pytest.raises(ValueError, match=r"hostile.*damaged.*PanicException"):
        PRM.load(folder)


@pytest.mark.parametrize("field", ["training", "head", "template"])
def test_a_part_of_a_config_that_is_no_object_is_refused(field: str, prms: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(prms["whole"], tmp_path / "hostile")
    stored = json.loads((folder / "step_head.json").read_text())
    values: list[Any] = ["../../etc/passwd", 3, [[]]]
    for value in values:
        (folder / "step_head.json").write_text(json.dumps({**stored, field: value}))
        with pytest.raises(ValueError, match=f"hostile.*{field} is an object"):
            PRM.load(folder)


@pytest.mark.parametrize("backbone", ["../../etc/passwd", "", "nobody/nothing", "\x00", "http://localhost:1/x"])
def test_an_adapter_whose_backbone_cannot_be_is_refused_with_its_name(
    backbone: str, prms: dict[str, Path], traces: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(prms["adapter"], tmp_path / "hostile")
    stored = json.loads((folder / "step_head.json").read_text())
    (folder / "step_head.json").write_text(json.dumps({**stored, "backbone": backbone}))
    assert isinstance(scores(folder, traces), str)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"megatron_config": {"a": 1}, "megatron_core": "evil"}, "sets megatron_config, which can load code"),
        ({"corda_config": {"cache_file": "evil.pt"}, "init_lora_weights": "corda"}, "sets corda_config"),
        ({"peft_type": "MULTITASK_PROMPT_TUNING"}, "only LORA"),
        ({"target_modules": "(a+)+$"}, "for ever"),
        ({"rank_pattern": {"(.*)*x": 2}}, "for ever"),
        ({"exclude_modules": ".*" * 9 + "x"}, "for ever"),
    ],
)
def test_an_adapter_cannot_name_code_to_load_nor_a_pattern_without_end(
    settings: dict[str, Any], said: str, prms: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older versions of peft import whichever module `megatron_core` names as soon as there is a `megatron_config`."""
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    folder = shutil.copytree(prms["adapter"], tmp_path / "adapter")
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps({**config, **settings}))
    with pytest.raises(ValueError, match=f"adapter.*{said}"):
        PRM.load(folder)
    assert not (tmp_path / "ran").exists()
