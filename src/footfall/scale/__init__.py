"""Past one machine: chunks of runs by actors of a Ray cluster, run directories in an object store, trainings by processes."""

from footfall.scale.actors import RayWorkers, Resources
from footfall.scale.bucket import check_place, is_address
from footfall.scale.objects import Remote
from footfall.scale.worker import Call, Sent

__all__ = ["Call", "RayWorkers", "Remote", "Resources", "Sent", "check_place", "is_address"]
