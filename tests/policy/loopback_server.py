"""A small OpenAI-like server for the tests, run as a process of its own: deterministic, and able to misbehave on demand.

    python loopback_server.py LOG [PORT [SETTINGS]]

It prints its port, answers as a function of prompt and seed alone, and appends one line of JSON to LOG for each sampling
request it took and for each it answered. `POST /control`, or SETTINGS as JSON, sets how it behaves. The faults are a list of
`{"kind", "times", "match"}`, each for the first `times` attempts of every request whose prompt holds `match`; with `every` and
`turn` only for those of all calls so far whose number leaves the rest `turn`.

With `llama_cpp` it answers as llama.cpp's server does: it gives back the chat turn that it goes on with, does not tell the
token that meets a stop string, counts the first choice only, and says in `__verbose` what stopped that one if it is asked to.

With `uuids` it takes a request only if its id is a UUID, as llama-cpp-python's server does.

A `lead` comes before its text, unless the prompt ends with it.

With a `vocabulary`, a list of texts by id, it reads prompts of ids, writes in those tokens, tells their ids and, if asked for
more than one, the two likeliest tokens in each place: `doubts` maps texts of tokens to those that it nearly wrote instead.

With `torn`, chances by word, a chat reply lists these as the likeliest tokens in its first place.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

WORDS = ("so", "then", "thus", "add", "take", "give", "two", "three", "four", "ten")
EOS = "</s>"


def write_text(prompt: str, seed: int) -> str:
    """Two to four steps of words with a blank line between them; nothing but prompt and seed matter."""
    digits = hashlib.sha256(f"{seed}|{prompt}".encode()).digest()
    steps = [
        " ".join(WORDS[d % 10] for d in digits[k * 5 : k * 5 + 2 + digits[k] % 3]) for k in range(2 + digits[9] % 3)
    ]
    return "\n\n".join(steps)


def solve(prompt: str, seed: int) -> str:
    """What is missing of a solution in three steps, of which the prompt holds the beginning, the middle of a step included.

    The answer, -1 three times in four, depends on prompt and seed. The problem ends with the first "?" before a line break.
    """
    digits = hashlib.sha256(f"{seed}|{prompt}".encode()).digest()
    written = prompt.partition("?\n")[2] or prompt.partition("<assistant>")[2]
    answer = "-1" if digits[0] % 4 else "1"
    steps = [
        f"Take {WORDS[digits[1] % 10]} {WORDS[digits[2] % 10]}.",
        f"So 3 - 4 = {answer}.",
        f"It is \\boxed{{{answer}}}",
    ]
    closed, begun = written.count("\n\n"), written.rpartition("\n\n")[2]
    if not begun:
        return "\n\n".join(steps[closed:])
    rest = f" {WORDS[digits[3] % 10]}." if closed < 2 else "" if "\\boxed" in begun else f" \\boxed{{{answer}}}"
    return "\n\n".join([rest, *steps[closed + 1 :]])


def tokens_of(text: str) -> list[str]:
    """Words with their leading space; the separator hangs on the word before it, as BPE vocabularies like it."""
    return [piece for piece in text.replace(" ", "\0 ").replace("\n\n", "\n\n\0").split("\0") if piece]


def spelled(text: str, vocabulary: list[str]) -> list[int]:
    """The text in the longest tokens of a vocabulary that fit, from left to right."""
    ids: list[int] = []
    while text:
        ids.append(
            max(
                (i for i, own in enumerate(vocabulary) if own and text.startswith(own)),
                key=lambda i: len(vocabulary[i]),
            )
        )
        text = text[len(vocabulary[ids[-1]]) :]
    return ids


class Loopback:
    def __init__(self, log: Path) -> None:
        self.log = log
        self.settings: dict[str, Any] = {}
        self.attempts: Counter[str] = Counter()
        self.in_flight = self.calls = self.failed = 0

    def record(self, **entry: Any) -> None:
        with self.log.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                method, path, _ = line.decode().split()
                headers = {}
                while (header := await reader.readline()).strip():
                    name, _, value = header.decode().partition(":")
                    headers[name.strip().lower()] = value.strip()
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                if not await self.answer(method, path, headers, body, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def answer(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Answer one request; False closes the connection."""
        if path == "/control":
            self.settings = json.loads(body)
            self.attempts.clear()
            return await send(writer, 200, {})
        if path == "/calls":
            return await send(writer, 200, {"calls": self.calls, "failed": self.failed})
        key = self.settings.get("api_key")
        if key and headers.get("authorization") != f"Bearer {key}":
            return await send(writer, 401, {"error": {"message": f"bad key in {headers.get('authorization')}"}})
        if path == "/v1/models":
            return await send(writer, 200, {"data": [{"id": name} for name in self.settings.get("models", ["toy"])]})
        if path not in ("/v1/completions", "/v1/chat/completions"):
            return await send(writer, 404, {"detail": "Not Found"})
        if self.settings.get("uuids") and not is_uuid(headers.get("x-request-id", "")):
            return await send(writer, 400, {"error": "Invalid UUID in request header X-Request-ID"})
        request = json.loads(body)
        prompt = prompt_of(request, self.settings.get("vocabulary"))
        name = f"{request['seed']}|{prompt}"
        self.attempts[name] += 1
        self.in_flight += 1
        entry = {"key": name, "attempt": self.attempts[name], "id": headers.get("x-request-id"), "request": request}
        self.record(event="took", in_flight=self.in_flight, time=asyncio.get_running_loop().time(), **entry)
        try:
            return await self.sample(request, prompt, self.attempts[name], reader, writer)
        finally:
            self.in_flight -= 1

    async def sample(
        self,
        request: dict[str, Any],
        prompt: str,
        attempt: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        await asyncio.sleep(self.settings.get("delay", 0.0))
        self.calls += 1
        for fault in self.settings.get("faults", []):
            due = self.calls % fault.get("every", 1) == fault.get("turn", 0)
            if due and attempt <= fault.get("times", 10**9) and fault.get("match", "") in prompt:
                self.failed += 1
                return await self.misbehave(fault, request, prompt, reader, writer)
        if request.get("model") not in self.settings.get("models", ["toy"]):
            return await send(writer, 404, {"error": {"message": f"The model `{request['model']}` does not exist."}})
        # Before the bytes go, so that a client that has its answer finds the line in the log.
        self.record(event="answered", key=f"{request['seed']}|{prompt}")
        return await send(writer, 200, self.reply(request, prompt))

    async def misbehave(
        self,
        fault: dict[str, Any],
        request: dict[str, Any],
        prompt: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        kind = fault["kind"]
        good = self.reply(request, prompt)
        if kind.isdigit():
            message = fault.get("message", f"trouble {kind}")
            headers = {"Retry-After": fault["retry_after"]} if "retry_after" in fault else {}
            return await send(writer, int(kind), {"error": {"message": message}}, headers)
        if kind == "stall":
            gone = await asyncio.wait_for(reader.read(1), 60)  # returns when the client hangs up
            self.record(event="hung-up" if not gone else "pipelined", key=f"{request['seed']}|{prompt}")
        elif kind == "drip":
            return await self.drip(writer)
        elif kind == "body":
            return await send_bytes(
                writer, fault.get("status", 200), fault["body"].encode("latin-1"), fault.get("headers")
            )
        elif kind == "raw":
            writer.write(fault["raw"].encode("latin-1"))
            await writer.drain()
        elif kind == "endless":
            return await self.endless(writer, fault["raw"].encode("latin-1"))
        elif kind == "drop":
            body = json.dumps(good).encode()
            writer.write(head(200, len(body)) + body[: len(body) // 2])
            await writer.drain()
        elif kind == "truncated":
            body = json.dumps(good).encode()[:-20]
            writer.write(head(200, len(body)) + body)
            await writer.drain()
            return True
        elif kind == "wrong-n":
            return await send(writer, 200, {**good, "choices": good["choices"][:-1]})
        elif kind == "nan":
            good["choices"][0]["logprobs"]["token_logprobs"][0] = float("nan")
            return await send(writer, 200, good)
        elif kind == "huge":
            return await send(writer, 200, {**good, "padding": "x" * 3_000_000})
        return False

    async def drip(self, writer: asyncio.StreamWriter) -> bool:
        writer.write(head(200, 1000))
        for _ in range(1000):
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.05)
        return False

    async def endless(self, writer: asyncio.StreamWriter, again: bytes) -> bool:
        """The same bytes until the client has enough, or after a hundred megabytes."""
        writer.write(b"HTTP/1.1 200 X\r\nContent-Type: application/json\r\n\r\n")
        for _ in range(100 * 2**20 // len(again)):
            writer.write(again)
            await writer.drain()
        return False

    def reply(self, request: dict[str, Any], prompt: str) -> dict[str, Any]:
        chat = "messages" in request
        choices = [self.choice(request, prompt, k, chat) for k in range(request.get("n", 1))]
        if self.settings.get("llama_cpp"):
            return as_llama_cpp(request, choices, len(prompt.split()))
        reply: dict[str, Any] = {"id": "x", "model": request.get("model"), "choices": choices[::-1]}
        if not self.settings.get("no_usage"):
            n_tokens = sum(
                len(tokens_of(choice["message"]["content"] if chat else choice["text"])) for choice in choices
            )
            n_tokens = 0 if self.settings.get("no_tokens") else n_tokens
            reply["usage"] = {"prompt_tokens": len(prompt.split()), "completion_tokens": n_tokens}
            reply["usage"]["prompt_tokens_details"] = {"cached_tokens": self.settings.get("cached", 0)}
        return reply

    def choice(self, request: dict[str, Any], prompt: str, k: int, chat: bool) -> dict[str, Any]:
        write = solve if self.settings.get("solve") else write_text
        text = self.settings.get("text") or write(prompt, request["seed"] + k)
        lead = self.settings.get("lead", "")
        text = text if prompt.endswith(lead) else lead + text
        finish, stop = "stop", None
        vocabulary: list[str] = self.settings.get("vocabulary") or []
        tokens = [*([vocabulary[i] for i in spelled(text, vocabulary)] if vocabulary else tokens_of(text)), EOS]
        if request["max_tokens"] < len(tokens):
            tokens, finish = tokens[: request["max_tokens"]], "length"
            text = "".join(tokens)
        for string in request.get("stop", []):
            if string in text:
                text, finish, stop = text[: text.index(string)], "stop", string
                n_kept = next(i for i in range(len(tokens) + 1) if string in "".join(tokens[:i]))
                tokens = tokens[:n_kept]
        values = [-0.25 * (1 + i) for i in range(len(tokens))]
        choice: dict[str, Any] = {"index": k, "finish_reason": finish}
        if not self.settings.get("no_stop_reason"):
            choice["stop_reason"] = stop
        if request.get("return_token_ids") and not self.settings.get("no_ids"):
            choice["token_ids"] = [vocabulary.index(token) if vocabulary else len(token) for token in tokens]
        if chat:
            choice["message"] = {"role": "assistant", "content": text}
            rows: list[dict[str, Any]] = [
                {"token": token, "logprob": value} for token, value in zip(tokens, values, strict=True)
            ]
            if torn := self.settings.get("torn"):
                rows[0]["top_logprobs"] = [{"token": word, "logprob": value} for word, value in torn.items()]
            choice["logprobs"] = {"content": rows} if request.get("logprobs") else None
        else:
            choice["text"] = text
            table = {"tokens": tokens, "token_logprobs": values}
            if vocabulary and request.get("logprobs", 0) > 1:
                table |= self.likeliest(tokens, bool(request.get("return_tokens_as_token_ids")))
            told = request.get("logprobs") is not None and not self.settings.get("no_logprobs")
            choice["logprobs"] = table if told else None
        return choice

    def likeliest(self, tokens: list[str], in_ids: bool) -> dict[str, Any]:
        """Sure of a token (0.98, and 0.01 for another), or torn between two (0.5 and 0.25)."""
        vocabulary, doubts = self.settings["vocabulary"], self.settings.get("doubts", {})
        name = (
            (lambda token: f"token_id:{vocabulary.index(token)}") if in_ids and not self.settings.get("texts") else str
        )
        rows = [
            {name(token): -0.6931, name(doubts[token]): -1.3863} if token in doubts
            else {name(token): -0.0202, name("!"): -4.6052}
            for token in tokens
        ]  # fmt: skip
        return {"tokens": [name(token) for token in tokens], "top_logprobs": rows}


def as_llama_cpp(request: dict[str, Any], choices: list[dict[str, Any]], prompt_tokens: int) -> dict[str, Any]:
    """The same reply in the shape that llama.cpp gave it in October 2026."""
    stopped = [choice.pop("stop_reason") for choice in choices]
    for choice, stop in zip(choices, stopped, strict=True):
        if choice["logprobs"]:
            rows = llama_cpp_rows(choice, stop or EOS)
            choice["logprobs"] = {"content": rows} if any(row["token"] for row in rows) else None
        turn = request["messages"][-1] if "messages" in request else {}
        if turn.get("role") == "assistant":
            choice["message"]["content"] = turn["content"] + choice["message"]["content"]
    kind = "limit" if choices[0]["finish_reason"] == "length" else "word" if stopped[0] else "eos"
    written = len((choices[0]["logprobs"] or {"content": ()})["content"]) + (kind == "word")
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": written, "total_tokens": prompt_tokens + written}
    reply = {"choices": choices, "model": "toy.gguf", "system_fingerprint": "b0-unknown", "usage": usage, "timings": {}}
    if request.get("verbose"):
        reply["__verbose"] = {"index": 0, "stop_type": kind, "stopping_word": stopped[0] or ""}
    return reply


def llama_cpp_rows(choice: dict[str, Any], end: str) -> list[dict[str, Any]]:
    """Its tokens with their ids, without the one that meets a stop string; the end of text is one without text."""
    table = choice["logprobs"]
    texts = table.get("tokens") or [row["token"] for row in table["content"]]
    values = table.get("token_logprobs") or [row["logprob"] for row in table["content"]]
    if choice["finish_reason"] == "stop" and end != EOS:
        texts, values = texts[:-1], values[:-1]
    elif choice["finish_reason"] == "stop":
        texts[-1] = texts[-1].removesuffix(end)
    return [
        {"id": len(text), "token": text, "bytes": list(text.encode()), "logprob": value, "top_logprobs": []}
        for text, value in zip(texts, values, strict=True)
    ]


def is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def prompt_of(request: dict[str, Any], vocabulary: list[str] | None = None) -> str:
    if "messages" in request:
        return "".join(f"<{turn['role']}>{turn['content']}" for turn in request["messages"])
    prompt = request["prompt"]
    if vocabulary and not isinstance(prompt, str):
        return "".join(vocabulary[i] for i in prompt)
    return prompt if isinstance(prompt, str) else " ".join(map(str, prompt))


def head(status: int, length: int, headers: dict[str, str] | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status} X", "Content-Type: application/json", f"Content-Length: {length}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def send(writer: asyncio.StreamWriter, status: int, body: object, headers: dict[str, str] | None = None) -> bool:
    return await send_bytes(writer, status, json.dumps(body).encode(), headers)


async def send_bytes(
    writer: asyncio.StreamWriter, status: int, content: bytes, headers: dict[str, str] | None = None
) -> bool:
    writer.write(head(status, len(content), headers) + content)
    await writer.drain()
    return True


async def main() -> None:
    loopback = Loopback(Path(sys.argv[1]))
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    loopback.settings = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}
    server = await asyncio.start_server(loopback.serve, "127.0.0.1", port, limit=2**24)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
