"""Many runs of a program at once, on the cores, GPUs and machines that Dask distributes to.

    from quadrants_lab.distributed import map_gradients

`map_gradients` needs the packages of the extra [distributed], unless everything is to run in this process
(``client=False``). Nothing of Dask is imported before it is needed.
"""

from quadrants_lab.distributed.cluster import local_client
from quadrants_lab.distributed.gradients import Gradients, map_gradients
from quadrants_lab.distributed.shards import ShardError, kept

__all__ = ["Gradients", "ShardError", "kept", "local_client", "map_gradients"]
