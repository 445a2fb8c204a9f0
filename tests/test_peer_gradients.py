"""docs/peer_gradients.md says what the peer's gradients are: of a sample of the programs, checked again."""

from __future__ import annotations

import re

import pytest
from peer import Peer
from peer_gradients import ALL, DOCUMENT, SAYS, committed, row

SAMPLE = list(ALL)[::9]
# what a stack that is too small, or memory that was never written, leaves behind is a matter of chance
CHANCE = {"wrong", "relaunched", "crashed"}


def test_the_list_is_of_programs_and_all_are_ours() -> None:
    found = committed()
    assert {*found} <= {*ALL}
    assert {*found.values()} <= {*SAYS}
    rights = re.findall(r"\| (\w+) \|$", DOCUMENT.read_text(), re.MULTILINE)
    assert {*rights} <= {"ours", "Right", *(str(k) for k in range(len(ALL)))}
    assert f"{len(ALL)} programs" in DOCUMENT.read_text()


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample_is_still_so(name: str, peer: Peer) -> None:
    listed = committed().get(name, "")
    found = row(ALL[name], peer)
    kind = found.kind if found else ""
    assert kind == listed or {kind, listed} <= CHANCE, found
