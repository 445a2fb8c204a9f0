// --- the stepper: what an iteration logged, as the steps that `../stepper.js` draws

/** The steps of a task from the log. `notebook/live_steps.py` says what `task` has. */
function steps(task, log) {
  const known = { ...task.consts }, stacks = task.names.map(() => []), trips = {}, events = [];
  const bits = new DataView(log.buffer, log.byteOffset);
  const shown = (type, n) => type === "i64" ? String(bits.getBigInt64(8 * n, true)) : type === "u64" ? String(bits.getBigUint64(8 * n, true))
    : isFloat(type) ? digits(log[n]) : type === "u1" ? (log[n] ? "True" : "False") : String(log[n]);
  for (let at = 0; at < log.length;) {
    for (const [number, defs, read, of, does] of task.runs[log[at++]]) {
      const own = defs.map(([id, type]) => known[id] = shown(type, at++));
      if (number < 0) continue;
      const [, , kind, , stack] = task.s[number], given = read.map((id) => known[id]);
      let value = own[0] ?? "None", from = "";
      if (kind === "push") stacks[stack].push(value = given[0]);
      else if (kind === "pop") value = stacks[stack].pop();
      else if (kind === "trip") value = of < 0 ? own : [String(trips[of] = (trips[of] ?? 0) + 1), ...own];
      else if (kind === "end") { value = ["", ...own]; trips[of] = 0; }
      else if (typeof of === "string") {
        const element = (index) => `${of}[${index.join(", ") || "None"}]`;
        if (does) value = element(given.slice(0, -1)) + does.replace("{0}", given.at(-1)).replace("{1}", own[0]);
        else from = element(given);
      } else from = given.join(", ");
      events.push([number, value, from]);
    }
  }
  return events;
}

/** The fold in which the reader follows an iteration of a launch, on the numbers of now. */
class Steps {
  constructor(panel, fold) {
    const { program } = panel;
    this.panel = panel;
    this.launches = program.steps.map((s, n) => [s, n]).filter(([s]) => "kernel" in s).map(([, n]) => n);
    const changed = () => { this.at = undefined; this.fill(); panel.run(); };
    const menu = (name) => make("select", { "aria-label": name, change: changed });
    this.launch = make("input", { type: "number", min: 1, max: this.launches.length, step: 1, value: 1, "aria-label": "launch", change: changed });
    this.mode = menu("forward or gradient");
    this.task = menu("task");
    this.lane = make("input", { type: "text", size: 8, placeholder: "first", "aria-label": "iteration", "data-ask": "", change: changed });
    this.host = make("div", { class: "slot" });
    const many = this.launches.length > 1 ? [make("label", {}, "launch ", this.launch, ` of ${this.launches.length}`)] : [];
    const bar = make("p", { class: "row" }, ...many, this.mode, this.task, make("label", {}, "iteration ", this.lane));
    const light = /rgb\((\d+)/.exec(getComputedStyle(panel.host).color)?.[1] > 128; // of a dark page
    this.box = fold("Follow it step by step", "whole", make("div", { class: light ? "qdi dark" : "qdi" }, bar, this.host));
    this.box.open = false;
    this.box.addEventListener("toggle", () => { if (this.box.open) panel.run(); });
    this.fill();
  }

  get kernel() {
    const number = Math.min(Math.max(Math.trunc(this.launch.value) || 1, 1), this.launches.length);
    this.number = this.launches[number - 1];
    return this.panel.program.kernels[this.panel.program.steps[this.number].kernel];
  }

  /** The choices of the launch. */
  fill() {
    const options = (menu, items, first) => {
      const had = menu.value;
      menu.replaceChildren(...items.map(([value, text]) => make("option", { value }, text)));
      menu.hidden = items.length < 2;
      menu.value = items.some(([value]) => String(value) === had) ? had : first;
    };
    const { steps: found } = this.kernel, modes = { forward: "forward", reverse: "gradient" };
    options(this.mode, Object.keys(found).map((mode) => [mode, modes[mode]]), found.reverse ? "reverse" : "forward");
    const { tasks } = found[this.mode.value];
    options(this.task, tasks.map((t, n) => [n, t.title]), Math.max(0, tasks.findIndex((t) => t.names.length))); // with stacks
    this.of = tasks[this.task.value];
  }

  /** What the machine is to log; nothing while the fold is closed. */
  get asked() {
    const words = this.lane.value.split(",").filter((x) => x.trim()).map(Number), axes = this.of?.axes;
    if (!this.box.open || axes === undefined) return null;
    const lane = Array.from({ length: axes }, (_, n) => Number.isSafeInteger(words[n]) ? words[n] : 0);
    return { step: this.number, mode: this.mode.value, task: Number(this.task.value), lane };
  }

  /** Draws a log. The menus may show another task by now, so the task is the one that was asked for. */
  show({ asked, log, full }) {
    const { kernels, steps: launches } = this.panel.program, of = kernels[launches[asked.step].kernel].steps[asked.mode].tasks[asked.task];
    const events = this.events = steps(of, log), where = asked.lane.join(", "), turn = events.findIndex(([n]) => of.s[n][6]);
    if (!log.length) { this.host.replaceChildren(make("p", {}, `there is no iteration ${where} here`)); return; }
    const before = this.host.querySelector(".drive input[type=range]");
    if (before) this.at = Number(before.value);
    this.host.innerHTML = of.html;
    const root = this.host.querySelector(".stepper"), back = turn > 0 ? `, the reverse begins at step ${(turn + 1).toLocaleString("en")}` : "";
    root.prepend(make("p", { class: "answer" }, `iteration ${where || "of its own"}: ${events.length.toLocaleString("en")} steps${full ? " and more" : ""}${back}`));
    const data = { ...of, e: events, cut: full, turn, found: Math.min(this.at ?? Math.max(turn, 0), events.length - 1), below: of.names.map(() => 0) };
    root.removeAttribute("data-stepper");
    for (const x of root.querySelectorAll("[data-lines]")) lines(x, given(x, "lines"), { uid: "live", point() {} });
    stepper(root, data, async () => "<p>a page has no room for more steps of an iteration; the notebook shows them all</p>");
  }
}
