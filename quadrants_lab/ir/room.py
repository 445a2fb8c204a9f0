"""Former names of `quadrants_lab.ir.deep_recursion`."""

from quadrants_lab.ir.deep_recursion import check_depth as need
from quadrants_lab.ir.deep_recursion import deeply_recursive as roomy
from quadrants_lab.ir.deep_recursion import depth_of_block
from quadrants_lab.ir.deep_recursion import run_deep as call

__all__ = ["call", "depth_of_block", "need", "roomy"]
