"""GenPRM (arXiv 2504.00891): for each step an analysis, Python that checks it, and Yes or No; the value is p(Yes).

The turns, tags and forced openings are the format the models were trained with (RyanLiu112/GenPRM, MIT licence:
src/prm_evaluation/genprm_inference.py, README). Where that code and the paper's method differ from the obvious:
- no assistant header stands before `<analyze>` in the released inference code (`add_generation_prompt=False`), and its
  published figures were made so; the same is done here wherever the dialogue is rendered here (a chat server adds one);
- the README begins the first turn by `Question: `, a blank line and step 1; the repository's evaluation script leaves the
  word out and joins by one newline. The README's form is used;
- that code values a critique without a verdict 0.5. Here it has no opinion.
Model code runs only in a sandbox (`code=true`) or in the `execute` that the caller brings. Without either the code part is left
out, as the original does when its budget is spent, and the judge's name says so. In a sandbox the blocks of one critique share
their names, as in GenPRM's own code: a later block runs in a session in which the earlier ones ran.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import Declared, register
from footfall.reward.generative.critic import (
    Critic,
    Critique,
    Opinion,
    Reply,
    Request,
    Settled,
    Verdict,
    labelled,
    settle,
)
from footfall.tools import Result, Sandbox
from footfall.types import Cost, Judged, Judgement, Message, Reason, Trajectory, Unjudged

_NO_VERDICT = Unjudged(Reason.UNREADABLE, "unparsable: the critique ends without Yes or No in a box")

Execute = Callable[[str], str]
"""Runs one block of Python and gives what it printed, or what went wrong, as text."""

SYSTEM = "You are a math teacher. Your task is to review and critique the paragraphs in solution step by step."
ANALYZE, ANALYZED = "<analyze>\nLet's analyze the Paragraph {k} step by step: ", "</analyze>\n"
VERIFY = "<verify>\nLet's use python code to find any potential error:\n```python\n"
FENCE, PRINTED = "\n```\n", "[Code Output]\n\n```\n{printed}\n```\n"
OUTPUT, ANSWERED = "<output>\n**Judgement**: $\\boxed", "</output>\n"
ROUNDS = 3
"""Of code and output, before the verdict is forced from the analysis alone."""
VERDICT_TOKENS = 20

_CODE = re.compile(r"```python(.*?)```", re.DOTALL)
_VERDICT = re.compile(r"boxed\{(?:\\text\{)?(Yes|No)\}")


def code_of(text: str) -> str | None:
    """The last fenced Python program in a critique."""
    programs = _CODE.findall(text)
    return programs[-1].strip() if programs else None


class InSandbox:
    """An `execute` behind walls, by default of five seconds a block; `after` are the blocks of the same critique so far."""

    def __init__(self, sandbox: Sandbox | None = None) -> None:
        self.sandbox = sandbox or Sandbox()

    def __call__(self, code: str, after: Sequence[str] = ()) -> str:
        with self.sandbox.session() as session:
            for block in after:
                session.run(block)
            return observation(session.run(code), self.sandbox.limits.seconds)


def in_sandbox(sandbox: Sandbox | None = None) -> InSandbox:
    """An `execute` for GenPRM."""
    return InSandbox(sandbox)


def observation(result: Result, seconds: float) -> str:
    """What the critic reads: what was printed, and what ended the program if it did not end by itself."""
    lines = [result.stdout.rstrip()] if result.stdout.strip() else []
    if result.timed_out:
        lines.append(f"Code execution time out: it was stopped after {seconds:g} seconds")
    elif result.killed_by is not None:
        lines.append(f"Code execution was stopped: {result.killed_by}")
    elif not result.ok:
        lines.append((result.stderr.strip() or f"exit code {result.exit_code}").splitlines()[-1])
    return "\n".join(lines)


@dataclass
class _Path:
    """One critique of one step as it grows. `analysis` and `text` are the assistant's turn from its beginning."""

    request: Request
    analysis: str = ""
    text: str = ""
    reason: Unjudged | None = None
    written: int = 0
    blocks: list[str] = field(default_factory=list)
    """Code that was run."""
    cost: Cost = field(default_factory=Cost)

    def take(self, reply: Reply) -> None:
        """Go on with a reply, its stop string included."""
        self.cost += reply.cost
        self.written += reply.cost.generated_tokens
        if reply.failure is not None:
            self.reason = reply.failure
        self.text += reply.text + (reply.stop or "")

    @property
    def verdict(self) -> int | None:
        """Where the last Yes or No stands in the text, after the analysis."""
        found = [m.start(1) for m in _VERDICT.finditer(self.text, len(self.analysis))]
        return found[-1] if found else None

    @property
    def open(self) -> bool:
        return self.reason is None and self.verdict is None

    @property
    def critique(self) -> Critique:
        """p(Yes) is asked for at the place of the last verdict."""
        if self.reason is not None or self.verdict is None:
            return Critique(self.text, self.cost, reason=self.reason or _NO_VERDICT)
        return Critique(self.text, self.cost, self.request.going_on(self.text[: self.verdict]))


@dataclass
class _Dialogue:
    """One trace: the turns so far and what was settled of its steps."""

    trajectory: Trajectory
    messages: list[Message] = field(default_factory=lambda: [Message("system", SYSTEM)])
    settled: list[Settled] = field(default_factory=list)

    def show_next_step(self) -> Request:
        k = len(self.settled)
        question = f"Question: {self.trajectory.problem.text}\n\n" if k == 0 else ""
        self.messages.append(Message("user", question + self.trajectory.steps[k].written))
        return Request(tuple(self.messages), ANALYZE.format(k=k + 1), (ANALYZED,), header=False)

    def hear(self, opinions: Sequence[Opinion]) -> None:
        """The first critique with an opinion stays in the dialogue; without one it cannot go on."""
        settled = settle(opinions)
        self.settled.append(settled)
        if settled.value is not None:
            self.messages.append(Message("assistant", settled.rationale or ""))
            return
        k, rest = len(self.settled), len(self.trajectory.steps) - len(self.settled)
        self.settled += [
            Settled(None, Unjudged(Reason.NOT_ASKED, f"step {k} has no critique that the dialogue could go on from"))
        ] * rest

    @property
    def done(self) -> bool:
        return len(self.settled) == len(self.trajectory.steps)


class GenPRM(Critic):
    """One turn a step, all traces at once."""

    per_step = True
    chooses = True

    def __init__(self, policy: Policy, n: int, params: SamplingParams, execute: Execute | None = None) -> None:
        self.kind = "genprm" if execute is not None else "genprm-without-code"
        self.execute = execute
        self.replies = 2 if execute is None else 2 + ROUNDS  # the analysis, code, and a verdict that is forced
        super().__init__(policy, n, params)

    @property
    def longest(self) -> int:
        """The verdict that is forced is short."""
        return (self.replies - 1) * self.params.max_tokens + VERDICT_TOKENS

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """Steps in order, since each critique reads those before it; the mean p(Yes) of `n` critiques a step."""
        dialogues = [_Dialogue(t) for t in trajectories]
        while waiting := [d for d in dialogues if not d.done]:
            paths = self._analyses([d.show_next_step() for d in waiting])
            flat = [path for row in paths for path in row]
            if self.execute is not None:
                self._verify(flat, self.execute)
            self._force([path for path in flat if path.open])
            opinions = self.decide([[path.critique for path in row] for row in paths], ("Yes", "No"))
            for dialogue, row in zip(waiting, opinions, strict=True):
                dialogue.hear(row)
        return [self.judgement(d.trajectory, d.settled) for d in dialogues]

    def _analyses(self, requests: Sequence[Request]) -> list[list[_Path]]:
        rows = []
        for request, replies in zip(requests, self.ask(requests), strict=True):
            row = [_Path(request, text=request.opening) for _ in replies]
            for path, reply in zip(row, replies, strict=True):
                path.take(reply)
                # An analysis that its budget cut off is closed, and the verdict is asked for all the same.
                path.text = path.text.removesuffix(ANALYZED) + ANALYZED
                path.analysis = path.text
            rows.append(row)
        return rows

    def _verify(self, paths: Iterable[_Path], execute: Execute) -> None:
        """Code, what it printed, and so on to the verdict."""
        active = [path for path in paths if path.open]
        for path in active:
            path.text += VERIFY
        for _ in range(ROUNDS):
            active = [path for path in active if path.open and path.written < self.params.max_tokens]
            if not active:
                return
            left = self.params.max_tokens - min(path.written for path in active)
            asked = [path.request.going_on(path.text, FENCE, ANSWERED) for path in active]
            for path, (reply,) in zip(active, self.ask(asked, n=1, max_tokens=left), strict=True):
                path.take(reply)
                code = code_of(path.text)
                if reply.stop == FENCE and path.open and code is not None:
                    printed = execute(code, path.blocks) if isinstance(execute, InSandbox) else execute(code)
                    path.text += PRINTED.format(printed=printed.strip())
                    path.blocks.append(code)
            active = [path for path in active if path.text.endswith(FENCE)]

    def _force(self, paths: Sequence[_Path]) -> None:
        """The verdict from the analysis alone."""
        for path in paths:
            path.text = path.analysis + OUTPUT
        asked = [path.request.going_on(path.text, ANSWERED) for path in paths]
        for path, (reply,) in zip(paths, self.ask(asked, n=1, max_tokens=VERDICT_TOKENS), strict=True):
            path.take(reply)


def verdicts(row: Judged) -> list[Verdict]:
    """Up to the last labelled step: the turn in which it is critiqued, without code, to the box of its verdict.

    The critiques of labels are taken for analyses, but for whole turns of this judge, code and all. Steps before that have no
    label are shown as right.
    """
    found: list[Verdict] = []
    messages: list[Message] = [Message("system", SYSTEM)]
    known = {k: (value, text) for k, value, text in labelled(row)}
    for k, step in enumerate(row.trajectory.steps):
        question = f"Question: {row.trajectory.problem.text}\n\n" if k == 0 else ""
        messages.append(Message("user", question + step.written))
        value, text = known.get(k, (1.0, ""))
        begun = ANALYZE.format(k=k + 1)
        opening = _to_verdict(text) if text.startswith(begun) else begun + text + ANALYZED + OUTPUT + "{"
        if k in known:
            request = Request(tuple(messages), opening, header=False)
            found.append(Verdict(request, "Yes", "No", value, k, begun))
        messages.append(Message("assistant", f"{opening}{'Yes' if value > 0.5 else 'No'}}}$\n{ANSWERED}"))
    return found


def _to_verdict(turn: str) -> str:
    """A whole turn up to its last Yes or No; one without is given a box."""
    found = [m.start(1) for m in _VERDICT.finditer(turn)]
    return turn[: found[-1]] if found else turn + OUTPUT + "{"


@register("reward", "genprm", Declared(switches=("allow_unsandboxed",)))
def genprm(
    policy: Policy,
    n: int = 1,
    execute: Execute | None = None,
    code: bool = False,
    allow_unsandboxed: bool = False,
    temperature: float = 0.6,
    top_p: float = 0.95,
    top_k: int = 20,
    max_tokens: int = 2048,
    seed: int = 0,
) -> GenPRM:
    """GenPRM: analyses each step in words and, with `code`, by Python in a sandbox, then p(Yes); `n` critiques are averaged."""
    if code and execute is None:
        execute = in_sandbox(Sandbox(allow_unsandboxed=allow_unsandboxed))
    return GenPRM(policy, n, SamplingParams(temperature, top_p, top_k, max_tokens, seed=seed), execute)
