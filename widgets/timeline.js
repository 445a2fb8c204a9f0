// Draws the timeline of a program (`timeline.py`): a bar for each launch, on tracks, and below them the bytes that
// were kept. Bars that are narrower than a pixel are drawn as one.

const LABELS = 92, TRACK = 26, KEPT = 56, AXIS = 24, LETTER = 7.3;
HELP.push(["in a timeline: ← →, ↑ ↓", "the launch before or after; another track"],
  ["in a timeline: Shift ← →, + − 0", "move; larger, smaller, all of it"],
  ["in a timeline: Enter", "from a launch to its gradient, and back"]);

/** Makes `host` live. */
function timeline(host, data, hooks) {
  const { tracks, names, colours, timed, cuts } = data;
  const bars = data.bars.map(([track, begin, end, name, kept, of], n) => ({ n, track, begin, end, name, kept, of }));
  const back = new Map(bars.filter((b) => b.of >= 0).map((b) => [b.of, b.n]));
  const rows = tracks.map((_, t) => bars.filter((b) => b.track === t).sort((a, b) => a.begin - b.begin));
  const curve = bars.slice().sort((a, b) => a.end - b.end), last = curve.at(-1).end;
  const most = bars.reduce((m, b) => Math.max(m, b.kept), 0);
  const least = bars.reduce((m, b) => b.end > b.begin ? Math.min(m, b.end - b.begin) : m, last);
  const floor = tracks.length * TRACK + (most ? KEPT : 8), high = floor + AXIS;
  const svg = sketch("svg", { role: "application", tabindex: 0, "aria-label": data.title, style: `height:${high}px` });
  const drawing = sketch("g"), now = make("p", { class: "now", role: "status", "aria-live": "polite" });
  let wide = 0, t0 = 0, scale = 0, at = null, due = 0;
  const px = (t) => LABELS + (t - t0) * scale, room = () => wide - LABELS - 12;
  const told = (value) => timed ? inSeconds(value) : `${Math.round(value)}`;

  /** The first bar of a list that ends behind the left edge. */
  const from = (list) => { const k = list.findIndex((b) => b.end >= t0); return k < 0 ? list.length : k; };
  function drawBars(list, y) {
    const paths = new Map(), words = [], right = t0 + (wide - LABELS) / scale;
    let edge = -1;
    for (let k = from(list); k < list.length && list[k].begin <= right; k++) {
      const b = list[k], x = Math.max(px(b.begin), LABELS - 2), w = Math.max(px(b.end) - x, 1);
      if (x + w <= edge) continue; // its pixel is drawn
      edge = Math.max(Math.floor(x) + 1, x + w - 0.5);
      const shown = Math.min(x + w, wide) - x, colour = colours[b.name], long = Math.max(shown - (w > 4), 0.8).toFixed(1);
      paths.set(colour, `${paths.get(colour) ?? ""}M${x.toFixed(1)},${y + 3}h${long}v${TRACK - 6}h-${long}Z`);
      if (shown > names[b.name].length * LETTER + 8) {
        words.push(`<text class="in" x="${(x + 4).toFixed(1)}" y="${y + 17}">${escaped(names[b.name])}</text>`);
      }
    }
    return [...paths].map(([c, d]) => `<path fill="${c}" d="${d}"/>`).join("") + words.join("");
  }
  function drawKept(y) {
    const up = (n) => (y + KEPT - 6 - (KEPT - 16) * n / most).toFixed(1);
    let k = from(curve), before = k ? curve[k - 1].kept : 0, d = `M${LABELS},${y + KEPT - 6}V${up(before)}`;
    let edge = LABELS;
    for (; k < curve.length && px(curve[k].end) < wide; k++) {
      const x = px(curve[k].end);
      if (curve[k].kept === before || x - edge < 0.7) { before = curve[k].kept; continue; }
      d += `H${(edge = x).toFixed(1)}V${up(before = curve[k].kept)}`;
    }
    return `<path class="kept" d="${d}V${up(before)}H${Math.min(px(last), wide).toFixed(1)}V${y + KEPT - 6}Z"/>`;
  }
  function drawAxis() {
    const rough = 90 / scale, ten = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((k) => k * ten).find((s) => s >= rough), out = [];
    const by = timed ? step : Math.max(1, Math.round(step));
    for (let t = Math.ceil(t0 / by) * by; px(t) < wide - 20 && t <= last + by; t += by) {
      out.push(`<path class="tick" d="M${px(t).toFixed(1)},0V${floor + 4}"/>
        <text x="${px(t).toFixed(1)}" y="${floor + 17}" text-anchor="${px(t) < LABELS + 20 ? "start" : "middle"}">${
        t > 0 ? told(t) : 0}</text>`);
    }
    for (const [place, cut] of cuts) if (px(place) > LABELS) out.push(
      `<path class="cut" d="M${px(place).toFixed(1)},0V${floor}"><title>${inSeconds(cut)} cut out, in which
       nothing was launched</title></path>`);
    return out.join("");
  }
  function draw() {
    const label = (y, text) => `<text x="8" y="${y}">${text}</text>`;
    const chosen = at && `<rect class="at" x="${px(at.begin).toFixed(1)}" y="${at.track * TRACK + 1}"
      width="${Math.max((at.end - at.begin) * scale, 2).toFixed(1)}" height="${TRACK - 2}"/>`;
    drawing.innerHTML = drawAxis() + rows.map((list, t) => drawBars(list, t * TRACK)).join("")
      + (most ? drawKept(tracks.length * TRACK) : "") + (chosen ?? "")
      + `<rect class="under" width="${LABELS - 1}" height="${high}"/>`
      + tracks.map((name, t) => label(t * TRACK + 17, name)).join("")
      + (most ? label(tracks.length * TRACK + 18, "kept") + label(tracks.length * TRACK + 36, inBytes(most)) : "");
  }
  const soon = () => { due ||= requestAnimationFrame(() => { due = 0; draw(); }); };
  /** A scale at which all is not smaller than the room, and the shortest bar not larger than a third of it. */
  const within = (wanted) => Math.min(Math.max(wanted, room() / last), Math.max(room() / last, room() / (3 * least)));
  function place(to, scaled = scale) {
    scale = within(scaled);
    t0 = Math.min(Math.max(to, 0), Math.max(0, last - room() / scale));
    soon();
  }
  const zoom = (by, x = LABELS + room() / 2) => {
    const to = within(scale * by);
    place(t0 + (x - LABELS) * (1 / scale - 1 / to), to);
  };
  const all = () => place(0, 0);
  function say(b) {
    if (!b) { now.textContent = ""; return; }
    const other = back.get(b.n) ?? b.of, what = b.of >= 0 ? "its launch" : "its gradient";
    const out = cuts.filter(([place]) => b.begin < place && place < b.end).reduce((sum, [, cut]) => sum + cut, 0);
    now.textContent = `${tracks[b.track]} ${b.n + 1}: ${names[b.name]}${timed
      ? `, ${inSeconds(b.end - b.begin + out)} at ${inSeconds(b.begin)}` : ""}, ${inBytes(b.kept)} kept${
      other >= 0 ? `; Enter goes to ${what}` : ""}`;
  }
  function choose(b) {
    if (!b) return;
    at = b;
    say(b);
    const left = px(b.begin), right = px(b.end);
    if (left < LABELS || right > wide - 12) place(b.begin - Math.max(room() / scale - (b.end - b.begin), 0) / 2);
    soon();
  }
  const under = (e) => {
    const r = svg.getBoundingClientRect(), t = t0 + (e.clientX - r.left - LABELS) / scale;
    const list = rows[Math.floor((e.clientY - r.top) / TRACK)] ?? [], near = 3 / scale;
    return list.find((b) => b.begin <= t && t <= b.end) ?? list.find((b) => b.begin - near <= t && t <= b.end + near);
  };
  function beside(step) {
    if (!at) return rows[0][0] ?? bars[0];
    const list = rows[at.track];
    return list[list.indexOf(at) + step];
  }
  function across(step) {
    const list = rows[(at?.track ?? 0) + step], t = at?.begin ?? 0;
    return list?.reduce((best, b) => Math.abs(b.begin - t) < Math.abs(best.begin - t) ? b : best, list[0]);
  }
  draggable(svg, {
    at: () => t0, move: (t, dx) => place(t - dx / scale), over: (e) => say(under(e) ?? at), still: (e) => choose(under(e)),
  });
  zoomable(svg, (by, x, _, e) => {
    if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) place(t0 + (e.deltaX || e.deltaY) / scale);
    else zoom(by, x);
  });
  const keys = {
    ArrowLeft: () => choose(beside(-1)), ArrowRight: () => choose(beside(1)),
    ArrowUp: () => choose(across(-1)), ArrowDown: () => choose(across(1)),
    "Shift ArrowLeft": () => place(t0 - room() / scale / 8), "Shift ArrowRight": () => place(t0 + room() / scale / 8),
    Home: () => choose(rows[at?.track ?? 0][0]), End: () => choose(rows[at?.track ?? 0].at(-1)),
    Enter: () => choose(bars[back.get(at?.n) ?? at?.of]), "+": () => zoom(1.4), "-": () => zoom(1 / 1.4), 0: all,
  };
  svg.addEventListener("keydown", (e) => pressed(e, keys));
  svg.append(drawing);
  host.replaceChildren(toolbar("Timeline", [["+", "larger", keys["+"]], ["−", "smaller", keys["-"]],
    ["all", "all of it", all], ...data.file ? [["JSON", "save as JSON, which ui.perfetto.dev opens", () =>
      saveText(hooks, data.file, "program.json")]] : []]), svg, now);
  new ResizeObserver(() => {
    const before = wide;
    wide = svg.clientWidth;
    if (wide && wide !== before) place(t0, before ? scale * room() / (before - LABELS - 12) : 0);
  }).observe(svg);
}
