// Draws a graph whose boxes Python has placed (`graph.drawing`). Edges, frames and outlines are a few paths; the
// text of a box is drawn if it is in view and large enough to read. Of a folded loop only the header stays, and
// empty space closes up.

const CLOSED = 30;
const SIZE = 12, READABLE = 0.92, MOST_TITLED = 400; // pixels of text; the scale at which it has 11; boxes
const BESIDE = ["use", "both", "kept"]; // kinds of edges between a column and its side

function saveFile(href, download) {
  Object.assign(document.createElement("a"), { href, download }).click();
}

/** Saves the text that answers a request as a file. */
async function saveText(hooks, request, name) {
  const told = new DOMParser().parseFromString(await hooks.ask(request, () => {}), "text/html");
  const url = URL.createObjectURL(new Blob([told.body.textContent.trim()], { type: "text/plain" }));
  saveFile(url, name);
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

/** Maps a coordinate so that stretches without boxes close up to a gap. `spans`: [low, high] of each box. */
function closedUp(spans) {
  const sorted = spans.slice().sort((a, b) => a[0] - b[0]), gaps = [];
  let end = 0;
  for (const [low, high] of sorted) {
    if (low - end > 2 * CLOSED) gaps.push([end, low]);
    end = Math.max(end, high);
  }
  return (v) => {
    let less = 0;
    for (const [low, high] of gaps) {
      if (v <= low) break;
      less += (Math.min(v, high) - low) * (1 - CLOSED / (high - low));
    }
    return v - less;
  };
}

/** A node of `data.nodes` as an object. Its ties stand in its SVG. */
function taken([x, y, w, h, title, svg, line, rest]) {
  const numbers = (found) => ({ line: Number(found[1]), stmt: Number(found[2] ?? -1), adj: Number(found[3] ?? -1) });
  const attributes = / data-span-line='(\d+)'(?: data-stmt='(\d+)')?(?: data-adj='(\d+)')?/g;
  const drawn = [...svg.matchAll(attributes)].map(numbers);
  const hidden = rest.map((row) => numbers(["", ...row.split(" ", 3)]));
  const text = [plain(svg), ...rest].join("\n").toLowerCase();
  return { x, y, w, h, title, svg, text, ties: [{ line, stmt: -1, adj: -1 }, ...drawn, ...hidden] };
}

/** Makes `host` live. `hooks.point` is called with what the user points at. */
function graph(host, data, hooks) {
  const id = `${hooks.uid}-g${graph.serial = (graph.serial ?? 0) + 1}`;
  const nodes = data.nodes.map(taken), beside = data.edges.some((e) => BESIDE.includes(e[0]));
  const svg = sketch("svg", { role: "listbox", tabindex: 0, "aria-label": data.title });
  const layer = (...inner) => sketch("g", { role: "presentation" }, ...inner);
  const base = layer(), tinted = layer(), detail = layer(), world = layer(base, tinted, detail);
  svg.append(world);
  const self = { host, label: data.title, folded: new Set(), at: -1, mark: null, hits: new Set() };
  let scale = 1, x0 = 0, y0 = 0, shown = [], w = data.w, h = data.h, frames = [], edges = [], drawn = "";

  /** Computes the visible boxes with their places, frames and edges, given the folded loops. */
  function arrange() {
    const hidden = new Map();
    for (const f of self.folded) for (const n of data.frames[f][5].slice(1)) hidden.set(n, data.frames[f][5][0]);
    const seen = (n) => { let k = 0; while (hidden.has(n) && k++ < 100) n = hidden.get(n); return n; };
    const alive = nodes.map((_, n) => n).filter((n) => !hidden.has(n));
    const span = (n, k, size) => [nodes[n][k] - nodes[n][size] / 2, nodes[n][k] + nodes[n][size] / 2];
    const none = !self.folded.size, same = (v) => v;
    const fx = none || beside ? same : closedUp(alive.map((n) => span(n, "x", "w"))),
      fy = none ? same : closedUp(alive.map((n) => span(n, "y", "h")));
    shown = alive.map((n) => { const { x, y, w, h } = nodes[n]; return { n, x: fx(x), y: fy(y), w, h }; });
    const where = new Map(shown.map((b) => [b.n, b]));
    frames = data.frames.map(([label, a, b, c, d, own], f) => {
      const k = where.get(own[0]), text = `${label} (${own.length} blocks)`;
      if (self.folded.has(f)) return k && { f, label: text, x: k.x - k.w / 2 - 8, y: k.y - k.h / 2 - 22,
        w: Math.max(k.w, text.length * 7.3 + 24) + 16, h: k.h + 30 };
      return k && { f, label, x: fx(a), y: fy(b), w: fx(c) - fx(a), h: fy(d) - fy(b) };
    }).filter(Boolean);
    const done = new Set();
    edges = [];
    for (const [kind, src, dst, path, tip, label, lx, ly] of data.edges) {
      if (none) { edges.push({ kind, path, tip, label, x: lx, y: ly }); continue; }
      const a = seen(src), b = seen(dst);
      if (a === b || done.has(`${a} ${b}`)) continue;
      done.add(`${a} ${b}`);
      const p = where.get(a), q = where.get(b), aside = BESIDE.includes(kind), way = (aside ? q.x > p.x : q.y > p.y) ? 1 : -1;
      const half = (box) => aside ? [way * box.w / 2, 0] : [0, way * box.h / 2], [dx, dy] = half(p), [ex, ey] = half(q);
      const x = p.x + dx, y = p.y + dy, X = q.x - ex, Y = q.y - ey, mx = (x + X) / 2, my = (y + Y) / 2;
      const bent = aside ? `${mx},${y} ${mx},${Y}` : `${x},${my} ${X},${my}`;
      edges.push({ kind, label, x: mx, y: my, path: `M${x},${y}C${bent} ${X},${Y}`,
        tip: `M${X},${Y}l${aside ? `${-8 * way},-4v8Z` : `-4,${-8 * way}h8Z`}` });
    }
    w = Math.max(...shown.map((b) => b.x + b.w / 2), ...frames.map((f) => f.x + f.w)) + 8;
    h = Math.max(...shown.map((b) => b.y + b.h / 2), ...frames.map((f) => f.y + f.h)) + 8;
    outlines();
  }

  const rect = (b) => `M${b.x - b.w / 2},${b.y - b.h / 2}h${b.w}v${b.h}h${-b.w}Z`;
  function outlines() {
    const kinds = [...new Set(edges.map((e) => e.kind))];
    base.innerHTML = frames.map((f) =>
      `<g class="frame"><rect x="${f.x}" y="${f.y}" width="${f.w}" height="${f.h}" rx="8"/></g>`).join("") +
      kinds.map((k) => { const own = edges.filter((e) => e.kind === k);
        const all = (name) => own.map((e) => e[name]).join("");
        return `<g class="edge ${k}"><path d="${all("path")}"/><path class="tip" d="${all("tip")}"/></g>`;
      }).join("") +
      `<g class="box"><path class="outline" d="${shown.map(rect).join("")}"/></g>`;
  }

  const inView = (x, y, bw, bh) => {
    const within = (low, size, from, most) => (low + size) * scale + from > -50 && low * scale + from < most + 50;
    return within(x, bw, x0, svg.clientWidth) && within(y, bh, y0, svg.clientHeight);
  };
  const placeOf = (b) => `transform="translate(${(b.x - b.w / 2).toFixed(1)},${(b.y - b.h / 2).toFixed(1)})"`;
  const boxAt = (b) => {
    const { title, svg } = nodes[b.n], named = `id="${id}-${b.n}" aria-label="${escaped(title)}"`;
    return `<g role="option" data-node="${b.n}" ${named} ${placeOf(b)}>${svg}</g>`;
  };
  /** A box whose text is too small to read at this scale: its title in readable letters, if there is room. */
  const titled = (b) => {
    const { title, svg } = nodes[b.n], place = `translate(${b.x - b.w / 2},${b.y - b.h / 2})`, high = SIZE / scale;
    const fits = b.h > 1.4 * high && b.w > (title.length + 1) * 0.62 * high;
    const at = `style="font-size:${high}px" x="${high / 3}" y="${high * 1.1}"`;
    const word = `<text class="tt" ${at}>${escaped(title)}</text>`;
    const is = /class='([^']*)'/.exec(svg)[1], frame = `<rect width="${b.w}" height="${b.h}" rx="4"/>`;
    return `<g class="${is}" data-node="${b.n}" ${placeOf(b)}>${frame}${fits ? word : ""}</g>`;
  };
  const text = (kind, x, y, label, anchor) =>
    `<g class="${kind}"><text x="${x}" y="${y}" text-anchor="${anchor}">${escaped(label)}</text></g>`;
  const nameOf = (f) => text("frame", f.x + 8, f.y + 14, `${self.folded.has(f.f) ? "▸" : "▾"} ${f.label}`, "start");
  const words = (all) => frames.filter((f) => all || inView(f.x, f.y, f.w, 20)).map((f) =>
    `<g class="foldable" data-fold="${f.f}">${nameOf(f)}</g>`).join("") +
    edges.filter((e) => e.label && (all || inView(e.x, e.y, 1, 1))).map((e) =>
      text(`edge ${e.kind}`, e.x, e.y + 3, e.label, "middle")).join("");
  self.draw = () => {
    world.setAttribute("transform", `translate(${x0},${y0}) scale(${scale})`);
    const near = shown.filter((b) => inView(b.x - b.w / 2, b.y - b.h / 2, b.w, b.h));
    const few = near.length < MOST_TITLED ? near.map(titled).join("") : "";
    const seen = scale >= READABLE ? words(false) + near.map(boxAt).join("") : few;
    if (seen !== drawn) detail.innerHTML = drawn = seen; // the same elements, if a button may be down on one
    tint();
  };
  const is = (n) => {
    const found = nodes[n].ties.map((tie) => relation(self.mark, tie)).filter(Boolean);
    return found.find((k) => k !== "near") ?? found[0] ?? "";
  };
  function tint() {
    const has = (b, k) => k === "hit" ? self.hits.has(b.n) : k === "at" ? b.n === self.at : self.mark && is(b.n) === k;
    const around = (b) => rect({ ...b, w: b.w + 6, h: b.h + 6 });
    tinted.innerHTML = ["near", "mark", "twin", "hit", "at"].map((k) =>
      `<path class="${k}" d="${shown.filter((b) => has(b, k)).map(around).join("")}"/>`).join("");
    for (const x of detail.querySelectorAll("[data-span-line]")) showRelation(x, relation(self.mark, tieOf(x)));
    for (const x of detail.querySelectorAll("[data-node]")) x.setAttribute("aria-selected",
      ["mark", "twin"].includes(is(Number(x.dataset.node))));
    self.at >= 0 ? svg.setAttribute("aria-activedescendant", `${id}-${self.at}`)
      : svg.removeAttribute("aria-activedescendant");
  }
  function fit() {
    const W = svg.clientWidth || 800;
    scale = Math.max(Math.min(1, W / w), READABLE);
    svg.style.height = `${Math.min(560, Math.max(120, h * scale + 8))}px`;
    x0 = (W - w * scale) / 2;
    if (x0 < 0) x0 = Math.min(8, W / 2 - nodes[0].x * scale); // the first box is in view
    y0 = 4;
    self.draw();
  }
  function all() {
    scale = Math.min(1, svg.clientWidth / w, svg.clientHeight / h);
    [x0, y0] = [(svg.clientWidth - w * scale) / 2, 0];
    self.draw();
  }
  function zoom(by, cx = svg.clientWidth / 2, cy = svg.clientHeight / 2) {
    const to = Math.min(3, Math.max(0.01, scale * by)), times = to / scale;
    [x0, y0, scale] = [cx - (cx - x0) * times, cy - (cy - y0) * times, to];
    self.draw();
  }
  self.go = (n) => {
    const b = shown.find((k) => k.n === n), { clientWidth: W, clientHeight: H } = svg;
    if (!b) return;
    self.at = n;
    scale = Math.max(scale, READABLE);
    const x = b.x * scale, y = b.y * scale;
    if (x + x0 < 0 || x + x0 > W || y + y0 < 0 || y + y0 > H) [x0, y0] = [W / 2 - x, H / 2 - y];
    self.draw();
  };
  self.search = (wanted) => {
    const has = (b) => wanted && nodes[b.n].text.includes(wanted.toLowerCase());
    self.hits = new Set(shown.filter(has).map((b) => b.n));
    tint();
    return [...self.hits].map((n) => () => self.go(n));
  };
  self.paint = (mark, reveal) => {
    self.mark = mark;
    const [forward, adjoint] = ["mark", "twin"].map((k) => shown.filter((b) => mark && is(b.n) === k));
    const kin = shown.filter((b) => forward.includes(b) || adjoint.includes(b));
    if (reveal && kin.length && !kin.some((b) => inView(b.x, b.y, 1, 1))) self.go(kin[0].n);
    tint();
    return [forward.length, adjoint.length];
  };
  const fold = (f) => {
    if (!self.folded.delete(f)) self.folded.add(f);
    arrange();
    self.draw();
  };
  /** The whole graph as the text of an SVG file. */
  self.text = () => `<svg xmlns="${NS}" viewBox="0 0 ${w} ${h}" width="${Math.ceil(w)}"
    height="${Math.ceil(h)}"><style>${SAVED}</style><rect class="bg" width="100%" height="100%"/>${
    base.innerHTML.replace(/<g class="box">.*$/, "")}${words(true)}${shown.map(boxAt).join("")}</svg>`;
  function save(kind) {
    const url = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(self.text())}`;
    const give = (href) => saveFile(href, `${data.title}.${kind.toLowerCase()}`);
    if (kind === "SVG") { give(url); return; }
    const image = new Image(), most = Math.min(2, 8000 / w, 8000 / h);
    image.onload = () => {
      const canvas = make("canvas", { width: w * most, height: h * most });
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      give(canvas.toDataURL("image/png"));
    };
    image.src = url;
  }
  const { dot } = host.dataset, foldAll = () => {
    self.folded = new Set(self.folded.size ? [] : data.frames.keys());
    arrange();
    fit();
  };
  host.replaceChildren(toolbar("Graph", [["+", "larger", () => zoom(1.25)], ["−", "smaller", () => zoom(0.8)],
    ["all", "all of it", all], ...data.frames.length ? [["fold", "fold or open all loops", foldAll]] : [],
    ["SVG", "save as SVG", () => save("SVG")], ["PNG", "save as PNG", () => save("PNG")],
    ...dot ? [["DOT", "save as DOT, for Graphviz", () => saveText(hooks, dot, `${data.title}.gv`)]] : []]), svg);
  const tied = (e) => { const x = e.target.closest?.("[data-span-line]"); return x && tieOf(x); };
  draggable(svg, {
    at: () => [x0, y0],
    move: ([x, y], dx, dy) => { x0 = x + dx; y0 = y + dy; self.draw(); },
    over: (e) => {
      const w = tied(e);
      if (w || self.pointed) hooks.point(w ?? null, false, self);
      self.pointed = !!w;
    },
    still: (e) => {
      const f = e.target.closest("[data-fold]"), w = tied(e), box = e.target.closest("[data-node]");
      if (f) fold(Number(f.dataset.fold));
      else if (w) { self.at = Number(box?.dataset.node ?? self.at); hooks.point(w, true, self); }
    },
  });
  svg.addEventListener("mouseleave", () => hooks.point(null, false, self));
  zoomable(svg, zoom);
  const mark = () => {
    const tie = nodes[self.at]?.ties.find((t) => t.line > 0);
    if (tie) hooks.point(tie, true, self);
  };
  const keys = {
    "+": () => zoom(1.25), "-": () => zoom(0.8), 0: all, Enter: mark, " ": mark,
    f: () => { // the innermost loop
      const around = [...data.frames.keys()].filter((f) => data.frames[f][5].includes(self.at));
      const size = (f) => data.frames[f][5].length;
      if (around.length) fold(around.reduce((a, b) => size(b) < size(a) ? b : a));
    },
  };
  for (const [key, dx, dy] of [["Up", 0, 60], ["Down", 0, -60], ["Left", 60, 0], ["Right", -60, 0]]) {
    keys[`Shift Arrow${key}`] = () => { x0 += dx; y0 += dy; self.draw(); };
  }
  for (const [key, by] of Object.entries({ ...MOVES, ArrowRight: 1, ArrowLeft: -1 })) keys[key] = () => {
    const order = shown.map((b) => b.n), to = order.indexOf(self.at) + by;
    self.go(order[Math.min(Math.max(to, 0), order.length - 1)]);
  };
  svg.addEventListener("keydown", (e) => pressed(e, keys));
  arrange();
  // It is drawn as soon as it has a size, which it lacks while its pane is not laid out, and again when the
  // size changes.
  let size = "";
  new ResizeObserver(() => {
    const now = () => `${svg.clientWidth} ${svg.clientHeight}`;
    if (!svg.clientWidth || now() === size) return;
    if (size) self.draw();
    else { fit(); if (self.mark) self.paint(self.mark, true); }
    size = now();
  }).observe(svg);
  return self;
}
