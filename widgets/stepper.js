// The stepper: draws a traced iteration at any of its steps. Its data come from Python (`widgets/steps.py`):
// statements s [text, line, kind, name, stack, carried, back]; events e [statement, value, operands] from
// number `first` on; and `past` [statement, value, number], a summary of the events before. Other windows are
// requested.

const STEPS = [ // move, text of its button, key, what it does
  ["first", "first", "Home", "first step"], ["line-", "« line", "Shift ArrowLeft", "line before"],
  ["-", "‹ step", "ArrowLeft", "step before"],
  ["+", "step ›", "ArrowRight", "next step"], ["line+", "line »", "Shift ArrowRight", "next line"],
  ["turn", "turn", "t", "where the reverse begins"],
  ["push", "push", "u", "next push of a stack"], ["pop", "pop", "o", "next pop of a stack"],
  ["lost", "nan", "x", "next NaN or infinity"],
  ["last", "last", "End", "last step"]];
const SPEEDS = [1, 2, 4, 8, 16, 32, 64], MOST_SLOTS = 12, MOST_LINES = 6, CLOSE = 0.01;
HELP.push(["in Steps: ← →, Shift ← →, Home, End", "a step, a line, the ends"],
  ["in Steps: t u o x", "where the reverse begins; the next push, pop, NaN or infinity"],
  ["in Steps: p, < >", "play or pause; slower, faster"],
  ["in Steps: g, i", "go to a step (12) or line (:7); to another iteration"],
  ["in Steps: q, c", "predict the value from a stack, Enter answers; the compiler's own names"],
  ["in Steps: Enter on a line", "its next step"]);

/** The state after events: values by name, stacks, open loops, and what was written. */
class Frame {
  values = new Map();
  loops = [];
  writes = [];
  constructor(data) { Object.assign(this, { data, stacks: data.below.map(() => []) }); }
  set(name, value, n) {
    if (!name || name === "_") return;
    const adjoint = name.endsWith(".grad"), own = adjoint ? name.slice(0, -5) : name;
    const given = adjoint ? { adjoint: value, adjointAt: n } : { value, valueAt: n };
    this.values.set(own, { ...this.values.get(own), ...given });
  }
  take([at, value], n) {
    const [text, line, kind, name, stack, carried] = this.data.s[at];
    if (kind === "push") this.stacks[stack]?.push(value);
    else if (kind === "pop") this.stacks[stack]?.pop();
    else if (kind === "write") this.writes.push(value);
    else if (kind === "value" || kind === "top") this.set(name, value, n);
    else {
      carried.forEach((own, i) => this.set(own, value[i + 1], n));
      const open = this.loops.findIndex((x) => x.text === text);
      if (kind === "end") { if (open >= 0) this.loops.length = open; return; }
      this.set(name, value[0], n);
      if (open >= 0) this.loops[open].index = value[0];
      else this.loops.push({ text, name, line, index: value[0] });
    }
  }
}

/** The number that a step shows: a value, an adjoint, what is popped or added to memory; "" for none. */
const told = (kind, value) => Array.isArray(value) ? "" : kind === "write" ? value.replace(/^.*= /, "") : value;
const bit = (tag, text, name) => make(tag, name ? { class: name } : {}, text);
/** Scrolls the box around x, and nothing else. */
const reveal = (x) => {
  const box = x?.closest(".two > div"), a = x?.getBoundingClientRect(), b = box?.getBoundingClientRect();
  if (a && (a.top < b.top || a.bottom > b.bottom)) box.scrollTop += (a.top + a.bottom - b.top - b.bottom) / 2;
};

/** Makes the element with `data-stepper` live. */
function stepper(root, whole, ask) {
  let data, end, at = 0, frame, known = -1, playing = 0, speed = 4, score = [0, 0], asking = null, waits = 0,
    fetched = 0;
  const plots = new Set(), drawn = new Map(), rows = new Map(), find = (q) => root.querySelector(q);
  const [drive, more] = root.querySelectorAll(".drive"), now = find(".now"), quiz = find(".quiz");
  const statement = (n) => data.s[data.e[n - data.first][0]], line = (n) => statement(n)[1],
    back = (n) => statement(n)[6];
  const secret = (name) => !options.own.checked && data.hidden.includes(name);
  const shown = (text) => text.replace(/ '([^']+)'/g, (m, name) => secret(name) ? "" : m);
  const seek = (test) => { for (let n = at + 1; n <= end; n++) if (test(n)) return n; return null; };
  const say = (text) => { now.append(bit("b", ` ${text}`, "note")); };

  function take(given) {
    data = given;
    end = data.first + data.e.length - 1;
    known = -1;
    if (data.turn < 0) data.turn = Infinity;
    Object.assign(range, { min: data.first, max: end });
    drawPlot();
  }
  /** Requests another window of the iteration, around a place, unless one moves elsewhere before it comes. */
  async function fetch(where, otherwise) {
    const mine = (waits = ++fetched);
    const answer = await ask(data.ask + where, (meanwhile) => {
      if (mine === waits && meanwhile.parentNode !== now) now.replaceChildren(meanwhile);
    });
    if (mine !== waits) return;
    waits = 0;
    const told = new DOMParser().parseFromString(answer, "text/html").body, found = told.querySelector("[data-window]");
    if (!found) { draw(); now.append(...told.childNodes); stop(); return; }
    const given = JSON.parse(found.dataset.window);
    if (given.found < 0 && where !== "last") { draw(); say(otherwise); stop(); return; }
    take({ ...given, ask: data.ask });
    go(where === "last" ? end : given.found);
  }
  const after = { // the next step of a kind: a test, the text if there is none
    push: [(n, k) => uses(n, "push", k), "nothing is pushed after this"],
    pop: [(n, k) => uses(n, "pop", k), "nothing is popped after this"],
    lost: [(n) => [data.e[n - data.first][1]].flat().some((x) => /^-?(nan|inf)$/.test(told(statement(n)[2], x))),
      "all is finite after this"],
    line: [(n, k) => line(n) === k, "no later step is of this line"],
  };
  const uses = (n, kind, k) => statement(n)[2] === kind && (k ?? statement(n)[4]) === statement(n)[4];
  function next(kind, k) {
    const [test, otherwise] = after[kind], n = seek((m) => test(m, k));
    if (n !== null) go(n);
    else if (data.cut) fetch(kind === "lost" ? `lost-${at}` : `${kind}-${k ?? ""}-${at}`, otherwise);
    else { draw(); say(otherwise); }
  }
  const moves = {
    first: () => goTo(0), last: () => data.cut ? fetch("last") : go(end), "-": () => goTo(at - 1),
    "+": () => step(),
    turn: () => data.turn >= data.first && data.turn <= end ? go(data.turn) : data.turn < data.first
      ? goTo(data.turn) : data.cut ? fetch("turn", "there is no reverse") : say("there is no reverse"),
    "line+": () => { const n = seek((m) => line(m) !== line(at)); goTo(n ?? end + (data.cut ? 1 : 0)); },
    "line-": () => { let n = at; while (n > data.first && line(n) === line(at)) n--; const to = line(n);
      while (n > data.first && line(n - 1) === to) n--; goTo(n === at ? n - 1 : n); },
    push: (k) => next("push", k), pop: (k) => next("pop", k), lost: () => next("lost"),
    line: (k) => next("line", k),
  };
  const move = (id, k) => { if (asking && id !== "+") answered(null); moves[id](k); };
  /** Goes to a step, in this window or another. */
  const goTo = (n) => n >= data.first && n <= end ? go(n) : n < 0 ? go(data.first) : n > end && !data.cut
    ? go(end) : fetch(`step-${n}`, "there is no such step");
  /** Goes one step on; first asks for a prediction if that is on and the step shows a number. */
  function step() {
    if (asking) { answered(null); return; }
    const q = options.predict.checked && at < end && question(at + 1);
    if (q) { asking = q; showQuestion(); } else goTo(at + 1);
  }
  function question(n) {
    const [, , kind, name, stack] = statement(n), value = told(kind, data.e[n - data.first][1]),
      [, , before, , same] = statement(n - 1 < data.first ? n : n - 1);
    if (secret(name) || value === "" || value === "None" || !Number.isFinite(Number(value))) return null;
    const gives = kind === "top" || (kind === "pop" && !(before === "top" && same === stack));
    if (gives) return [value, `the value that ${data.names[stack]} gives back`];
    if (kind === "value" && name.endsWith(".grad")) return [value, name];
    const grad = kind === "write" && /^(.*\.grad\[.*\]) .*= /.exec(data.e[n - data.first][1]);
    return grad ? [value, `what is added to ${grad[1]}`] : null;
  }
  function showQuestion() {
    const label = `Your prediction of ${asking[1]}`;
    const number = make("input", { type: "text", size: 12, "aria-label": label });
    const submit = (e) => { e.preventDefault(); answered(number.value.trim()); };
    quiz.replaceChildren(make("form", { submit }, bit("span", `Predict ${asking[1]}: `), number,
      bit("button", "answer", "ch"),
      make("button", { type: "button", class: "ch", click: () => answered(null) }, "show it"),
      bit("code", shown(statement(at + 1)[0]), "stmt")));
    quiz.hidden = false;
    number.focus();
  }
  function answered(given) {
    const [value] = asking, number = Number(value), error = Math.abs(Number(given) - number);
    if (given === "") return;
    const right = given !== null && error <= CLOSE * Math.abs(number);
    asking = null;
    if (quiz.contains(focused(root))) root.focus({ preventScroll: true });
    quiz.hidden = true;
    score = [score[0] + right, score[1] + 1];
    tally.textContent = `${score[0]} of ${score[1]} predicted`;
    goTo(at + 1);
    say(right ? "right" : given === null ? `it is ${value}` : `no: it is ${value}`);
  }

  // --- controls --------------------------------------------------------------------------------------------
  const button = (text, label, click) =>
    make("button", { type: "button", class: "ch", title: label, "aria-label": label, click }, text);
  const { back: reverse, n: stacks } = whole, keys = {};
  for (const [id, text, key, label] of STEPS) {
    keys[key] = () => move(id);
    if (id === "turn" ? !reverse : !stacks && (id === "push" || id === "pop")) continue;
    const x = button(text, `${label} (${key.replace("ArrowLeft", "←").replace("ArrowRight", "→")})`, keys[key]);
    x.dataset.move = id;
    drive.append(x);
  }
  const range = make("input", { type: "range", "aria-label": "Step", input: () => {
    if (asking) answered(null);
    go(Number(range.value));
  } });
  drive.append(range);
  const play = button("play", "play (p)", () => playing ? stop() : start());
  const pace = make("select", { "aria-label": "Steps a second", change: () => quicken(Number(pace.value)) },
    ...SPEEDS.map((x) => new Option(`${x} a second`, x, x === speed, x === speed)));
  const quicken = (x) => { speed = x; pace.value = x; if (playing) { stop(); start(); } };
  const jump = make("input", {
    class: "to", type: "text", size: 8, placeholder: "step or :line", "aria-label": "Go to a step, or to :line",
    change: () => {
      const found = /^(:?)\s*([\d,]+)$/.exec(jump.value.trim());
      if (found) {
        jump.value = ""; // so that the same line can be asked for again
        found[1] ? move("line", Number(found[2])) : goTo(Number(found[2].replaceAll(",", "")) - 1);
      } else { draw(); say("a step is a number, a line :number"); }
    },
  });
  const options = {};
  const toggles = [["predict", "predict", "q"], ["own", "compiler's names", "c"]].map(([id, text, key]) => {
    const change = () => { if (asking) answered(null); draw(); drawPlot(); };
    options[id] = make("input", { type: "checkbox", change });
    keys[key] = () => options[id].click();
    return make("label", { class: "tg", title: `${text} (${key})` }, options[id], ` ${text}`);
  });
  const tally = bit("span", "", "muted score");
  more.append(play, pace, make("label", { class: "tg" }, "go to ", jump), ...toggles, tally);
  function start() {
    play.textContent = "pause";
    playing = setInterval(() => {
      if (!root.isConnected || (at >= end && !data.cut)) stop();
      else if (!asking && !waits) step();
    }, 1000 / speed);
  }
  function stop() { clearInterval(playing); playing = 0; play.textContent = "play"; }
  const source = find(".lines");
  const into = (field) => { field?.focus(); field?.select?.(); };
  const toLine = (x) => { if (x) move("line", Number(x.dataset.spanLine)); };
  source.addEventListener("click", (e) => {
    if (!getSelection()?.toString()) toLine(e.target.closest(".ln"));
  });
  const faster = (by) => quicken(SPEEDS[Math.min(Math.max(SPEEDS.indexOf(speed) + by, 0), SPEEDS.length - 1)]);
  Object.assign(keys, {
    p: () => play.click(), g: () => into(jump), "<": () => faster(-1), ">": () => faster(1),
    i: () => into([...root.closest(".slot").parentElement.querySelectorAll("[data-ask]")].at(-1)),
  });
  root.addEventListener("keydown", (e) => {
    if (e.target.matches("input:not([type=range]):not([type=checkbox]), select")) return;
    const listed = source.contains(e.target);
    if (listed && e.key === "Enter") toLine(source.querySelector(".at"));
    else if (!(listed && e.key.length > 1) && pressed(e, keys)) e.stopPropagation();
  });

  // --- drawing ---------------------------------------------------------------------------------------------
  function go(n) { waits = 0; at = Math.min(Math.max(n, data.first), end); draw(); }
  function draw() {
    if (known > at || known < 0) {
      frame = new Frame(data);
      data.past.forEach((e) => frame.take(e, e[2]));
      known = data.first - 1;
    }
    while (known < at) { known++; frame.take(data.e[known - data.first], known); }
    range.value = at;
    const [number, value, from] = data.e[at - data.first], [text, , kind, , touched] = data.s[number];
    const loops = frame.loops.map((x) => x.text.startsWith("while") ? `while, trip ${x.index}`
      : `for ${!x.name || secret(x.name) ? "_" : x.name} = ${x.index}`).join(", ");
    const result = Array.isArray(value) || kind === "write" ? "" : `${value}${from && ` from ${from}`}`;
    const of = data.cut ? `${(end + 1).toLocaleString("en")} and more` : (end + 1).toLocaleString("en");
    now.replaceChildren(bit("span", `step ${(at + 1).toLocaleString("en")} of ${of}, `, "muted"),
      bit("b", back(at) ? "backwards" : "forwards"), bit("span", loops ? `, ${loops}` : "", "muted"),
      bit("code", shown(kind === "end" ? `end of: ${text}` : text), "stmt"), bit("span", result, "val"));
    source.point(line(at));
    drawValues();
    root.querySelectorAll(".stk").forEach((column, k) => {
      const slots = frame.stacks[k], height = slots.length + data.below[k], shown = slots.slice(-MOST_SLOTS);
      column.classList.toggle("fresh", touched === k);
      const fresh = (i) => touched === k && kind === "push" && i === shown.length - 1;
      const parts = shown.map((x, i) =>
        bit("div", options.predict.checked && !fresh(i) ? "?" : x, fresh(i) ? "slot1 fresh" : "slot1"));
      if (height > shown.length) parts.unshift(bit("div",
        `${(height - shown.length).toLocaleString("en")} below`, "muted"));
      column.querySelector(".slots").replaceChildren(...parts.reverse());
      column.dataset.height = height;
    });
    reveal(find(".stk.fresh, .vals .fresh"));
    find(".mem").replaceChildren(...frame.writes.slice(-MOST_LINES).map((x, i, all) =>
      bit("div", x, kind === "write" && i === all.length - 1 ? "fresh" : "")));
    options.predict.checked ? drawPlot() : cursor();
  }
  const columns = reverse ? ["name", "value", "", "adjoint", ""] : ["name", "value", ""];
  const titles = columns.map((title) => bit("th", title)), body = make("tbody");
  find(".vals").replaceChildren(make("table", { class: "tb" }, make("thead", {}, make("tr", {}, ...titles)), body));
  /** A row for each name, with a checkbox beside each number that plots it. */
  function drawValues() {
    for (const [name, { tr }] of rows) if (!frame.values.has(name) || secret(name)) { tr.remove(); rows.delete(name); }
    for (const [name, { value, valueAt, adjoint, adjointAt }] of frame.values) {
      if (secret(name)) continue;
      if (!rows.has(name)) rows.set(name, newRow(name));
      // reverse code has not computed it again
      const { cells, picks } = rows.get(name), old = back(at) && valueAt < data.turn;
      // a selection stays
      [value, adjoint].forEach((x = "", k) => { if (cells[k].textContent !== x) cells[k].textContent = x; });
      cells[0].className = valueAt === at ? "num fresh" : old ? "num muted" : "num";
      old ? cells[0].title = "as the way forwards left it" : cells[0].removeAttribute("title");
      cells[1].className = adjointAt === at ? "num fresh" : "num";
      picks[1].hidden = adjoint === undefined;
      picks[0].hidden = value === undefined;
    }
  }
  function newRow(name) {
    const cells = [make("td"), make("td")], picks = [name, `${name}.grad`].map((series) => {
      const change = (e) => { e.target.checked ? plots.add(series) : plots.delete(series); drawPlot(); };
      const box = make("input", { type: "checkbox", "aria-label": `Plot ${series}`, title: `plot ${series}`, change });
      box.checked = plots.has(series);
      return box;
    });
    const [own, adjoint] = picks.map((box) => make("td", {}, box));
    const tr = make("tr", {}, ...[bit("td", name), cells[0], own, cells[1], adjoint].slice(0, columns.length));
    body.append(tr);
    return { tr, cells, picks };
  }

  // --- the plot: all values of each chosen series in the window ------------------------------------------
  const WIDE = 900, HIGH = 90;
  const across = (n) => (n - data.first) / Math.max(end - data.first, 1) * WIDE;
  function series(name) {
    const found = [];
    // later values are hidden while predicting
    data.e.slice(0, options.predict.checked ? at - data.first + 1 : undefined).forEach(([number, value], i) => {
      const [, , kind, own, , carried] = data.s[number];
      if (kind === "value" || kind === "top") {
        if (own === name) found.push([data.first + i, Number(value)]);
        return;
      }
      if (!Array.isArray(value)) return;
      const k = carried.indexOf(name);
      if (k >= 0) found.push([data.first + i, Number(value[k + 1])]);
      else if (kind === "trip" && own === name) found.push([data.first + i, Number(value[0])]);
    });
    return found;
  }
  /** Draws the plots, each in elements of its own: a button may be down on one while it is drawn again. */
  function drawPlot() {
    for (const [name, { figure }] of drawn) if (!plots.has(name)) { figure.remove(); drawn.delete(name); }
    for (const name of plots) {
      if (!drawn.has(name)) drawn.set(name, newPlot(name));
      const points = series(name), finite = points.filter(([, y]) => Number.isFinite(y)).map(([, y]) => y);
      const low = Math.min(...finite), high = Math.max(...finite), span = high - low || 1;
      const { caption, image, curve } = drawn.get(name), other = points.length - finite.length;
      const range = `${low.toPrecision(4)} to ${high.toPrecision(4)}`;
      const told = `${name}: ${finite.length ? range : "no finite value in these steps"}${
        other ? `, and ${other} times NaN or infinity` : ""}`;
      const path = points.map(([n, y], i) => {
        const p = `${across(n).toFixed(1)},${(HIGH - 4 - (y - low) / span * (HIGH - 8)).toFixed(1)}`;
        return !Number.isFinite(y) ? "" : i && Number.isFinite(points[i - 1][1])
          ? `H${p.split(",")[0]}V${p.split(",")[1]}` : `M${p}`; }).join("");
      caption.textContent = told;
      image.setAttribute("aria-label", told);
      curve.setAttribute("d", path);
    }
    cursor();
  }
  function newPlot(name) {
    const caption = make("figcaption"), thin = { "vector-effect": "non-scaling-stroke" };
    const curve = sketch("path", { class: name.endsWith(".grad") ? "adj" : "val", ...thin });
    const click = (e) => {
      const b = image.getBoundingClientRect();
      if (asking) answered(null);
      go(Math.round(data.first + (e.clientX - b.left) / b.width * (end - data.first)));
    };
    const image = sketch("svg", {
      viewBox: `0 0 ${WIDE} ${HIGH}`, width: "100%", height: HIGH, preserveAspectRatio: "none", role: "img", click,
    }, curve, sketch("path", { class: "cur", ...thin }));
    const figure = make("figure", {}, caption, image);
    find(".plot").append(figure);
    return { figure, caption, image, curve };
  }
  function cursor() {
    for (const x of root.querySelectorAll(".plot .cur")) x.setAttribute("d", `M${across(at).toFixed(1)},0V${HIGH}`);
  }

  take(whole);
  if (end < data.first) { now.textContent = "nothing runs in this iteration"; return; }
  root.querySelectorAll(".stk .nm").forEach((x, k) => {
    for (const kind of ["push", "pop"]) {
      x.append(button(`next ${kind}`, `Next ${kind} of ${data.names[k]}`, () => move(kind, k)));
    }
  });
  go(Math.max(data.found, data.first));
  if (data.found < 0) say("the step that you asked for is not in this iteration");
}
