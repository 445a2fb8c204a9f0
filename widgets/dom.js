// All scripts share these functions: they make elements, read keys, and let the user move and enlarge drawings.

const NS = "http://www.w3.org/2000/svg";

/** The element with attributes, of which functions are listeners, and children. */
function filled(x, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") x.addEventListener(name, value);
    else if (value !== undefined && value !== false) x.setAttribute(name, value);
  }
  x.append(...children);
  return x;
}
const make = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);
/** An element of a drawing. */
const sketch = (tag, attributes = {}, ...children) => filled(document.createElementNS(NS, tag), attributes, children);

/** The element with the focus in the tree of x. In a shadow root, the document knows only the root's host. */
const focused = (x) => x.getRootNode().activeElement;

/** The data of an element, which it then no longer holds. */
function given(x, name) {
  const data = JSON.parse(x.dataset[name]);
  x.removeAttribute(`data-${name}`);
  return data;
}

const SIGNS = { amp: "&", lt: "<", gt: ">", quot: '"', "#x27": "'" };
const plain = (html) => html.replace(/<[^>]*>/g, "").replace(/&(#?\w+);/g, (_, name) => SIGNS[name]);
const escaped = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const inBytes = (n) => Number.isNaN(n) ? "?" : n < 1024 ? `${n} B` : n < 1048576
  ? `${(n / 1024).toFixed(1)} KB` : `${(n / 1048576).toFixed(1)} MB`;

const TIMES = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
/** A time with three digits. */
function inSeconds(s) {
  const [size, unit] = TIMES.find(([size]) => s >= size) ?? TIMES[3];
  return `${Number((s / size).toPrecision(3))} ${unit}`;
}

/** Runs what `keys` has for the key of an event, which an arrow with Shift begins with that word. Whether there is
    anything. */
function pressed(e, keys) {
  const run = !e.ctrlKey && !e.metaKey && !e.altKey
    && keys[`${e.shiftKey && e.key.startsWith("Arrow") ? "Shift " : ""}${e.key}`];
  if (!run) return false;
  run();
  e.preventDefault();
  return true;
}

/** Lets the pointer drag a drawing. `at`: its place when that begins; `move(at, dx, dy)`: from there on; `over(e)`:
    where the pointer moves without a button; `still(e)`: a click that has not dragged. */
function draggable(drawing, { at, move, over, still }) {
  let from = null, moved = false;
  drawing.addEventListener("pointerdown", (e) => {
    from = { x: e.clientX, y: e.clientY, at: at() };
    moved = false;
  });
  drawing.addEventListener("pointermove", (e) => {
    if (!from || !e.buttons) { over(e); return; }
    const [dx, dy] = [e.clientX - from.x, e.clientY - from.y];
    moved ||= Math.hypot(dx, dy) > 4;
    if (!moved) return;
    drawing.setPointerCapture(e.pointerId);
    move(from.at, dx, dy);
  });
  drawing.addEventListener("pointerup", () => { from = null; });
  drawing.addEventListener("click", (e) => { if (!moved) still(e); });
}

/** Lets the wheel enlarge a drawing that has the focus; of others Ctrl does that, because the page scrolls. */
function zoomable(drawing, zoom) {
  drawing.addEventListener("wheel", (e) => {
    if (!e.ctrlKey && focused(drawing) !== drawing) return;
    e.preventDefault();
    const { left, top } = drawing.getBoundingClientRect();
    zoom(Math.exp(-e.deltaY / 350), e.clientX - left, e.clientY - top, e);
  }, { passive: false });
}

/** A row of buttons: [text, what it does, function]. */
function toolbar(label, buttons) {
  const made = buttons.map(([name, title, click]) =>
    make("button", { type: "button", class: "ch", title, "aria-label": title, click }, name));
  return make("div", { class: "tools", role: "toolbar", "aria-label": label }, ...made);
}
