"""Traces as a reader sees them: each step with its value as colour, bar, number and sign, and where the error is.

Nothing is said by colour alone, and every text here was written by a model: all of it is escaped.
"""

from __future__ import annotations

from footfall.reports._blocks import details
from footfall.reports._demo_types import StepView, TraceView
from footfall.reports.svg import Markup, element, number

_SHADES = 5


def trace_key(threshold: float, exact: bool) -> Markup:
    """What the signs beside the steps mean; `exact` if the traces show exact values too."""
    tick = (element("li", _meter(0.6, 0.8), " the PRM’s value, with a tick at the exact one"),) if exact else ()
    return element(
        "ul",
        *tick,
        element("li", element("b", "✓", class_="sign"), f" value {threshold:g} or more"),
        element("li", element("b", "✗", class_="sign"), f" value below {threshold:g}"),
        element("li", element("span", "⚑ first error", class_="flag true"), " where the world says it is"),
        element("li", element("span", "◇ PRM’s pick", class_="flag predicted"), " where the PRM puts it"),
        class_="key",
    )


def trace_verdict(trace: TraceView) -> str:
    """What the judge made of the trace, in words."""
    true, predicted = trace.true_first_error, trace.predicted_first_error
    if true is None or predicted is None:
        return "truth not known" if true is None else "not fully judged"
    if true == predicted:
        return "no error, none predicted" if true < 0 else "first error found"
    if true < 0:
        return "false alarm"
    if predicted < 0:
        return "error missed"
    apart = abs(predicted - true)
    return f"off by {apart} step{'s' if apart > 1 else ''}, {'late' if predicted > true else 'early'}"


def trace_block(trace: TraceView, threshold: float) -> Markup:
    """One trace: problem behind a line that opens it, steps in order, then the answer against the reference."""
    head = element(
        "header",
        element("h3", trace.problem_id),
        _outcome(trace.correct),
        element("span", trace_verdict(trace), class_="verdict-chip"),
    )
    steps = [_step(trace, i, step, threshold) for i, step in enumerate(trace.steps)]
    problem = details("Problem", element("p", trace.problem, class_="written"))
    body = element("ol", *steps, class_="steps") if steps else element("p", "This trace has no steps.", class_="lead")
    return element("article", head, problem, body, _answer(trace), class_="trace")


def _outcome(correct: bool | None) -> Markup:
    sign, word = {True: ("✓", "right answer"), False: ("✗", "wrong answer"), None: ("?", "answer not checked")}[correct]
    return element("span", element("b", sign, aria_hidden="true"), f" {word}", class_="outcome")


def _answer(trace: TraceView) -> Markup:
    def shown(text: str | None) -> Markup:
        return element("span", text, class_="written") if text is not None else element("i", "none")

    return element(
        "p",
        element("span", "answer ", shown(trace.answer)),
        element("span", "reference ", shown(trace.reference)),
        class_="answer",
    )


def _step(trace: TraceView, i: int, step: StepView, threshold: float) -> Markup:
    shade = "unjudged" if step.value is None else f"v{min(int(step.value * _SHADES), _SHADES - 1)}"
    return element(
        "li",
        element("span", str(i + 1), class_="place"),
        _value(step, threshold),
        element("div", element("span", step.text, class_="written"), _flags(trace, i), class_="body"),
        class_=f"step {shade}" + (" erred" if trace.true_first_error == i else ""),
    )


def _value(step: StepView, threshold: float) -> Markup:
    if step.value is None:
        return element("span", element("span", class_="meter"), element("b", "?", class_="sign"), "n/a", class_="value")
    good = step.value >= threshold
    said = f"value {step.value:.3f}" + (f", exact {step.exact:.3f}" if step.exact is not None else "")
    return element(
        "span",
        _meter(step.value, step.exact),
        element("b", "✓" if good else "✗", class_="sign", role="img", aria_label="good" if good else "poor"),
        f"{step.value:.2f}",
        class_="value",
        title=said,
    )


def _meter(value: float, exact: float | None) -> Markup:
    """The value as the length of a bar, the exact one as a tick on it."""
    tick = element("i", style=f"left:{number(100 * exact)}%") if exact is not None else Markup()
    fill = element("span", style=f"width:{number(100 * value)}%")
    return element("span", fill, tick, class_="meter", aria_hidden="true")


def _flags(trace: TraceView, i: int) -> Markup:
    flags = []
    if trace.true_first_error == i:
        flags.append(element("span", "⚑ first error", class_="flag true"))
    if trace.predicted_first_error == i:
        flags.append(element("span", "◇ PRM’s pick", class_="flag predicted"))
    return element("span", *flags, class_="flags") if flags else Markup()
