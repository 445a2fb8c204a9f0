"""Runs a program for many shards (parts of its data) at once, on the cores, GPUs and machines of a Dask cluster.

    from quadrants_lab.distributed import map_gradients

`map_gradients` needs the packages of the extra [distributed], except with ``client=False``, which runs everything in
this process. Dask is imported when it is first needed.
"""

from quadrants_lab.distributed.cluster import local_client
from quadrants_lab.distributed.gradients import Gradients, map_gradients
from quadrants_lab.distributed.shards import ShardError, kept

__all__ = ["Gradients", "ShardError", "kept", "local_client", "map_gradients"]
