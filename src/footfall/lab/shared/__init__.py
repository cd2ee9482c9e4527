"""What several recipes use: models that are trained once a seed, and cases made from world traces.

Unlike the rest of the lab these files decide figures, so they belong to the fingerprint of every recipe that imports them.
"""

__all__: list[str] = []
