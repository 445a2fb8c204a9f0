"""`Kernel.value_and_grad`: a launch and its gradient as one kernel, where the result is that of two launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quadrants_lab.backends import forks
from quadrants_lab.ir.weak import Table
from quadrants_lab.runtime import session as S
from quadrants_lab.runtime.arguments.keys import Named
from quadrants_lab.runtime.arguments.signature import TemplateSlot
from quadrants_lab.runtime.launch.dispatch import Dispatcher
from quadrants_lab.runtime.launch.observe import CONSTANT, MODE, OBSERVERS, open_recording, watching

if TYPE_CHECKING:
    from quadrants_lab.runtime.launch.plan import Plan


class ValueAndGrad(Dispatcher):
    """Launches a kernel and its gradient as one kernel. It launches them one after the other where one kernel is not
    possible, while launches are observed or recorded, and in checked modes. ``forward``: the kernel's own
    dispatcher."""

    __slots__ = ("two_launches",)

    def enter(self, now: S.Session) -> None:
        if self._session is not now:
            self.two_launches: Table[Any, bool] = Table()  # specialisations for which one kernel is not possible
        super().enter(now)

    def resolve(self, *args: Any) -> Any:
        now = S.current()
        with now.lock:
            now.must_live()
            options = S.compile_options(now)
            watched = bool(OBSERVERS.get()) or watching() or (MODE.get(), CONSTANT.get()) != ("forward", False)
            if not (watched or options.debug or options.check_races):
                self.enter(now)
                args = self.checked(args)
                plan = self.combined_plan(now, args) if open_recording() is None else None
                if plan is not None:
                    self.last_plan = plan.weak
                    self._install(now, plan, args)
                    return self.launch(plan, args)
                if not any(isinstance(slot, TemplateSlot) for slot in self.slots):
                    now.fast_paths.add(self)
                    self.call = self.launch_both
        return self.launch_both(*args)

    def launch_both(self, *args: Any) -> Any:
        """Launches the kernel, then its gradient."""
        assert self.forward is not None
        assert self.forward.gradient is not None
        value = self.forward.call(*args)
        self.forward.gradient.call(*args)
        return value

    def combined_plan(self, now: S.Session, args: tuple[Any, ...]) -> Plan | None:
        """The plan for checked arguments; None where one kernel is not possible."""
        with forks.deferred():
            from quadrants_lab.runtime.compile.compiled import TwoLaunchesError
        try:
            return self.plan(now, args)
        except TwoLaunchesError:
            return None

    def _made(self, now: S.Session, key: Any, named: Named, specs: Any) -> Plan:
        from quadrants_lab.runtime.compile.compiled import TwoLaunchesError

        if key in self.two_launches:
            raise TwoLaunchesError
        try:
            return super()._made(now, key, named, specs)
        except TwoLaunchesError:
            self.two_launches.put(key, True, named)
            raise
