"""Loading from a folder, a hub id or a GGUF file, the same way everywhere: no pickles, no remote code, nothing printed.

And batches of like length, so that a pass over many sequences has little padding.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from huggingface_hub import constants
from huggingface_hub.errors import (
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from safetensors import safe_open
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging as chatter

from footfall.damaged import check_claims, check_sizes, check_tokenizer, naming, says_no_memory
from footfall.gguf import gguf_tokenizer, load_gguf
from footfall.gguf.container import is_gguf
from footfall.terminal import one_line

_VOCABULARIES = ("tokenizer.json", "*.model", "vocab.*", "*.tiktoken", "tekken.json")
"""What tokenizers are kept in; the other files only say how one is used."""
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "adapter_config.json")
"""One of these names the weights of a folder."""
_HUB_FILES = ("*.json", "*.model", "*.txt", "*.jinja")
"""What is fetched of a hub id beside its weights."""
_UNFETCHED = (LocalEntryNotFoundError, RepositoryNotFoundError)
"""What the hub's library raises where it has nothing to give."""

# Since torch 2.11 cuDNN's attention is the default on H100 and H200, and its backward pass gives NaN where there is a mask,
# 64 keys more than a multiple of 128, and scores far below zero (pytorch issue 196678), which Qwen2.5 has: training would stop.
torch.backends.cuda.enable_cudnn_sdp(False)


def pick_device(device: str | None) -> torch.device:
    """The named device, or CUDA where there is one; a name of none, or of one that is not here, is an error with the fix."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    usual = "--device takes cpu, cuda or cuda:N; leave it out for CUDA where there is one"
    if device.partition(":")[0].lower() in ("gpu", "nvidia"):
        raise ValueError(f"no device is called {device!r}: an NVIDIA GPU is cuda; {usual}")
    try:
        place = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"no device is called {device!r}; {usual}") from error
    if place.type not in ("cpu", "cuda", "mps"):
        raise ValueError(f"--device {device}: models are not run there; {usual}")
    if place.type == "cuda" and not torch.cuda.is_available():
        why = "this build of torch has no CUDA" if torch.version.cuda is None else "torch finds no CUDA device here"
        raise ValueError(f"--device {device}: {why}; pass --device cpu, or see `footfall info` and `nvidia-smi`")
    if place.type == "cuda" and (place.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"--device {device}: there are {torch.cuda.device_count()} CUDA devices, counted from cuda:0")
    if place.type == "mps" and not torch.backends.mps.is_available():
        raise ValueError(f"--device {device}: there is no Apple GPU that torch can use; pass --device cpu")
    return place


def pick_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 on CUDA, float32 elsewhere."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def out_of_memory(error: RuntimeError) -> bool:
    """Whether a device had too little memory: torch's own error, or what a library or the driver says of it."""
    return isinstance(error, torch.cuda.OutOfMemoryError) or says_no_memory(str(error))


def give_memory_back() -> None:
    """What nobody holds any more goes back to the device, where other processes may wait for it."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def free_memory(device: torch.device) -> int:
    """Bytes of a CUDA device that this process could take now: those that nobody holds, and those that it holds unused."""
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + unused


@contextmanager
def single_threaded() -> Iterator[None]:
    """Sums in one order: another number of threads rounds otherwise, and side by side they would wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and no warnings from transformers: a head left behind on purpose would be reported as lost."""
    level, bars = chatter.get_verbosity(), chatter.is_progress_bar_enabled()
    chatter.set_verbosity_error()  # type: ignore[no-untyped-call]
    chatter.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        chatter.set_verbosity(level)
        if bars:
            chatter.enable_progress_bar()  # type: ignore[no-untyped-call]


def hub_id(source: str | Path) -> tuple[str, str | None]:
    """Name and revision of `owner/name@revision`, a branch, tag or commit; a folder's or a file's name is no hub id's."""
    name, _, revision = str(source).partition("@")
    return (str(source), None) if not revision or Path(source).exists() else (name, revision)


def local_folder(source: str | Path, weights: bool = True) -> Path:
    """The folder itself, or the downloaded snapshot of a hub id; of `owner/name@revision` that branch, tag or commit."""
    folder = Path(source)
    if folder.is_dir():
        return folder
    if is_gguf(folder) and folder.is_file():
        made = f"[each.save_pretrained('FOLDER') for each in load_model({str(source)!r}, 'cpu')]"
        raise ValueError(
            f"{source} is a GGUF file, and a folder as hubs have it is needed here (config.json, safetensors); this makes one "
            f'of it: python -c "from footfall.loading import load_model; {made}"'
        )
    name, revision = hub_id(source)
    if name.startswith((".", "/", "~")) or name.count("/") != 1:
        raise FileNotFoundError(f"{source}: there is no such folder, and it is no hub id (owner/name)")
    from huggingface_hub import snapshot_download

    try:
        files = [*_HUB_FILES, *(["*.safetensors"] if weights else [])]
        return Path(snapshot_download(name, revision=revision, allow_patterns=files))
    except (OSError, ValueError) as error:
        raise FileNotFoundError(f"{source} is no folder here; taken for a hub id, {why_not_fetched(error)}") from error


def at_revision(source: str | Path, weights: bool = True) -> str | Path:
    """The source as transformers takes it: of `owner/name@revision` the folder of its snapshot.

    Told the revision of an adapter, transformers would ask the adapter's base for it too.
    """
    return source if hub_id(source)[1] is None else local_folder(source, weights)


def load_tokenizer(source: str) -> Any:
    """The tokenizer of a folder, hub id or GGUF file; no remote code."""
    if is_gguf(source):
        return gguf_tokenizer(source)
    source = str(at_revision(source, weights=False))
    check_tokenizer(Path(source))
    if Path(source).is_dir() and not any(next(Path(source).glob(pattern), None) for pattern in _VOCABULARIES):
        raise FileNotFoundError(f"{source} has no tokenizer.json, nor a vocabulary under another name: copy it there")
    with naming(source):
        return AutoTokenizer.from_pretrained(source, trust_remote_code=False)


def check_folder(folder: str | Path) -> None:
    """The weights of a folder are whole, and its config claims no more than they hold; a hub id is not looked at."""
    if not Path(folder).is_dir():
        return
    check_sizes(Path(folder))
    files = sorted(Path(folder).glob("*.safetensors"))
    if files and not any((Path(folder) / name).is_file() for name in _WEIGHTS):
        raise FileNotFoundError(
            f"{folder} has {files[0].name}, but weights are loaded from model.safetensors or from the files that "
            "model.safetensors.index.json names: rename it, or fetch the index"
        )
    tensors = 0
    for file in files:
        with naming(file), safe_open(file, framework="pt") as opened:
            tensors += len(opened.keys())
    if files and (Path(folder) / "config.json").is_file():
        with naming(Path(folder) / "config.json"):
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
            check_claims(config, tensors, sum(file.stat().st_size for file in files), Path(folder) / "config.json")


def load_model(
    source: str | Path, device: str | None = None, dtype: torch.dtype | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Model and tokenizer of a folder, hub id or GGUF file: no pickles, no remote code."""
    place = pick_device(device)
    kind = dtype or pick_dtype(place)
    with quiet():
        if is_gguf(source):
            model, tokenizer = load_gguf(source, place, kind)
            check_weights(model, (), source)
            return model, tokenizer
        source = at_revision(source)
        check_folder(source)
        with naming(source):
            loaded: Any = _fetching(
                lambda: AutoModelForCausalLM.from_pretrained(
                    source, dtype=kind, use_safetensors=True, trust_remote_code=False, output_loading_info=True
                ),
                source,
            )
    model, info = loaded
    merge_adapter(model)
    model.to(place).train(False)
    check_weights(model, info["missing_keys"], source)
    # Of a module that the model lacks, weights have its name before a dot; published checkpoints have some that nobody misses.
    if own := sorted(name for name in info["unexpected_keys"] if "." not in name):
        raise ValueError(
            f"{source} holds weights that a {type(model).__name__} has no place for ({', '.join(own)}), and without them it is "
            "another model; several output heads are mixed into one before a model is saved"
        )
    return model, load_tokenizer(str(source))


def merge_adapter(model: Any) -> None:
    """Put a LoRA adapter into the weights of the model that its folder was loaded as.

    transformers leaves it beside them and freezes all of them: a training would reach none but those of a new head.
    """
    if not getattr(model, "_hf_peft_config_loaded", False):
        return
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils.other import AuxiliaryTrainingWrapper

    for name, module in list(model.named_modules()):
        if isinstance(module, AuxiliaryTrainingWrapper):
            raise ValueError(
                f"the adapter has a {name} of its own: merge it into its base by peft's merge_and_unload first"
            )
        if isinstance(module, BaseTunerLayer):
            module.merge()
            model.set_submodule(name, module.get_base_layer())
    del model.peft_config
    model._hf_peft_config_loaded = False
    model.requires_grad_(True)


def _fetching(load: Callable[[], Any], source: str | Path) -> Any:
    """What `load` gives; where the hub gave nothing, an error that says why in one way, whichever library found out."""
    try:
        return load()
    except OSError as error:
        if Path(source).exists() or not any(isinstance(each, _UNFETCHED) for each in _causes(error)):
            raise
        raise FileNotFoundError(f"{source} is no folder here; taken for a hub id, {why_not_fetched(error)}") from error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def why_not_fetched(error: Exception) -> str:
    """Why the hub gave nothing, and what to do."""
    elsewhere = "download it where there is a network (`hf download`) and give its folder"
    if isinstance(error, HFValidationError):
        return f"it is none: {one_line(str(error), 200)}"
    if isinstance(error, RevisionNotFoundError):
        return "it has no such revision: name a branch, a tag or a whole commit hash behind the @"
    if constants.HF_HUB_OFFLINE:
        return (
            f"it is not whole in the hub's cache, and HF_HUB_OFFLINE forbids asking the hub: unset it, or {elsewhere}"
        )
    answered = next((each for each in _causes(error) if isinstance(each, HfHubHTTPError)), None)
    code = getattr(getattr(answered, "response", None), "status_code", None)
    if code in (401, 403, 404):
        return (
            f"the hub does not give it ({code}): there is no model of this name, or it is private or gated; check the name, or "
            "accept the terms on its page and log in (`hf auth login`, or HF_TOKEN)"
        )
    why = one_line(str(answered or error.__cause__ or error), 200)
    return f"it is not in the hub's cache, and the hub was not reached ({why}); try again, or {elsewhere}"


def check_weights(model: Any, missing: Iterable[str], source: str | Path) -> None:
    """Every weight came from the files, none at random, and all are numbers: a sum is finite just if they are."""
    if missing := sorted(missing):
        raise ValueError(f"{source} lacks {len(missing)} weights of a {type(model).__name__}, {missing[0]} first")
    sums = {
        name: weight.sum(dtype=torch.float32) for name, weight in model.named_parameters() if weight.dtype in _SUMMED
    }
    if sums and not torch.isfinite(torch.stack([each.to("cpu") for each in sums.values()])).all():
        name = next(name for name, each in sums.items() if not torch.isfinite(each))
        raise ValueError(f"{source}: its weights {name} hold NaN or infinity; the file is damaged, copy it again")


_SUMMED = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def pack(
    lengths: Sequence[int], token_budget: int, max_waste: float = 0.25, pasts: Sequence[int] = ()
) -> list[list[int]]:
    """Groups of indices, longest first; padded, a group holds at most `token_budget` tokens and `max_waste` padding.

    `pasts` are tokens before each, which take room, padded too, but are not run. A single trace longer than the budget is a
    group of its own.
    """
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    groups: list[list[int]] = []
    tokens = deepest = 0
    for i in order:
        past = pasts[i] if pasts else 0
        if groups:
            rows, longest = len(groups[-1]) + 1, lengths[groups[-1][0]]
            fits = (longest + max(deepest, past)) * rows <= token_budget
            if fits and tokens + lengths[i] >= (1 - max_waste) * longest * rows:
                groups[-1].append(i)
                tokens, deepest = tokens + lengths[i], max(deepest, past)
                continue
        groups.append([i])
        tokens, deepest = lengths[i], past
    return groups


def padded(rows: Sequence[Sequence[int]], pad_id: int = 0, multiple: int = 1) -> Tensor:
    """(N, T): N sequences of ids padded on the right, to a `multiple` of tokens."""
    longest = -(-max(map(len, rows)) // multiple) * multiple
    ids = np.full((len(rows), longest), pad_id, np.int64)
    for n, row in enumerate(rows):
        ids[n, : len(row)] = row
    return torch.from_numpy(ids)
