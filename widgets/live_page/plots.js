// Shows numbers as texts and arrays as pictures.

const BLUE = "#3f86d8", ORANGE = "#c8741f", MOST_CELLS = 64, MOST_HANDLES = 4096, WIDTHS = 13;
const digits = (v) => !Number.isFinite(v) ? String(v) : v === 0 ? "0" : Math.abs(v) >= 1e6 || Math.abs(v) < 1e-4
  ? v.toExponential(3) : String(Number(v.toPrecision(6)));
const millis = (t) => t < 1 ? `${t.toFixed(2)} ms` : t < 100 ? `${t.toFixed(1)} ms` : `${Math.round(t).toLocaleString("en")} ms`;
const isFloat = (dtype) => dtype[0] === "f";

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

/** A canvas of bars, a line, or a picture of a matrix. */
class Plot {
  constructor(shape, colour, label, height = 84) {
    this.shape = shape;
    this.colour = colour;
    this.canvas = make("canvas", { role: "img", "aria-label": label });
    this.label = label;
    this.size = shape.reduce((a, n) => a * n, 1);
    const [rows, columns] = shape.slice(-2);
    this.picture = shape.length === 2 && columns > 4 && rows > 4;
    if (this.picture) Object.assign(this.canvas.style, { aspectRatio: columns / rows, maxHeight: "320px", width: "auto", maxWidth: "100%", minWidth: "min(100%, 260px)" });
    else this.canvas.style.height = `${height}px`;
    this.at = -1;
  }

  draw(values, range) {
    const { canvas } = this, found = cleared(canvas);
    if (!found) return;
    const [g, w, h] = found;
    this.values = values;
    const [low, top] = limits(values);
    this.range = range ?? [low, top];
    if (this.picture) this.matrix(g, w, h, values); else this.bars(g, w, h, values);
    const said = this.size === 1 ? digits(values[0]) : `${this.size} numbers, from ${digits(low)} to ${digits(top)}`;
    canvas.setAttribute("aria-label", `${this.label}: ${said}`);
  }

  y(v, h) { const [low, high] = this.range; return 4 + (h - 8) * (high - v) / (high - low); }

  bars(g, w, h, values) {
    const n = values.length, step = w / n, zero = this.y(0, h), grey = getComputedStyle(this.canvas).color;
    g.fillStyle = this.colour;
    if (step >= 3) {
      for (let k = 0; k < n; k++) {
        const y = this.y(values[k], h), gap = Math.min(4, step * 0.25);
        g.globalAlpha = this.at < 0 || k === this.at ? 1 : 0.72;
        g.fillRect(k * step + gap / 2, Math.min(y, zero) - (Math.abs(y - zero) < 1 ? 0.5 : 0), step - gap, Math.max(1, Math.abs(y - zero)));
        if (!Number.isFinite(values[k])) { g.fillStyle = "#d33"; g.fillText("✕", k * step + step / 2 - 4, h / 2); g.fillStyle = this.colour; }
      }
      g.globalAlpha = 1;
    } else {
      for (let x = 0; x < w; x++) {
        let low = Infinity, high = -Infinity;
        for (let k = Math.floor(x * n / w), end = Math.max(k + 1, Math.floor((x + 1) * n / w)); k < end; k++) {
          low = Math.min(low, values[k]);
          high = Math.max(high, values[k]);
        }
        const top = this.y(high, h);
        g.fillRect(x, top, 1, Math.max(1, this.y(low, h) - top));
      }
    }
    g.globalAlpha = 0.5;
    g.fillStyle = grey;
    g.fillRect(0, Math.round(zero), w, 1);
    g.globalAlpha = 1;
  }

  matrix(g, w, h, values) {
    const [rows, columns] = this.shape, image = new ImageData(columns, rows), [low, high] = limits(values);
    const most = Math.max(-low, high), dark = matchMedia("(prefers-color-scheme: dark)").matches ? 30 : 250;
    const rgb = [[0x3f, 0x86, 0xd8], [0xc8, 0x74, 0x1f]];
    values.forEach((v, k) => {
      const to = rgb[v < 0 ? 1 : 0], part = Math.min(1, Math.abs(v) / most) || 0;
      for (let c = 0; c < 3; c++) image.data[4 * k + c] = dark + (to[c] - dark) * part;
      image.data[4 * k + 3] = 255;
    });
    const small = new OffscreenCanvas(columns, rows);
    small.getContext("2d").putImageData(image, 0, 0);
    g.imageSmoothingEnabled = false;
    g.drawImage(small, 0, 0, w, h);
  }
}

/** A canvas's context and size in pixels of the page, cleared; null where it is not shown. */
function cleared(canvas) {
  const scale = devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight, g = canvas.getContext("2d");
  if (!w) return null;
  const wide = Math.round(w * scale), high = Math.round(h * scale);
  if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.clearRect(0, 0, w, h);
  return [g, w, h];
}

function strokeLine(g, points) {
  g.beginPath();
  for (const [x, y] of points) g.lineTo(x, y);
  g.stroke();
}

/** The error of the gradient over the width of the steps, both axes logarithmic. */
function errorPlot(canvas, curve, floor, deep) {
  const found = cleared(canvas);
  if (!found) return;
  const [g, w, h] = found;
  const x = (width) => 46 + (w - 56) * (Math.log10(width) + deep + 0.2) / (deep + 0.4);
  const y = (e) => 8 + (h - 44) * -Math.log10(Math.min(10, Math.max(e, 10 ** -floor)) / 10) / (floor + 1);
  g.font = "11px system-ui";
  g.fillStyle = g.strokeStyle = getComputedStyle(canvas).color;
  g.globalAlpha = 0.25;
  for (let e = 0; e >= -floor; e -= floor / 4) strokeLine(g, [46, w - 8].map((at) => [at, y(10 ** e)]));
  g.globalAlpha = 0.85;
  for (let e = 0; e >= -floor; e -= floor / 2) g.fillText(e ? `1e${e}` : "1", 8, y(10 ** e) + 4);
  for (let e = 0; e >= -deep; e -= 2) g.fillText(e ? `1e${e}` : "1", x(10 ** e) - 12, h - 18);
  g.fillText("width of the step, relative to the greatest input", 46, h - 3);
  g.globalAlpha = 1;
  g.strokeStyle = g.fillStyle = ORANGE;
  strokeLine(g, curve.map(([width, e]) => [x(width), y(e)]));
  for (const [width, e] of curve) { g.beginPath(); g.arc(x(width), y(e), 3, 0, 7); g.fill(); }
}

/** The values of a run of numbers as a line. */
function linePlot(canvas, values, colour) {
  const found = cleared(canvas);
  if (!found || !values.length) return;
  const [g, w, h] = found;
  const low = Math.min(...values), high = Math.max(...values);
  g.strokeStyle = colour;
  g.lineWidth = 1.6;
  const across = (w - 8) / Math.max(1, values.length - 1);
  strokeLine(g, values.map((v, k) => [4 + across * k, 4 + (h - 8) * (high - v) / (high - low || 1)]));
}
