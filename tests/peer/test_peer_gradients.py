"""docs/peer_gradients.md says what the peer's gradients are: of a sample of the programs, checked again."""

import re

import pytest
from peer.gradients import ALL, SAYS, committed, row, written
from peer.process import Peer
from sessions import NIGHT

SAMPLE = list(ALL)[:: 9 if NIGHT else 45]
# what a stack that is too small, or memory that was never written, leaves behind is a matter of chance
CHANCE = {"wrong", "relaunched", "crashed"}


def test_the_list_is_of_programs_and_all_are_ours() -> None:
    found = committed()
    assert {*found} <= {*ALL}
    assert {*found.values()} <= {*SAYS}
    assert {*re.findall(r"` \| .* \| (\w+) \|$", written(), re.MULTILINE)} == {"ours"}


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample_is_still_so(name: str, peer: Peer) -> None:
    listed = committed().get(name, "")
    found = row(ALL[name], peer)
    kind = found.kind if found else ""
    assert kind == listed or {kind, listed} <= CHANCE, found
