// The inspector in the browser: a tablist, slots that are filled by requests, and marks on lines that belong
// together. Python renders all HTML; `ask(request)` is the only way to get it.

const LESS = (at) => at - 1, MORE = (at) => at + 1; // where keys go from item `at` of a group
const KEYS = { ArrowDown: MORE, ArrowRight: MORE, ArrowUp: LESS, ArrowLeft: LESS, Home: () => 0, End: (_, last) => last };
// milliseconds after which a request is sent again when it is made again: a message may be lost
const LOST = 2000;
const MOST_KEPT = 1 << 24; // characters of cached answers; only answers that never change are cached
let serial = 0;

/** Builds the inspector inside `host`. `shape`: {title, kernels: [name], panes: [[id, title]]}. */
export function mount(host, shape, ask) {
  const uid = `qdi${serial++}`;
  const root = make("div", { class: "qdi" });
  root.innerHTML = `<div class="head"><span class="title"></span>
    <div class="tabs" role="tablist" aria-label="Panes" data-roving data-follow></div><span class="right">
    <button type="button" class="ch whole" aria-label="Full window" title="full window (w)">
    <svg width="12" height="12" aria-hidden="true"><path d="M1 4V1h3M8 1h3v3M11 8v3H8M4 11H1V8"/></svg>
    </button>
    <button type="button" class="ch help" aria-label="Keys">?</button></span></div>
    <div role="tabpanel" tabindex="0" id="${uid}-panel"></div>
    <span class="say" role="status" aria-live="polite"></span>`;
  const title = root.querySelector(".title"), tabs = root.querySelector(".tabs");
  const panel = root.querySelector("[role=tabpanel]"), say = root.querySelector(".say");
  const state = { kernel: shape.kernel ?? 0, pane: shape.open ?? shape.panes[0]?.[0], mark: null, painted: [] };
  let parts = []; // objects that draw themselves: listings, graphs, sizes

  if (shape.kernels.length > 1) {
    const change = (e) => { Object.assign(state, { kernel: Number(e.target.value), mark: null }); open(); };
    const options = shape.kernels.map((name, i) => new Option(name, i, i === state.kernel, i === state.kernel));
    title.append(make("select", { "aria-label": "Kernel", change }, ...options));
  } else title.textContent = shape.kernels[0] ?? shape.title;
  shownWhole(root);

  for (const [id, text] of shape.panes) {
    const named = { type: "button", id: `${uid}-${id}`, "data-item": "", "data-pane": id };
    tabs.append(make("button", { ...named, role: "tab", "aria-controls": panel.id }, text));
  }

  const named = (x) => x.getAttribute("aria-label") ?? x.textContent;
  /** The element inside the slot that has the focus, else null. */
  const focusIn = (into, x = focused(root)) => into !== x && into.contains(x) ? x : null;

  /** Fills the slot with the answer to a request, or with what `joined` makes of the answers to several. A
      focus inside stays there. */
  async function load(request, into, joined = ([html]) => html) {
    const had = focusIn(into);
    into.setAttribute("aria-busy", "true");
    const wanted = [request].flat(), key = (into.dataset.asked = wanted.join(" "));
    const get = (what) => ask(what, (meanwhile) => {
      if (into.dataset.asked === key && meanwhile.parentNode !== into) into.replaceChildren(meanwhile);
    });
    const html = joined(await Promise.all(wanted.map(get)));
    if (into.dataset.asked !== key) return; // a later request uses the slot
    into.removeAttribute("aria-busy");
    if (!root.contains(into)) return; // its pane was closed
    const lost = focusIn(into) ?? ([document.body, null].includes(focused(root)) ? had : null);
    into.innerHTML = html;
    settle(into);
    const like = (x) => named(x) === named(lost);
    if (lost) ([...into.querySelectorAll(lost.tagName)].find(like) ?? panel).focus({ preventScroll: true });
  }

  function open(request = `${state.kernel}/${state.pane}`) {
    root.querySelector(".search")?.remove();
    for (const tab of tabs.children) {
      const on = tab.dataset.pane === state.pane;
      tab.setAttribute("aria-selected", on);
      tab.tabIndex = on ? 0 : -1;
    }
    panel.setAttribute("aria-labelledby", `${uid}-${state.pane}`);
    return load(request, panel);
  }

  /** Opens the pane of a request with its answer. */
  function show(request) {
    const [kernel, pane] = request.split("/"), select = title.querySelector("select");
    Object.assign(state, { kernel: Number(kernel), pane });
    if (select) select.value = kernel;
    return open(request);
  }

  /** Makes a list of each table that is wider than the pane: its cells below each other, each with its
      column's title. */
  function fit() {
    const room = panel.clientWidth - parseFloat(getComputedStyle(panel).paddingRight);
    for (const x of panel.querySelectorAll("table.tb:not(.vals *)")) {
      x.classList.remove("stacked");
      if (x.offsetLeft + x.offsetWidth <= room) continue;
      const titles = [...x.tHead.rows[0].cells].map((cell) => cell.textContent);
      for (const row of x.tBodies[0].rows) [...row.cells].forEach((cell, k) => { cell.dataset.title = titles[k]; });
      x.classList.add("stacked");
    }
  }

  /** Starts everything in the part that draws itself, and makes one item of every group reachable with Tab.
      */
  function settle(part) {
    const hooks = { uid, point, ask, marked: () => state.mark };
    parts = parts.filter((x) => panel.contains(x.host));
    for (const [name, start] of Object.entries({ lines, graph, timeline, sizes: whatIf, cells })) {
      for (const x of part.querySelectorAll(`[data-${name}]`)) {
        const made = start(x, given(x, name), hooks);
        if (made) parts.push(made); // it can be marked and searched
      }
    }
    unify(part);
    fit();
    for (const group of part.querySelectorAll("[data-roving]")) {
      const items = itemsOf(group);
      if (items.length && !items.some((x) => x.tabIndex === 0)) items[0].tabIndex = 0;
    }
    for (const x of part.querySelectorAll("[data-stepper]")) stepper(x, given(x, "stepper"), ask);
    for (const x of part.querySelectorAll("[data-load]")) load(x.dataset.load, x);
    for (const x of part.querySelectorAll("[data-from]")) {
      const { from, to, told } = x.dataset;
      x.removeAttribute("data-from");
      load([from, to], x, (both) => compared(both, JSON.parse(told)));
    }
    for (const x of part.querySelectorAll(".grip")) resizing(x);
    // the element under the pointer may be gone, and then no event takes its mark back
    cancelAnimationFrame(hover);
    paint(state.mark, true);
  }

  const itemsOf = (group) => [...group.querySelectorAll("[data-item]")].filter((x) =>
    x.closest("[data-roving]") === group && x.getClientRects().length);

  /** Marks all lines that belong to the mark; `reveal` scrolls everything but `from` to the first of them. */
  function paint(mark, reveal, from) {
    const count = [0, 0];
    for (const x of state.painted) x.classList.remove("mark", "twin", "near");
    state.painted = [];
    let first = null;
    if (mark) for (const x of panel.querySelectorAll(`[data-span-line="${Number(mark.line)}"]`)) {
      if (x.closest(".lines, .graph")) continue;
      const is = relation(mark, tieOf(x));
      x.classList.add(is);
      state.painted.push(x);
      if (is !== "near") { count[is === "twin" ? 1 : 0]++; first ??= x; }
    }
    if (first && reveal && from?.host !== panel) first.scrollIntoView?.({ block: "nearest", inline: "nearest" });
    for (const p of parts.filter((x) => panel.contains(x.host))) {
      p.paint(mark, reveal && p !== from).forEach((n, k) => { count[k] += n; });
    }
    if (!mark) say.textContent = "";
    else if (mark === state.mark) {
      say.textContent = `line ${mark.line}: ${count[0]} forward, ${count[1]} adjoint here`;
    }
  }

  const same = (a, b) => a && b && a.line === b.line && a.stmt === b.stmt;

  let hover = 0;
  /** Called when the user points at a statement or line, or (null) no longer. `pinned`: the mark stays; the
      same mark again removes it. */
  function point(mark, pinned, from) {
    cancelAnimationFrame(hover);
    if (!pinned) { hover = requestAnimationFrame(() => paint(mark ?? state.mark, false, from)); return; }
    state.mark = same(mark, state.mark) ? null : mark;
    paint(state.mark, true, from);
  }

  const slotOf = (x) => panel.querySelector(`[data-slot="${x.dataset.into}"]`);
  function pick(x) {
    if (x.dataset.pane) { state.pane = x.dataset.pane; open(); return; }
    if (x.dataset.req) {
      const group = x.closest("[data-roving]");
      for (const y of group ? itemsOf(group) : []) {
        y.setAttribute(y.getAttribute("role") === "radio" ? "aria-checked" : "aria-selected", y === x);
      }
      load(x.dataset.req, slotOf(x));
    } else if (x.dataset.spanLine) point(tieOf(x), true, { host: panel });
  }

  function focusItem(items, x) {
    for (const y of items) y.tabIndex = y === x ? 0 : -1;
    x.focus();
  }

  function unify(part) {
    const on = panel.querySelector("[data-toggle=unified]")?.checked, own = (p) => p.layout && part.contains(p.host);
    if (on !== undefined) for (const p of parts.filter(own)) if (p.unified !== on) { p.unified = on; p.layout(); }
  }

  root.querySelector(".help").addEventListener("click", () => help(root));
  root.addEventListener("click", (e) => {
    const { hide, get } = e.target.dataset;
    if (get) { show(get); return; }
    if (hide !== undefined) {
      const columns = [...panel.querySelectorAll(".linked .col")], on = columns[hide].hidden;
      columns[hide].hidden = !on;
      for (const grip of panel.querySelectorAll(".grip")) grip.hidden = grip.nextElementSibling.hidden || !leftOf(grip);
      e.target.setAttribute("aria-pressed", on);
      return;
    }
    const x = e.target.closest("[data-item]");
    if (!x || !root.contains(x) || getSelection()?.toString()) return;
    const group = x.closest("[data-roving]");
    if (group) focusItem(itemsOf(group), x);
    pick(x);
  });
  root.addEventListener("change", (e) => {
    const { toggle, ask: asked, then = "" } = e.target.dataset, option = e.target.selectedOptions?.[0];
    if (asked && e.target.type !== "range") load(asked + e.target.value.trim() + then, slotOf(e.target));
    if (option?.dataset.req) {
      const group = e.target.parentElement.querySelector("[data-group]");
      if (group) group.textContent = option.parentElement.label ?? "";
      load(option.dataset.req, slotOf(e.target));
    }
    if (toggle) { panel.querySelectorAll(".slot").forEach((s) =>
      s.classList.toggle(toggle, e.target.checked)); unify(panel); }
  });
  root.addEventListener("input", ({ target: x }) => {
    if (x.type === "range" && x.dataset.ask) load(x.dataset.ask + x.value, slotOf(x));
  });
  const keys = {
    "?": () => help(root), w: () => root.querySelector(".whole").click(),
    "/": () => searchBar(panel, () => parts.filter((p) => panel.contains(p.host) && p.search)),
  };
  [...tabs.children].slice(0, 10).forEach((tab, n) => {
    keys[(n + 1) % 10] = () => { focusItem([...tabs.children], tab); pick(tab); };
  });
  root.addEventListener("keydown", (e) => {
    if (e.defaultPrevented) return;
    const typing = e.target.matches("input:not([type=range]):not([type=checkbox]), textarea, select");
    if (!typing && pressed(e, keys)) return;
    const x = e.target.closest("[data-item]"), group = x?.closest("[data-roving]");
    if (!group) return;
    const items = itemsOf(group), last = items.length - 1, follow = group.hasAttribute("data-follow");
    const to = KEYS[e.key]?.(items.indexOf(x), last), choose = () => pick(x);
    pressed(e, { Enter: choose, " ": choose, ...to !== undefined && { [e.key]: () => {
      const y = items[follow ? (to + items.length) % items.length : Math.min(Math.max(to, 0), last)];
      focusItem(items, y);
      if (follow) pick(y);
    } } });
  });
  // A notebook would take bare keys (j, dd, Enter ...) as commands, wherever the focus is.
  for (const kind of ["keydown", "keypress", "keyup"]) {
    root.addEventListener(kind, (e) => { if (!e.ctrlKey && !e.metaKey) e.stopPropagation(); });
  }
  root.dataset.lmSuppressShortcuts = "true";
  host.append(root);
  // in a frame of its own: it changes the height
  new ResizeObserver(() => requestAnimationFrame(fit)).observe(panel);
  open();
  return root;
}

/** The button that shows the inspector in the full window, above the page; Escape ends that. */
function shownWhole(root) {
  const end = (e) => { if (e.key === "Escape") { show(false); e.stopPropagation(); } };
  function show(on) {
    if (on) { root.popover = "manual"; root.showPopover(); } else root.removeAttribute("popover"); // which hides it
    document[on ? "addEventListener" : "removeEventListener"]("keydown", end);
  }
  root.querySelector(".whole").addEventListener("click", () => show(!root.hasAttribute("popover")));
  root.addEventListener("keydown", (e) => {
    if (root.hasAttribute("popover") && !e.defaultPrevented) end(e);
  });
}

/** The visible column before the bar between two columns. */
function leftOf(grip) {
  const columns = [...grip.parentElement.querySelectorAll(".col")];
  return columns.slice(0, columns.indexOf(grip.nextElementSibling)).findLast((x) => !x.hidden);
}

/** Makes the bar between two columns move: with the pointer, or with the arrow keys. */
function resizing(grip) {
  const STEP = 24, LEAST = 120;
  function move(by) {
    const shown = [...grip.parentElement.querySelectorAll(".col:not([hidden])")], left = leftOf(grip);
    const widths = shown.map((x) => x.offsetWidth), right = grip.nextElementSibling;
    shown.forEach((x, n) => { x.style.flexGrow = widths[n]; });
    const sum = left.offsetWidth + right.offsetWidth, to = Math.min(Math.max(left.offsetWidth + by, LEAST), sum - LEAST);
    left.style.flexGrow = to;
    right.style.flexGrow = sum - to;
    grip.setAttribute("aria-valuenow", Math.round(100 * to / sum));
  }
  grip.addEventListener("pointerdown", (e) => { grip.setPointerCapture(e.pointerId); e.preventDefault(); });
  grip.addEventListener("pointermove", (e) => {
    if (e.buttons) move(e.clientX - grip.getBoundingClientRect().x - 3);
  });
  const keys = { ArrowLeft: () => move(-STEP), ArrowRight: () => move(STEP) };
  grip.addEventListener("keydown", (e) => pressed(e, keys));
}

/** The inspector of a widget: it has the `initial` answers at once and asks the kernel for others. With the
    first answer it hides the static copy. */
export function live({ model, el }, initial) {
  const waiting = new Map(), hide = make("style");
  const copy = `[data-qd-static="${model.get("uid")}"]`;
  hide.textContent = `${copy},.jp-OutputArea-child:has(${copy}){display:none!important}`;
  el.style.display = "none";
  const first = () => { if (!hide.isConnected) { el.style.display = ""; document.head.append(hide); } };
  const kept = new Map();
  let size = 0;
  const keep = (request, html) => {
    kept.set(request, html);
    size += html.length;
    for (const [oldest, gone] of kept) if (size > MOST_KEPT) { kept.delete(oldest); size -= gone.length; }
  };
  const got = ({ kind, request, html, text, final }) => {
    if (final) keep(request, html);
    const asked = waiting.get(request);
    if (!asked) return;
    asked.heard = true;
    if (kind === "wait") asked.text = text;
    else { clearInterval(asked.clock); waiting.delete(request); asked.done.forEach((done) => done(html)); }
  };
  model.on("msg:custom", got);
  const ask = async (request, show) => {
    const html = initial(request) ?? kept.get(request) ?? await new Promise((done) => {
      const asked = waiting.get(request) ?? { done: [], text: "" };
      asked.done.push(done);
      asked.show = show; // where it was asked last: what asked before may be gone
      if (asked.heard || Date.now() - asked.sent < LOST) return;
      asked.sent = Date.now();
      asked.since ??= asked.sent;
      asked.clock ??= setInterval(() => asked.show(progress(request, asked)), 500);
      waiting.set(request, asked);
      try { model.send({ kind: "ask", request }); } catch { asked.since = 0; } // its kernel has ended
    });
    first();
    return html;
  };
  /** What is shown meanwhile: one element with one button, so that no click on it is lost. */
  const progress = (request, asked) => {
    const seconds = Math.round((Date.now() - asked.since) / 1000),
      p = (asked.told ??= make("p", { class: "none" }, " "));
    p.firstChild.data = asked.heard ? `${asked.text}: ${seconds} s ` : seconds < 3 ? "asking the kernel" :
      "no answer yet: the kernel is busy; if it has ended, the notebook has not kept this view: run the cell";
    if (asked.heard && !p.children.length) {
      const click = (e) => { e.stopPropagation(); model.send({ kind: "stop", request }); };
      p.append(make("button", { type: "button", class: "ch stop", click }, "stop"));
    }
    return p;
  };
  mount(el, model.get("shape"), ask);
  return () => { model.off("msg:custom", got); waiting.forEach((x) => clearInterval(x.clock)); hide.remove(); };
}
