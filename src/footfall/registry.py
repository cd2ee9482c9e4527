"""Parts that a user can name: found without importing them, made by a typed factory, never registered twice.

A part registers itself by a decorator in its own file, and nothing else has to be edited. What commands, studies and the
documentation need to know of it, it declares there too:

    @register("labeller", "monte-carlo", Declared(systems={"math-shepherd": {"rollouts": 8, "estimate": "hard"}}))
    def monte_carlo(policy: Policy, rollouts: int = 8) -> Judge:
        '''Monte Carlo estimates of each step (Math-Shepherd).'''

`parts` reads those decorators from the source text, so listing loads no torch, and neither does `declared` where a declaration
is made of literals; `create` imports the one file that holds the part. Other packages add theirs by an entry point in the group
`footfall.parts`, named `kind:name`; their factories are registered by the same decorator.

A part may also lie in a file of the operator's own, `mine.py:MyJudge`. `name_files` runs such a file, and only the command line
calls it, with the words that were typed: a name of this form in a folder, a data file or a configuration is an unknown name.

What a study measures of a method, rows with a dial and budgets, the method declares too (`Declared.study`); a study collects
them.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from footfall.part_files import BY_FILE, FILE_PART, FilePart, part_in_file

Kind = Literal["measured", "stand-in", "own traces", "reference"]
"""`stand-in`: a critic or tool of assumed quality takes part; `reference`: knows the truth or proves it, where that can
be done; `own traces`: labels what it writes itself, so that it cannot be held against the others."""

FREE = "free"
"""The dial of methods that have none and generate nothing."""
ROLLOUTS = (2.0, 4.0, 8.0, 16.0, 32.0)
VOTES = (1.0, 3.0, 5.0, 9.0)
NEVER = 0.01
"""The threshold of trees that call wrong what never succeeds: below every share of successes but 0."""
WIDTHS = (4, 16, 64)
"""What all searchers with a number of candidates are measured at; one sample for those that can take one."""


@dataclass(frozen=True, slots=True)
class StudyRow:
    """A method, or a variant of it, with its dial and the budgets that it is measured at, from cheap to dear."""

    name: str = ""
    """Nothing: that of the method which declares the row."""
    part: str = ""
    """The registered name of the method; whoever collects rows fills it in."""
    dial: str = FREE
    budgets: Sequence[float] = (0.0,)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Settings beside the dial."""
    settings: Callable[[Any], Mapping[str, Any]] | None = None
    """All settings that a budget stands for, where they are not the dial as a whole number beside the fixed ones."""
    make: Callable[[Any, float], Any] | None = None
    """The method of a study's setting and a budget, where it is more than the registered part with these settings."""
    kind: Kind = "measured"
    threshold: float = 0.5
    """The labeller's own: a step valued below it is called wrong."""
    value: str | None = None
    """What estimates the value of the prefix: `values`, or the name of an aspect."""
    probability: bool = True
    """Whether labels lie in [0, 1], so that they can be calibrated."""
    logprobs: bool = False
    """Whether traces and rollouts need the log-probabilities of their tokens."""
    worlds: tuple[str, ...] | None = None
    """The only worlds that the method knows."""
    place: int = 1000
    """In the tables, among the rows of its kind, the lower the earlier; rows of one place stand by name."""

    @property
    def method(self) -> str:
        """The registered name of the method."""
        return self.part or self.name

    def at(self, budget: float) -> dict[str, Any]:
        """The settings of the registered part at a budget."""
        if self.settings is not None:
            return dict(self.settings(budget))
        return {**({} if self.dial == FREE else {self.dial: int(budget)}), **self.fixed}


def label_row(
    place: int = 1000, name: str = "", dial: str = "rollouts", budgets: Sequence[float] = ROLLOUTS, **more: Any
) -> StudyRow:
    """A labeller's row; rolls out unless it says otherwise."""
    return StudyRow(name, "", dial, budgets, place=place, **more)


def search_row(
    place: int = 1000, name: str = "", dial: str = "n", budgets: Sequence[int] = WIDTHS, **more: Any
) -> StudyRow:
    """A searcher's row; draws so many candidates unless it says otherwise. Settings by the name of a field are fixed."""
    own = {key: more.pop(key) for key in ("settings",) if key in more}
    return StudyRow(name, "", dial, budgets, fixed=more, place=place, **own)


F = TypeVar("F", bound=Callable[..., Any])

KINDS = {
    "policy": "writes steps",
    "labeller": "a judge that makes process data",
    "tree-labeller": "grows labelled trees from problems alone: `footfall label --trees N`",
    "reward": "a judge that is a model",
    "objective": "a training loss",
    "searcher": "turns a policy and a judge into an answer",
    "segmenter": "cuts text into steps",
    "world": "problems whose step truth is known",
    "benchmark": "measures a judge",
    "format": "reads and writes process data",
    "family": "published PRMs of one make",
    "head": "turns a PRM's hidden states into outputs",
    "readout": "what the outputs of a PRM's head mean",
    "credit": "turns a group of rollouts into one advantage a token",
    "filter": "says which rollouts are trained on",
}
"""What can be registered, with one line each."""

ENTRY_POINT_GROUP = "footfall.parts"


class Part(NamedTuple):
    """Where a named part lives and what it says of itself in one line."""

    kind: str
    name: str
    target: str
    summary: str

    @property
    def module(self) -> str:
        return self.target.partition(":")[0]


class Paper(NamedTuple):
    """Where a part was published, for the paper index. Parts with a recipe have it in the recipe's header."""

    title: str
    year: int
    arxiv: str | None = None


@dataclass(frozen=True)
class Declared:
    """What a part says of itself. What it leaves out has the meaning that fits a part which says nothing.

    Made of literals (strings, numbers, tuples, dictionaries), it is known without importing the part.
    """

    study: tuple[StudyRow, ...] = ()
    """Its rows in `footfall bench labels` or `bench search`. None: one, whose dial is `rollouts` or `n` if it takes that."""
    unmeasured: str = ""
    """Why no study measures it."""
    control: bool = False
    """A sanity check or an oracle, and no method: studies pass it over."""
    smoke: Mapping[str, Any] = field(default_factory=dict)
    """Settings of a run in no time, for tests."""
    dial: str = ""
    """Of a searcher without `n`: what says how much, as a user writes it after --set, e.g. `paths=N`."""
    aggregation: str | None = None
    """Of a searcher: how step values become a score in `footfall search`, where it is not the factory's own way."""
    blocks: bool = False
    """Of a searcher: whether it goes on in the middle of a step. From a server it then needs a text without step ends."""
    systems: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Published systems that are this part, by name, each with the settings that make it so."""
    judges: tuple[str, ...] = ()
    """Of a labeller: parameters that are judges, by name or folder. What is set beside its own parameters is the last one's."""
    missing: str = ""
    """What to say where one of those judges is not named: how a user gives it."""
    stored: bool = True
    """Of a tree-labeller: whether what it writes may come from a store of rollouts, which keeps no thoughts of the writer."""
    separator: str = "\n\n"
    """Of a policy: what it puts after each step."""
    tempered: bool = True
    """Of a policy: whether it draws by temperature, top-p and top-k; one that does not knows 0, greedy, alone."""
    weightless: bool = False
    """Of a policy: made of its settings alone, so that an estimate may open it."""
    verifier: tuple[str, Mapping[str, Any]] = ("formal", {})
    """Of a world: the labeller that reads its steps as a tool does, and its settings."""
    serves: tuple[str, ...] = ()
    """What commands take it for where they are given no name of its kind: `default` (nothing), `url`, `model` (a folder or hub
    id of a language model), `prm` (a folder that was trained here), `checkpoint` (a published PRM). Literals; one part each."""
    note: str = ""
    """What else there is of that name, for whoever asks for it as something that it is not."""
    paper: Paper | None = None
    needs: tuple[str, ...] = ()
    """Of a credit or filter: the fields of a rollout that it reads as it is set by default, such as `outcome` and `rewards`.
    Of an objective: `outcomes`, if its labels say how a trace ended."""
    ahead: Mapping[str, Any] | None = None
    """Of a head: the settings with which later steps change a step's value; `{}`: with any. None: they never do. It is not
    trained on traces that end where they go wrong, for it would learn where traces end."""
    switches: tuple[str, ...] = ()
    """Parameters that take away protection. The operator alone sets them, by a flag or in Python: see `stored`. A literal."""


NOTHING = Declared()


class System(NamedTuple):
    """A published system: the part that it is, and the settings with which that part is the system."""

    part: str
    settings: Mapping[str, Any]


def register(kind: str, name: str, declared: Declared = NOTHING) -> Callable[[F], F]:
    """Mark a factory as the part `name`. Kind and name are literals: they are read from the source, by `parts`."""
    if kind not in KINDS:
        raise ValueError(f"no kind of part is called {kind!r}; there are {', '.join(KINDS)}")

    def mark(factory: F) -> F:
        factory.__footfall_part__ = (kind, name)  # type: ignore[attr-defined]
        factory.__footfall_declared__ = declared  # type: ignore[attr-defined]
        return factory

    return mark


class BrokenPartError(ImportError):
    """A part of another package that cannot be imported."""


def load(kind: str, name: str) -> Callable[..., Any]:
    """The factory of a part, imported now. An unknown name is answered with the nearest one."""
    if name in _files and kind in _files[name].kinds:
        return _files[name].factory
    known = parts(kind)
    if name not in known:
        if why := no_file_part(kind, name):
            raise KeyError(why)
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known) or 'none'}"
        raise KeyError(f"no {kind} is called {name!r}; {hint}")
    module, _, attribute = known[name].target.partition(":")
    try:
        factory: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # the code of another package may raise anything
        if module.partition(".")[0] == "footfall":
            raise
        why = f"{type(error).__name__}: {error}"
        raise BrokenPartError(f"the {kind} {name!r} {known[name].summary} cannot be imported: {why}") from error
    return factory


def create(kind: str, name: str, **arguments: Any) -> Any:
    """Make the part `name` of `kind` with these arguments."""
    return load(kind, name)(**arguments)


def parts(kind: str) -> dict[str, Part]:
    """All parts of a kind by name: the package's own, then those of installed extensions."""
    if kind not in KINDS:
        raise KeyError(f"no kind of part is called {kind!r}; there are {', '.join(KINDS)}")
    by_file = {name: Part(kind, name, name, "from a file") for name, found in _files.items() if kind in found.kinds}
    return {name: found.part for (own, name), found in _all_parts().items() if own == kind} | by_file


def declared(kind: str, name: str) -> Declared:
    """What a part declares; the part is imported if its declaration is more than literals, or an extension's.

    An extension's that cannot be imported declares nothing: whoever wants another part must not stumble over it.
    """
    known = _all_parts().get((kind, name))
    if known is not None and known.declared is not None:
        return known.declared
    try:
        factory = load(kind, name)
    except BrokenPartError as error:
        warnings.warn(str(error), stacklevel=2)
        return NOTHING
    own = name in _files or getattr(factory, "__footfall_part__", None) == (kind, name)
    said: Declared = getattr(factory, "__footfall_declared__", NOTHING) if own else NOTHING
    return said


def stored(settings: Mapping[str, Any], file: str | Path) -> dict[str, Any]:
    """Settings that came from a file, for whichever part; what any part declares as a safety switch is refused there."""
    for name in settings:
        if name in safety_switches():
            raise ValueError(
                f"{file} sets {name}, which takes away protection; only you can: delete it there and pass --set {name}=…"
            )
    return dict(settings)


def safety_switches() -> frozenset[str]:
    """The names of all parameters that a part declares as safety switches, those of installed extensions too."""
    found: set[str] = set()
    for (kind, name), each in _all_parts().items():
        found.update(declared(kind, name).switches if each.switches is None else each.switches)
    return frozenset(found)


def serving(kind: str, what: str = "default") -> str:
    """The part of a kind that commands take where no name is given (`Declared.serves`); nothing is imported for it."""
    found = [each.part.name for each in _servants() if each.part.kind == kind and what in each.serves]
    if len(found) != 1:
        raise LookupError(f"{len(found)} parts of the kind {kind} serve as {what!r}: {', '.join(found)}")
    return found[0]


@lru_cache(maxsize=1)
def _servants() -> list[_Found]:
    """The package's own parts that serve; only their files are parsed, since commands ask when they are imported."""
    root = Path(__file__).parent
    own = [path for path in sorted(root.rglob("*.py")) if "serves=(" in path.read_text(encoding="utf-8")]
    return [each for path in own for each in _parts_in(path, root) if each.serves]


def systems(kind: str) -> dict[str, System]:
    """Published systems that are a part of this kind with certain settings, by name."""
    known = parts(kind)
    found: dict[str, System] = {}
    for name in known:
        for system, settings in declared(kind, name).systems.items():
            if system in found or system in known:
                other = found[system].part if system in found else system
                raise ValueError(f"{kind} {name!r} names a system {system!r}, and so does {other!r}")
            found[system] = System(name, settings)
    return found


_files: dict[str, FilePart] = {}
"""The parts in files that the operator named for this command."""


def name_files(words: Iterable[str]) -> None:
    """Run the files of the parts `FILE.py:NAME` that the words name; from now on these are parts, and no earlier ones."""
    found = {f"{file}:{name}": (file, name) for word in words for file, name in FILE_PART.findall(word)}
    _files.clear()
    _files.update({spec: part_in_file(*each) for spec, each in found.items()})


def named_files() -> dict[str, str]:
    """Those parts with the hash of their file: what a run's result depends on."""
    return {name: part.digest for name, part in _files.items()}


def no_file_part(kind: str, name: str) -> str | None:
    """What is amiss with a name that is a file's."""
    if name.endswith((".py", ".py:")):
        return f"{name} is a file; name the {kind} in it too, as in {name.rstrip(':')}:NAME"
    if not FILE_PART.fullmatch(name):
        return None
    if name in _files:
        needs = f", which has a method {BY_FILE[kind]!r}" if BY_FILE.get(kind) else ""
        return f"{name} is no {kind}{needs}"
    return f"no {kind} is called {name!r}: a part in a file is run only if the command line itself names it"


def no_hub_id(name: str) -> str | None:
    """What is amiss with a name that is no folder here and looks like a hub id, owner/name, but is meant as something else."""
    path = Path(name)
    if "/" not in name or path.exists():
        return None
    if path.is_absolute() or name.startswith((".", "~")) or path.parts[0] == "runs":  # where commands put their folders
        there = sorted(each.name for each in path.parent.iterdir()) if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, there, n=1)
        hint = f"did you mean {path.parent / near[0]}?" if near else f"there are: {', '.join(there[:9]) or 'none'}"
        return f"{name}: there is no such folder; {hint}"
    known = {part: kind for kind in ("policy", "labeller", "reward") for part in parts(kind) if "/" in part}
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.85)
    if near and near[0] != name:
        return f"no folder and no {known[near[0]]} is called {name!r}; did you mean {near[0]!r}?"
    return f"{name} is a {known[name]}, and no language model" if near else None


class _Found(NamedTuple):
    part: Part
    declared: Declared | None
    """`None`: to be known by importing the part."""
    switches: tuple[str, ...] | None
    serves: tuple[str, ...] = ()


@lru_cache(maxsize=1)
def _all_parts() -> dict[tuple[str, str], _Found]:
    """By kind and name, in that order."""
    found: dict[tuple[str, str], _Found] = {}
    root = Path(__file__).parent
    own = [each for path in sorted(root.rglob("*.py")) for each in _parts_in(path, root)]
    for each in own + [_Found(part, None, None) for part in _extension_parts()]:
        part = each.part
        other = found.setdefault((part.kind, part.name), each)
        if other is not each:
            raise ValueError(
                f"{part.kind} {part.name!r} is registered twice: by {other.part.target} and by {part.target}"
            )
    return {key: found[key] for key in sorted(found)}


def _parts_in(path: Path, root: Path) -> list[_Found]:
    source = path.read_text(encoding="utf-8")
    if "\n@register(" not in f"\n{source}":
        return []
    module = ".".join(("footfall", *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            summary = (ast.get_docstring(node) or "").partition("\n")[0]
            for decorator in node.decorator_list:
                match decorator:
                    case ast.Call(ast.Name("register"), [ast.Constant(str(kind)), ast.Constant(str(name)), *more]):
                        part = Part(kind, name, f"{module}:{node.name}", summary)
                        said = _literally(more[0]) if more else NOTHING
                        switches, serves = (_words(more, field) for field in ("switches", "serves"))
                        found.append(_Found(part, said, switches, serves))
    return found


def _literally(node: ast.expr) -> Declared | None:
    """`Declared(…)` if all of it is literals, with `Paper(…)` among them."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != "Declared" or node.args:
        return None
    try:
        return Declared(**{str(keyword.arg): _literal(keyword.value) for keyword in node.keywords})
    except ValueError:
        return None


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "Paper" and not node.keywords:
        return Paper(*map(ast.literal_eval, node.args))
    return ast.literal_eval(node)


def _words(declaration: Sequence[ast.expr], field: str) -> tuple[str, ...]:
    """A field of a declaration, of one that is more than literals too: no part is imported to know it."""
    given = [keyword for node in declaration if isinstance(node, ast.Call) for keyword in node.keywords]
    return next((tuple(ast.literal_eval(keyword.value)) for keyword in given if keyword.arg == field), ())


def _extension_parts() -> list[Part]:
    found = []
    for point in entry_points(group=ENTRY_POINT_GROUP):
        kind, _, name = point.name.partition(":")
        source = point.dist.name if point.dist else "an extension"
        if kind not in KINDS or not name:
            raise ValueError(
                f"{source} adds a part by the entry point {point.name!r}; it must be called 'kind:name', "
                f"where kind is one of {', '.join(KINDS)}"
            )
        found.append(Part(kind, name, point.value, f"from {source}"))
    return found
