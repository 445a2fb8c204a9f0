// The stepper: draws one recorded iteration at any of its steps. Its data come from Python (`widgets/steps.py`): the
// statements [text, line, kind, name, stack, carried, back] and the events [statement, value, made of] in order.

const BUTTONS = [["first", "first", "first step"], ["line-", "« line", "line before"], ["-", "‹ step", "step before"],
  ["+", "step ›", "next step"], ["line+", "line »", "next line"], ["turn", "turn", "where it turns back"], ["last", "last", "last step"]];
const MOST_SLOTS = 12;

/** The state after events 0..k: values by name, stacks, loops that are open, what was written. */
function stateAt(data, k) {
  const state = { values: new Map(), stacks: Array.from({ length: data.n }, () => []), loops: [], writes: [] };
  const set = (name, value, n) => {
    if (!name) return;
    const adjoint = name.endsWith(".grad"), own = adjoint ? name.slice(0, -5) : name;
    const row = state.values.get(own) ?? {};
    row[adjoint ? "adjoint" : "value"] = value;
    row[adjoint ? "adjointAt" : "valueAt"] = n;
    state.values.set(own, row);
  };
  for (let n = 0; n <= k; n++) {
    const [at, value] = data.e[n], [text, , kind, name, stack, carried] = data.s[at];
    if (kind === "push") state.stacks[stack]?.push(value);
    else if (kind === "pop") state.stacks[stack]?.pop();
    else if (kind === "write") state.writes.push(value);
    else if (kind === "value") set(name, value, n);
    else {
      carried.forEach((own, i) => set(own, value[i + 1], n));
      const open = state.loops.findIndex((x) => x.text === text);
      if (kind === "end") { if (open >= 0) state.loops.length = open; continue; }
      set(name === "_" ? "" : name, value[0], n);
      if (open >= 0) { state.loops[open].trip++; state.loops[open].index = value[0]; }
      else state.loops.push({ text, name, line: data.s[at][1], index: value[0], trip: 1 });
    }
  }
  return state;
}

/** Makes the element with `data-stepper` live. */
function stepper(root) {
  const data = JSON.parse(root.dataset.stepper), last = data.e.length - 1;
  root.removeAttribute("data-stepper");
  if (last < 0) { root.querySelector(".now").textContent = "nothing runs in this iteration"; return; }
  const line = (n) => data.s[data.e[n][0]][1], back = (n) => data.s[data.e[n][0]][6];
  const turn = Math.max(data.e.findIndex((_, n) => back(n)), 0);
  const drive = root.querySelector(".drive"), range = document.createElement("input");
  Object.assign(range, { type: "range", min: 0, max: last, value: 0 });
  range.setAttribute("aria-label", "Step");
  let at = 0;
  const moves = {
    first: () => 0, last: () => last, "-": () => at - 1, "+": () => at + 1, turn: () => turn,
    "line+": () => { let n = at; while (n < last && line(n) === line(at)) n++; return n; },
    "line-": () => { let n = at; while (n > 0 && line(n) === line(at)) n--; const to = line(n); while (n > 0 && line(n - 1) === to) n--; return n; },
  };
  for (const [id, text, label] of BUTTONS) {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: text, title: label, className: "ch" });
    button.setAttribute("aria-label", label);
    button.dataset.move = id;
    button.addEventListener("click", () => go(moves[id]()));
    drive.append(button);
  }
  drive.append(range);
  range.addEventListener("input", () => go(Number(range.value)));

  const cell = (tag, text, name) => { const x = document.createElement(tag); x.textContent = text; if (name) x.className = name; return x; };

  function go(n) {
    at = Math.min(Math.max(n, 0), last);
    range.value = at;
    const [number, value, from] = data.e[at], [text, , kind] = data.s[number], state = stateAt(data, at);
    const loops = state.loops.map((x) => x.index === "" ? `while, trip ${x.trip}` : `for ${x.name || "_"} = ${x.index}`).join(", ");
    const told = Array.isArray(value) || kind === "write" ? "" : `${value}${from && ` from ${from}`}`;
    root.querySelector(".now").replaceChildren(
      cell("span", `step ${at + 1} of ${last + 1}${data.cut && at === last ? ", cut here" : ""}, `, "muted"),
      cell("b", back(at) ? "backwards" : "forwards"), cell("span", loops ? `, ${loops}` : "", "muted"),
      cell("code", kind === "end" ? `end of: ${text}` : text, "stmt"), cell("span", told, "val"));
    for (const x of root.querySelectorAll(".code .ln")) {
      const here = x.dataset.spanLine === String(line(at));
      x.classList.toggle("here", here);
      if (here) x.scrollIntoView?.({ block: "nearest" });
    }
    const table = cell("table", "", "tb"), head = table.createTHead().insertRow();
    for (const title of ["name", "value", "adjoint"]) head.append(cell("th", title));
    const body = table.createTBody();
    for (const [name, row] of state.values) {
      const tr = body.insertRow(), old = back(at) && row.valueAt < turn; // the way back has not come to it, or need not
      const value = cell("td", row.value ?? "", row.valueAt === at ? "num fresh" : old ? "num muted" : "num");
      if (old) value.title = "as the way forwards left it";
      tr.append(cell("td", name), value, cell("td", row.adjoint ?? "", row.adjointAt === at ? "num fresh" : "num"));
    }
    root.querySelector(".vals").replaceChildren(table);
    const touched = data.s[number][4];
    root.querySelectorAll(".stk").forEach((column, k) => {
      const slots = state.stacks[k], shown = slots.slice(-MOST_SLOTS);
      column.classList.toggle("fresh", touched === k);
      const parts = shown.map((x, i) => cell("div", x, touched === k && kind === "push" && i === shown.length - 1 ? "slot1 fresh" : "slot1"));
      if (slots.length > shown.length) parts.unshift(cell("div", `${slots.length - shown.length} below`, "muted"));
      column.querySelector(".slots").replaceChildren(...parts.reverse());
      column.dataset.height = slots.length;
    });
    root.querySelector(".stk.fresh, .vals .fresh")?.scrollIntoView?.({ block: "nearest" });
    root.querySelector(".mem").replaceChildren(...state.writes.slice(-6).map((x, i, all) =>
      cell("div", x, kind === "write" && i === all.length - 1 ? "fresh" : "")));
  }
  go(0);
}
