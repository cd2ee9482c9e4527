"""How likely given texts are to come next: in process against a plain forward pass, and from a server's top logprobs."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
import torch

from footfall.policy.http import HttpPolicy, http_policy
from footfall.policy.protocol import Chooser
from footfall.policy.torch_policy import TorchPolicy
from footfall.render import encode
from footfall.types import Message, Problem, Step, Trajectory
from tests.policy.tiny_models import tiny_model
from tests.reward.tiny_checkpoints import causal_lm, qwen_tokenizer, sentencepiece_tokenizer

torch.set_num_threads(1)


def prefix(text: str, *steps: str) -> Trajectory:
    return Trajectory(text, Problem(text, text), tuple(map(Step, steps)), separator="")


PREFIXES = [
    prefix("Is it right?", "It is:"),
    prefix("Is the answer 4 right, and if so, why?", "Let us see. It is:"),
    prefix("Well?", "A:"),
]


class TestInProcess:
    def test_choices_are_the_log_softmax_of_a_plain_forward_pass_at_the_last_token(self) -> None:
        tokenizer = qwen_tokenizer()
        policy = TorchPolicy(causal_lm("qwen2", len(tokenizer)), tokenizer, label="tiny")
        plain = causal_lm("qwen2", len(tokenizer))
        yes, no = (tokenizer.convert_tokens_to_ids(t) for t in ("ĠYes", "ĠNo"))
        found = policy.choices(PREFIXES, (" Yes", " No"))
        for trajectory, (got_yes, got_no) in zip(PREFIXES, found, strict=True):
            ids = encode(tokenizer, trajectory, policy.template).ids
            with torch.inference_mode():
                expected = plain(input_ids=torch.tensor([ids])).logits[0, -1].float().log_softmax(-1)
            assert got_yes == pytest.approx(float(expected[yes]), abs=2e-5)
            assert got_no == pytest.approx(float(expected[no]), abs=2e-5)

    def test_a_model_that_caps_its_logits_is_read_after_the_cap(self) -> None:
        tokenizer = qwen_tokenizer()
        model, plain = tiny_model("gemma2-softcap"), tiny_model("gemma2-softcap")
        assert len(tokenizer) <= model.config.vocab_size
        policy = TorchPolicy(model, tokenizer, label="tiny")
        ids = encode(tokenizer, PREFIXES[0], policy.template).ids
        with torch.inference_mode():
            expected = plain(input_ids=torch.tensor([ids])).logits[0, -1].float().log_softmax(-1)
        yes = tokenizer.convert_tokens_to_ids("Yes")
        assert policy.choices(PREFIXES[:1], ("Yes",))[0][0] == pytest.approx(float(expected[yes]), abs=2e-5)

    def test_a_prefix_alone_and_in_a_batch_gets_the_same(self) -> None:
        tokenizer = qwen_tokenizer()
        policy = TorchPolicy(causal_lm("qwen2", len(tokenizer)), tokenizer, label="tiny")
        many = [prefix(f"{'word ' * k}?", "So") for k in range(20)]
        together = policy.choices(many, ("Yes", "No"))
        for trajectory, expected in zip(many[::7], together[::7], strict=True):
            assert policy.choices([trajectory], ("Yes", "No"))[0] == pytest.approx(expected, abs=2e-5)

    def test_sentencepiece_puts_no_space_before_an_option_that_has_none(self) -> None:
        tokenizer = sentencepiece_tokenizer()
        policy = TorchPolicy(causal_lm("llama", len(tokenizer)), tokenizer, label="tiny")
        plain = causal_lm("llama", len(tokenizer))
        ids = encode(tokenizer, PREFIXES[0], policy.template).ids
        with torch.inference_mode():
            expected = plain(input_ids=torch.tensor([ids])).logits[0, -1].float().log_softmax(-1)
        bare, spaced = policy.choices(PREFIXES[:1], ("+", " +"))[0]
        assert bare == pytest.approx(float(expected[tokenizer.convert_tokens_to_ids("+")]), abs=2e-5)
        assert spaced == pytest.approx(float(expected[tokenizer.convert_tokens_to_ids("▁+")]), abs=2e-5)

    def test_options_that_begin_alike_are_refused(self) -> None:
        tokenizer = qwen_tokenizer()
        policy: Chooser = TorchPolicy(causal_lm("qwen2", len(tokenizer)), tokenizer, label="tiny")
        with pytest.raises(ValueError, match="different tokens"):
            policy.choices(PREFIXES, (" Yes.", " Yes!"))


class _Server(BaseHTTPRequestHandler):
    """Answers every sampling request with `logprobs`, and keeps what it was asked."""

    logprobs: ClassVar[Any] = None
    status: ClassVar[int] = 200
    asked: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        self.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        text = {"message": {"role": "assistant", "content": "Yes"}} if "chat" in self.path else {"text": "Yes"}
        choice = {"index": 0, "finish_reason": "length", "logprobs": self.logprobs, **text}
        body = json.dumps({"choices": [choice]} if self.status == 200 else {"error": "busy"}).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


class TestServer:
    @pytest.fixture(autouse=True)
    def behave(self) -> None:
        _Server.logprobs, _Server.status, _Server.asked = None, 200, []

    def policy(self, address: str, **options: Any) -> HttpPolicy:
        return http_policy(address, **{"model": "toy", "retries": 1, "first_wait": 0.0, **options})

    def test_completions_asks_for_one_token_and_reads_the_twenty_likeliest(self, address: str) -> None:
        _Server.logprobs = {"tokens": [" Yes"], "token_logprobs": [-0.3], "top_logprobs": [{" Yes": -0.3, " No": -1.6}]}
        assert self.policy(address).choices(PREFIXES[:1], (" Yes", " No")) == [(-0.3, -1.6)]
        asked = _Server.asked[0]
        assert (asked["max_tokens"], asked["logprobs"], asked["temperature"]) == (1, 20, 1.0)
        assert asked["prompt"] == "Is it right?\nIt is:"

    def test_chat_goes_on_with_the_assistant_turn(self, address: str) -> None:
        rows = [{"token": "No", "logprob": -0.1}, {"token": "Yes", "logprob": -2.5}]
        _Server.logprobs = {"content": [{"token": "No", "logprob": -0.1, "top_logprobs": rows}]}
        question = Problem("p", (Message("system", "Judge."), Message("user", "2 + 2 = 5")))
        found = self.policy(address, mode="chat").choices(
            [Trajectory("t", question, (Step("It is {"),), separator="")], ("Yes", "No")
        )
        assert found == [(-2.5, -0.1)]
        assert _Server.asked[0]["messages"][-1] == {"role": "assistant", "content": "It is {"}
        assert (_Server.asked[0]["logprobs"], _Server.asked[0]["top_logprobs"]) == (True, 20)

    def test_an_option_that_is_not_listed_takes_the_smallest_listed_logprob(self, address: str) -> None:
        _Server.logprobs = {"top_logprobs": [{" Yes": -0.1, " yes": -4.0, " Maybe": -5.5}]}
        assert self.policy(address).choices(PREFIXES[:1], (" Yes", " No")) == [(-0.1, -5.5)]

    def test_nothing_is_known_of_options_of_which_none_is_listed(self, address: str) -> None:
        """Were both given the smallest logprob, a judge that goes on with other words would say 0.5."""
        _Server.logprobs = {"top_logprobs": [{"I": -0.1, " think": -4.0}]}
        assert self.policy(address).choices(PREFIXES[:1], (" Yes", " No")) == [(None, None)]

    def test_a_longer_option_is_found_by_its_first_token_and_a_shared_one_belongs_to_nobody(self, address: str) -> None:
        _Server.logprobs = {"top_logprobs": [{" in": -0.5, " ": -0.9, " corr": -2.0, " correctly": -3.0}]}
        assert self.policy(address).choices(PREFIXES[:1], (" correct", " incorrect")) == [(-2.0, -0.5)]

    def test_a_server_without_logprobs_gives_none(self, address: str) -> None:
        assert self.policy(address).choices(PREFIXES, (" Yes", " No")) == [(None, None)] * 3
        assert self.policy(address, logprobs=False).choices(PREFIXES, (" Yes", " No")) == [(None, None)] * 3
        assert len(_Server.asked) == 3

    def test_a_server_that_fails_gives_none_after_its_retries(self, address: str) -> None:
        _Server.status = 503
        assert self.policy(address).choices(PREFIXES[:1], (" Yes", " No")) == [(None, None)]
        assert len(_Server.asked) == 2

    def test_numbers_that_are_none_are_not_believed(self, address: str) -> None:
        _Server.logprobs = {"top_logprobs": [{" Yes": math.nan}]}
        assert self.policy(address).choices(PREFIXES[:1], (" Yes", " No")) == [(None, None)]
