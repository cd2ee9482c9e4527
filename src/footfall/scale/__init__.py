"""Past one machine: chunks of runs by actors of a Ray cluster, run directories in an object store, trainings by processes."""

from footfall.scale.actors import Call, RayWorkers, Resources, Sent
from footfall.scale.objects import Remote, check_place, is_address

__all__ = ["Call", "RayWorkers", "Remote", "Resources", "Sent", "check_place", "is_address"]
