"""One short file a published system: its composition and its claims. Nobody imports them; the lab finds them by name."""

__all__: list[str] = []
