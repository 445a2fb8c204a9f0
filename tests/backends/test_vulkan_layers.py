"""Khronos' validation layers, where installed, report nothing."""

import os
import re
import sys
from pathlib import Path

import pytest
from child import run
from conftest import ROOT
from sessions import skips

FOLDERS = ("/usr/share/vulkan", "/etc/vulkan", "/usr/local/share/vulkan", "/opt/homebrew/share/vulkan")
INSTALLED = any(Path(f, "explicit_layer.d", "VkLayer_khronos_validation.json").exists() for f in FOLDERS)
SAYS = re.compile(r"VUID-[\w-]+|UNASSIGNED-[\w-]+")

WRONG = """
from quadrants_lab.backends.vulkan import api
from quadrants_lab.backends.vulkan.device import Device
device = Device()
made = api.ffi().new("VkBuffer *")
info = api.new("VkBufferCreateInfo", size=0, usage=0x20)
api.lib().vkCreateBuffer(device.logical.handle, info, api.ffi().NULL, made)
"""

# what gives the driver garbage is left out
FILES = {
    "few": ["tests/backends/test_conformance.py", "-k", "vulkan and (saxpy or stacks or assert or print or entry)"],
    "devices": ["tests/backends", "-k", "vulkan and not layers and not random and not not_build and not thousand"],
    "sessions": ["tests/lang", "tests/runtime", "tests/ad", "-k", "vulkan"],
    "gradients": ["tests/all_programs/test_gradients.py", "-k", "test_backend and vulkan-f32"],
}


def words(*command: str) -> tuple[int, str]:
    """The exit status and output of Python with the layers enabled."""
    env = {"VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation", "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    done = run(sys.executable, *command, cwd=ROOT, env=env, status=None)
    return done.returncode, done.stdout + done.stderr


pytestmark = [
    pytest.mark.skipif(not INSTALLED, reason="the validation layers are not installed (vulkan-validationlayers)"),
    *skips("vulkan"),
]


def test_the_layers_are_on() -> None:
    assert "VUID-VkBufferCreateInfo-size-00912" in words("-c", WRONG)[1]


def test_threads_use_queues_and_pools_in_turn() -> None:
    """The layers notice objects that two threads use at the same time."""
    status, text = words("tests/programs/threads.py", "apart", "8", "20")
    assert not SAYS.findall(text), text[-4000:]
    assert status == 0, text[-4000:]


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n == "few" else [pytest.mark.slow]) for n in FILES])
def test_the_validation_layers_report_nothing(name: str) -> None:
    status, text = words("-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", *FILES[name])
    assert not SAYS.findall(text), text[-4000:]
    assert status == 0, text[-4000:]
