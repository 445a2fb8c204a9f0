// Shows numbers as texts and arrays as pictures.

const BLUE = "#3f86d8", ORANGE = "#c8741f", MOST_CELLS = 64, MOST_HANDLES = 4096, WIDTHS = 13;
const isFloat = (dtype) => dtype[0] === "f";

/** A number as Python's f"{v:.6g}" writes it. */
function digits(v) {
  if (!Number.isFinite(v)) return isNaN(v) ? "nan" : v > 0 ? "inf" : "-inf";
  const short = Number(v.toPrecision(6)), size = Math.abs(short);
  if (Object.is(short, -0)) return "-0";
  if (!size || (size >= 1e-4 && size < 1e6)) return String(short);
  return short.toExponential().replace(/e([+-])(\d)$/, "e$10$2");
}

/** Random numbers from a seed (mulberry32), in [0, 1). */
function random(seed) {
  let a = seed >>> 0;
  return () => {
    a = a + 0x6d2b79f5 | 0;
    let t = Math.imul(a ^ a >>> 15, 1 | a);
    t = t + Math.imul(t ^ t >>> 7, 61 | t) ^ t;
    return ((t ^ t >>> 14) >>> 0) / 4294967296;
  };
}

/** The index of an element. */
function place(shape, k) {
  const out = [];
  for (let axis = shape.length - 1; axis >= 0; axis--) { out.unshift(k % shape[axis]); k = Math.floor(k / shape[axis]); }
  return out;
}

// --- pictures

/** The limits of the values, which contain 0. */
function limits(values) {
  let low = 0, high = 0;
  for (const v of values) if (Number.isFinite(v)) { if (v < low) low = v; else if (v > high) high = v; }
  return low === high ? [0, 1] : [low, high];
}

const WIDE = 600, HIGH = 84, MOST_BARS = 128; // units of a drawing, which is as wide as its place; others are outlined

/** A picture of an array: a bar for each element, the outline of many, or a square for each element of a matrix. */
class Plot {
  constructor(shape, colour, label) {
    const [rows, columns] = shape.slice(-2), picture = shape.length === 2 && columns > 4 && rows > 4;
    Object.assign(this, { shape, label, picture, at: -1 });
    this.host = picture
      ? make("canvas", { role: "img", width: columns, height: rows, style: `width:min(100%,${Math.round(240 * columns / rows)}px)` })
      : sketch("svg", { role: "img", class: "bars", viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", style: `fill:${colour};stroke:${colour}` });
    this.paths = Object.fromEntries(["bar", "at", "lost", "zero"].map((kind) => [kind, sketch("path", { class: kind })]));
    if (!picture) this.host.append(...Object.values(this.paths));
  }

  draw(values, range) {
    const [low, top] = limits(values), n = values.length;
    Object.assign(this, { values, range: range ?? [low, top] });
    if (this.picture) this.matrix(values); else this.bars(values);
    const said = n === 1 ? digits(values[0]) : `${n} numbers, from ${digits(low)} to ${digits(top)}`;
    this.host.setAttribute("aria-label", `${this.label}: ${said}`);
  }

  bars(values) {
    const n = values.length, many = n > MOST_BARS, columns = many ? Math.min(n, WIDE) : n, step = WIDE / columns, gap = many ? 0 : 0.16 * step;
    const [bottom, top] = this.range, y = (v) => Math.round(40 + 10 * (HIGH - 8) * (top - v) / (top - bottom)) / 10, to = Math.round(10 * (step - gap)) / 10;
    const paths = { bar: "", at: "", lost: "", zero: `M0,${y(0)}H${WIDE}` };
    for (let k = 0; k < columns; k++) {
      let low = Infinity, high = -Infinity;
      for (let j = Math.floor(k * n / columns), end = Math.floor((k + 1) * n / columns); j < end; j++) {
        const v = values[j];
        if (Number.isFinite(v)) { if (v < low) low = v; if (v > high) high = v; }
      }
      const lost = low > high, ends = lost ? [HIGH, 0] : many ? [y(low), y(high)] : [y(Math.min(low, 0)), y(Math.max(high, 0))];
      paths[lost ? "lost" : k === this.at ? "at" : "bar"] += `M${Math.round(10 * (k * step + gap / 2)) / 10},${ends[1]}h${to}V${ends[0]}h${-to}Z`;
    }
    for (const [kind, d] of Object.entries(paths)) this.paths[kind].setAttribute("d", d);
    this.host.classList.toggle("chosen", this.at >= 0);
  }

  matrix(values) {
    const [rows, columns] = this.shape, image = new ImageData(columns, rows), [low, high] = limits(values);
    const most = Math.max(-low, high), dark = matchMedia("(prefers-color-scheme: dark)").matches ? 30 : 250;
    const rgb = [[0x3f, 0x86, 0xd8], [0xc8, 0x74, 0x1f]];
    values.forEach((v, k) => {
      const to = rgb[v < 0 ? 1 : 0], part = Math.min(1, Math.abs(v) / most) || 0;
      for (let c = 0; c < 3; c++) image.data[4 * k + c] = dark + (to[c] - dark) * part;
      image.data[4 * k + 3] = 255;
    });
    this.host.getContext("2d").putImageData(image, 0, 0);
  }
}

/** A drawing of a line. */
const drawing = (kind, wide, high, label, more) =>
  sketch("svg", { class: kind, role: "img", viewBox: `0 0 ${wide} ${high}`, "aria-label": label, ...more });
const joined = (points) => `<path class="line" d="${points.map((p) => p.map((v) => v.toFixed(1)).join(",")).map((p, k) => `${k ? "L" : "M"}${p}`).join("")}"/>`;

/** The error of the gradient over the width of the steps, both axes logarithmic. */
function errorPlot(svg, curve, floor, deep) {
  const wide = svg.clientWidth || 600, x = (width) => 46 + (wide - 56) * (Math.log10(width) + deep + 0.2) / (deep + 0.4);
  const y = (e) => 8 + 106 * -Math.log10(Math.min(10, Math.max(e, 10 ** -floor)) / 10) / (floor + 1);
  const powers = (most, by, drawn) => Array.from({ length: most / by + 1 }, (_, k) => drawn(10 ** (-k * by), k ? `1e${-k * by}` : "1")).join("");
  const text = (x, y, says, anchor = "start") => `<text x="${x}" y="${y}" text-anchor="${anchor}">${says}</text>`;
  svg.setAttribute("viewBox", `0 0 ${wide} 150`); // its letters are as large as others
  svg.innerHTML = powers(floor, floor / 4, (e) => `<path class="zero" d="M46,${y(e)}H${wide - 8}"/>`)
    + powers(floor, floor / 2, (e, says) => text(40, y(e) + 4, says, "end")) + powers(deep, 2, (w, says) => text(x(w), 132, says, "middle"))
    + text(8, 147, "width of the step, relative to the greatest input") + joined(curve.map(([w, e]) => [x(w), y(e)]))
    + curve.map(([w, e]) => `<circle cx="${x(w)}" cy="${y(e)}" r="3"/>`).join("");
}

/** The values of a run of numbers as a line. */
function linePlot(svg, values) {
  const low = Math.min(...values), span = Math.max(...values) - low || 1, across = 612 / Math.max(1, values.length - 1);
  svg.innerHTML = joined(values.map((v, k) => [4 + across * k, 106 - 102 * (v - low) / span]));
}
