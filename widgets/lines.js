// Draws a listing, of which only the rows in view are HTML elements. Its data (`live.lines`) are: t, for each line
// "source line, statement, statement whose adjoint it computes, HTML"; folds, [begin, end, text]; for a difference
// also r, the right side, and h, the hunks.

const OVERSCAN = 12, CONTEXT = 3, MOST_SELECTED = 5000;
const MOVES = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -Infinity, End: Infinity };

/** Parses the lines of one side: numbers l (source line), s (statement), a (adjoint of), and HTML t. */
function parsed(side) {
  const rows = side.t.map((x) => /^(-?\d+) (-?\d+) (-?\d+) ([^]*)$/.exec(x));
  return { ...side, l: rows.map((x) => Number(x[1])), s: rows.map((x) => Number(x[2])),
    a: rows.map((x) => Number(x[3])), t: rows.map((x) => x[4]) };
}

/** The tie of an element: source line, statement, and the statement whose adjoint it computes. */
const tieOf = ({ dataset }) => ({ line: Number(dataset.spanLine), stmt: Number(dataset.stmt ?? -1),
  adj: Number(dataset.adj ?? -1) });
const showRelation = (x, kind) => {
  for (const name of ["mark", "twin", "near"]) x.classList.toggle(name, name === kind);
};

/** The relation of a line to the mark: "mark" (forward), "twin" (adjoint), "near" (same source line), or "".
    */
function relation(mark, { line, stmt, adj }) {
  if (!mark) return "";
  const side = adj >= 0 ? "twin" : "mark";
  if (mark.stmt >= 0 && stmt >= 0) {
    const home = mark.adj >= 0 ? mark.adj : mark.stmt;
    if (stmt === mark.stmt || stmt === home || adj === home) return side;
    return line > 0 && line === mark.line ? "near" : "";
  }
  return line > 0 && line === mark.line ? side : "";
}

/** The HTML of two listings and how they differ (`live.difference`): hunks h, and lines m whose words are
    marked. */
function compared([before, after], { h, m }) {
  const box = document.createElement("div");
  const [left, right] = [before, after].map((html, side) => {
    box.innerHTML = html;
    const data = box.querySelector("[data-lines]")?.dataset.lines, own = data && JSON.parse(data);
    for (const [n, line] of own ? m[side] : []) own.t[n] = line;
    return own;
  });
  const host = box.querySelector("[data-lines]");
  if (!left || !right) return left ? after : before; // a sentence instead of a listing
  host.dataset.lines = JSON.stringify({ t: left.t, n: left.n, r: { t: right.t }, h });
  host.setAttribute("aria-label", `what changed: ${host.getAttribute("aria-label")}`);
  return host.outerHTML;
}

/** The rows of a listing: [left, right] indices, -1 for none; [-2, number, text] for a fold or a hunk that is
    closed. */
function rowsOf(data, unified, open) {
  const rows = [];
  if (!data.h) {
    const folds = data.folds ?? [];
    for (let n = 0, f = 0; n < data.t.length; n++) {
      while (f < folds.length && folds[f][1] <= n) f++;
      const [begin, end, text] = folds[f] ?? [];
      if (n === begin && !open.has(f)) {
        rows.push([-2, f, `${end - begin} lines: ${text}`]);
        n = end - 1;
      } else rows.push([n, -1]);
    }
    return rows;
  }
  data.h.forEach(([tag, a, b, c, d], n) => {
    if (tag === "equal") {
      const head = n ? CONTEXT : 0, tail = n < data.h.length - 1 ? CONTEXT : 0,
        whole = b - a <= head + tail + 2 || open.has(n);
      for (let k = 0; k < b - a; k++) {
        const closed = !whole && k === head;
        rows.push(closed ? [-2, n, `${b - a - head - tail} unchanged lines`] : [a + k, unified ? -1 : c + k]);
        if (closed) k = b - a - tail - 1;
      }
    } else if (unified) {
      for (let k = a; k < b; k++) rows.push([k, -1, "gone"]);
      for (let k = c; k < d; k++) rows.push([-1, k, "came"]);
    } else for (let k = 0; k < Math.max(b - a, d - c); k++) {
      rows.push([a + k < b ? a + k : -1, c + k < d ? c + k : -1, "chg"]);
    }
  });
  return rows;
}

/** Makes `host` live. `hooks.point(mark, pinned)` is called with what the user points at. */
function lines(host, listing, hooks) {
  const data = parsed(listing), label = host.getAttribute("aria-label"),
    id = `${hooks.uid}-${lines.serial = (lines.serial ?? 0) + 1}`;
  const two = !!data.h, ROW = 1.25 * parseFloat(getComputedStyle(document.documentElement).fontSize);
  if (two) data.r = parsed(data.r);
  const [pad, body, ruler, scroller] = ["pad", "rows", "ruler", "scroller"].map((name) =>
    make("div", { class: name, role: "presentation" }));
  pad.append(body);
  scroller.append(pad);
  host.replaceChildren(scroller, ruler);
  const longest = (d) => d.t.reduce((w, x) =>
    Math.max(w, x.replace(/<[^>]*>|&\w+;/g, (m) => m[0] === "&" ? "." : "").length), 0);
  const self = { host, label, unified: false, open: new Set(), rows: [], at: -1, mark: null, hits: new Set(), here: 0 };
  const side = (right) => right && two ? data.r : data;
  const cell = (row) => row[0] >= 0 ? [data, row[0]] : row[1] >= 0 ? [side(true), row[1]] : null;
  const who = (row) => {
    const c = row && row[0] !== -2 && cell(row);
    return c ? { line: c[0].l[c[1]], stmt: c[0].s[c[1]], adj: c[0].a[c[1]] } : null;
  };
  const kin = (row, mark) => { const w = who(row); return w ? relation(mark, w) : ""; };
  const noted = Object.values(data.notes ?? {}), closed = data.h ?? data.folds ?? [];
  host.style.setProperty("--gut", Math.max(0, ...noted.map((x) => plain(x).length)));
  const wide = longest(data), wideRight = two ? longest(data.r) : 0;

  self.layout = () => {
    self.rows = rowsOf(data, self.unified, self.open);
    pad.style.height = `${self.rows.length * ROW}px`;
    pad.style.setProperty("--long", two && !self.unified ? "0px" : `${Math.max(wide, wideRight) + 8}ch`);
    host.classList.toggle("split2", two && !self.unified);
    host.style.setProperty("--rows", self.rows.length);
    body.replaceChildren();
    self.draw();
    self.paint(self.mark);
  };
  const half = (d, n, kind) => {
    const x = make("span", { class: n < 0 ? "half" : `half ${kind}` });
    if (n < 0) return x;
    const no = data.n === "count" ? n + 1 : d.l[n] || "";
    const gutter = noted.length ? `<span class="gut" aria-hidden="true">${data.notes[d.l[n]] ?? ""}</span>` : "";
    x.innerHTML = `<span class="no">${no}</span>${gutter}<span class="tx">${d.t[n] || " "}</span>`;
    return x;
  };
  function made(n) {
    const row = self.rows[n], [left, right, kind] = row, w = who(row);
    const place = { "aria-setsize": self.rows.length, "aria-posinset": n + 1, "data-row": n };
    const about = { id: `${id}-${n}`, role: "option", ...place };
    if (left === -2) {
      return make("div", { ...about, class: "ln folded", title: "Enter or a click shows them" }, `▸ ${kind}`);
    }
    const halves = kind === "came" || kind === "gone" ? [half(side(left < 0), Math.max(left, right), kind)]
      : [half(data, left, kind ? "gone" : "")];
    if (two && !self.unified) halves.push(half(data.r, right, kind ? "came" : ""));
    const ties = { "data-span-line": w.line > 0 && w.line, "data-stmt": w.stmt >= 0 && w.stmt };
    return make("div", { class: "ln", ...about, ...ties }, ...halves);
  }
  /** The first and the last row of the text that is selected here, which must stay to be copied. */
  function selected() {
    const s = getSelection(), none = [Infinity, -1];
    if (!s || s.isCollapsed || !body.contains(s.anchorNode) || !body.contains(s.focusNode)) return none;
    const rowOf = (x) => Number((x.nodeType === 1 ? x : x.parentElement).closest(".ln")?.dataset.row ?? -1);
    const ends = [s.anchorNode, s.focusNode].map(rowOf).sort((a, b) => a - b);
    return ends[0] >= 0 && ends[1] - ends[0] < MOST_SELECTED ? ends : none;
  }
  /** Draws the rows in view. Those that were in view stay the same elements: a button may be down on one,
      whose click would be lost. */
  self.draw = () => {
    const [from, to] = selected();
    const first = Math.min(from, Math.max(0, Math.floor(scroller.scrollTop / ROW) - OVERSCAN));
    const low = Math.ceil((scroller.scrollTop + (scroller.clientHeight || 400)) / ROW) + OVERSCAN;
    const last = Math.max(to + 1, Math.min(self.rows.length, low));
    const kept = new Map();
    for (const x of [...body.children]) {
      const n = Number(x.dataset.row);
      if (n < first || n >= last) x.remove();
      else kept.set(n, x);
    }
    const stays = body.firstElementChild;
    for (let n = first, seen = !stays; n < last; n++) {
      if (!kept.has(n)) seen ? body.append(made(n)) : stays.before(made(n));
      seen ||= kept.get(n) === stays;
    }
    body.style.transform = `translateY(${first * ROW}px)`;
    tint();
  };
  function tint() {
    for (const x of body.children) {
      const n = Number(x.dataset.row), is = kin(self.rows[n], self.mark);
      showRelation(x, is);
      x.classList.toggle("hit", self.hits.has(n));
      x.classList.toggle("at", n === self.at);
      x.classList.toggle("here", self.here > 0 && x.dataset.spanLine === String(self.here));
      x.setAttribute("aria-selected", is === "mark" || is === "twin");
    }
    host.querySelector(".at") ? host.setAttribute("aria-activedescendant", `${id}-${self.at}`)
      : host.removeAttribute("aria-activedescendant");
  }
  /** Marks the rows that belong to a mark; with `reveal` scrolls to the first. Returns their numbers:
      [forward, adjoint]. */
  self.paint = (mark, reveal) => {
    self.mark = mark;
    const count = [0, 0], ticks = [];
    let first = -1, near = -1;
    if (mark) self.rows.forEach((row, n) => {
      const is = kin(row, mark);
      if (!is) return;
      if (is === "near") near = near < 0 ? n : near;
      else { count[is === "twin" ? 1 : 0]++; first = first < 0 ? n : first; }
      const top = (100 * n / self.rows.length).toFixed(2);
      if (ticks.length < 300) ticks.push(`<i class="${is}" style="top:${top}%"></i>`);
    });
    ruler.innerHTML = self.rows.length * ROW > scroller.clientHeight ? ticks.join("") : "";
    if (reveal && first + near > -2) self.reveal(first < 0 ? near : first);
    tint();
    return count;
  };
  self.reveal = (n) => {
    const top = n * ROW, height = scroller.clientHeight, below = top - scroller.scrollTop;
    if (below < ROW || below > height - 2 * ROW) scroller.scrollTop = Math.max(0, top - height / 3);
    self.draw();
  };
  /** Marks a source line as the one where something is, and scrolls to it. */
  host.point = (line) => {
    self.here = line;
    const n = self.rows.findIndex((row) => row[0] >= 0 && data.l[row[0]] === line);
    n >= 0 ? self.reveal(n) : tint();
  };
  self.go = (n) => { self.at = Math.min(Math.max(n, 0), self.rows.length - 1); self.reveal(self.at); };
  /** Marks the rows that contain the text; returns functions that go to them. */
  self.search = (text) => {
    const low = text.toLowerCase(), has = (d) => (d.plain ??= d.t.map((x) => plain(x).toLowerCase()));
    self.hits = new Set();
    if (low && self.open.size < closed.length) { closed.forEach((_, n) => self.open.add(n)); self.layout(); }
    const hit = (d, n) => low && d && n >= 0 && has(d)[n].includes(low);
    self.rows.forEach((row, n) => { if (hit(data, row[0]) || hit(data.r, row[1])) self.hits.add(n); });
    tint();
    return [...self.hits].map((n) => () => self.go(n));
  };
  const pick = (n) => {
    const row = self.rows[n];
    if (!row) return;
    if (row[0] === -2) { self.open.add(row[1]); self.layout(); return; }
    const w = who(row);
    if (w && (w.line > 0 || w.stmt >= 0)) hooks.point(w, true, self);
  };
  const rowAt = (e) => {
    const x = e.target.closest?.(".ln");
    return x && host.contains(x) ? Number(x.dataset.row) : -1;
  };
  scroller.addEventListener("scroll", () => self.draw(), { passive: true });
  host.addEventListener("mouseover", (e) => {
    const n = rowAt(e), w = n >= 0 && who(self.rows[n]);
    if (w && w.line > 0) hooks.point(w, false, self);
  });
  host.addEventListener("mouseleave", () => hooks.point(null, false, self));
  host.addEventListener("click", (e) => {
    const n = rowAt(e);
    if (n >= 0 && !getSelection()?.toString()) { self.at = n; pick(n); }
  });
  // the focus does not scroll: a click would meet other rows
  host.addEventListener("focus", () => { if (self.at < 0) { self.at = Math.ceil(scroller.scrollTop / ROW); tint(); } });
  const here = () => pick(self.at), keys = { Enter: here, " ": here };
  for (const [key, by] of Object.entries(MOVES)) keys[key] = () => self.go(Math.max(self.at, 0) + by);
  host.addEventListener("keydown", (e) => pressed(e, keys));
  new ResizeObserver(() => self.draw()).observe(scroller);
  self.layout();
  // What is shown first: the line of `top`, with two before it.
  const first = self.rows.findIndex((row) => row[0] >= (data.top ?? 0)) - 2;
  if (first > 0) scroller.scrollTop = first * ROW + scroller.firstElementChild.offsetTop;
  return self;
}
