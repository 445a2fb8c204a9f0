"""`Kernel.value_and_grad`: a launch and its gradient in one sweep, where that is what one after the other is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quadrants_lab.backends import forks
from quadrants_lab.runtime import session as S
from quadrants_lab.runtime.dispatch import Dispatcher
from quadrants_lab.runtime.observe import CONSTANT, MODE, OBSERVERS, watching
from quadrants_lab.runtime.signature import TemplateSlot

if TYPE_CHECKING:
    from quadrants_lab.runtime.plan import Plan


class Together(Dispatcher):
    """Launches a kernel and its gradient together, or one after the other: where they are not one sweep, while somebody
    watches launches, and in checked modes. ``forward`` is the kernel's own dispatcher."""

    __slots__ = ("apart",)

    def enter(self, now: S.Session) -> None:
        if self._session is not now:
            self.apart: set[Any] = set()  # specialisations that are two launches
        super().enter(now)

    def resolve(self, *args: Any) -> Any:
        now = S.current()
        with now.lock:
            options = S.compile_options(now)
            watched = bool(OBSERVERS.get()) or watching() or (MODE.get(), CONSTANT.get()) != ("forward", False)
            if not (watched or options.debug or options.check_races):
                self.enter(now)
                args = self.checked(args)
                plan = self.together(now, args)
                if plan is None:
                    if not any(isinstance(slot, TemplateSlot) for slot in self.slots):
                        now.fast_paths.add(self)
                        self.call = self.two
                    return self.two(*args)
                self.last = plan
                self._install(now, plan, args)
                return self.launch(plan, args)
        return self.two(*args)

    def two(self, *args: Any) -> Any:
        """The launches one after the other."""
        assert self.forward is not None
        assert self.forward.gradient is not None
        value = self.forward.call(*args)
        self.forward.gradient.call(*args)
        return value

    def _forward_plan(self, key: Any) -> Plan | None:
        return None  # no launch stands before this gradient

    def together(self, now: S.Session, args: tuple[Any, ...]) -> Plan | None:
        """The plan of both for checked arguments; None where they are two launches."""
        with forks.whole():
            from quadrants_lab.runtime.one_sweep import TwoLaunchesError
        try:
            return self.plan(now, args)
        except TwoLaunchesError:
            return None

    def _made(self, now: S.Session, key: Any, specs: Any) -> Plan:
        from quadrants_lab.runtime.one_sweep import TwoLaunchesError

        if self._with_state(key) in self.apart:
            raise TwoLaunchesError
        try:
            return super()._made(now, key, specs)
        except TwoLaunchesError:
            self.apart.add(self._with_state(key))
            raise

