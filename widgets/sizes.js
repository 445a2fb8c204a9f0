// Evaluates the expression of each stack's depth again while the user moves sliders for its leaves. A node from
// Python (`sizes.py`) is [op, text, children, value, role, note, key].

const OPS = { add: (a, b) => a + b, sub: (a, b) => a - b, mul: (a, b) => a * b, min: Math.min, max: Math.max,
  floordiv: (a, b) => b ? Math.floor(a / b) : 0, mod: (a, b) => b ? a - b * Math.floor(a / b) : 0,
  isqrt: (a) => Math.ceil(Math.sqrt(Math.max(a, 0))) };
const MOST_TRIPS = 200000; // of all ranges of one expression, beyond which it has no value

/** The value of a node, NaN if the data for it is missing. `given`: values of leaves by key, arrays by name.
    `env`: loop indices by key. */
function sizeOf(node, given, env, budget) {
  const [op, , kids, value, , , key] = node;
  if (op === "const") return value;
  if (op === "var") return env[key] ?? NaN;
  if (op === "arg" || op === "shape" || op === "counted") return given.leaf[key] ?? value ?? NaN;
  if (op === "load") {
    const { data, shape } = given.arrays[key] ?? {};
    if (!kids.length || !data) return given.leaf[key] ?? value ?? NaN;
    let at = 0;
    for (const [k, kid] of kids.entries()) {
      const i = sizeOf(kid, given, env, budget);
      if (!(i >= 0 && i < shape[k])) return Number.isNaN(i) ? NaN : 0;
      at = at * shape[k] + i;
    }
    return Math.round(data[at] * (given.leaf[key] ?? 100) / 100);
  }
  if (op !== "sum" && op !== "greatest") return OPS[op](...kids.map((k) => sizeOf(k, given, env, budget)));
  const [begin, end] = kids.slice(0, 2).map((k) => sizeOf(k, given, env, budget));
  let total = 0;
  for (let k = begin; k < end; k++) {
    if (--budget.left < 0) return NaN;
    const one = sizeOf(kids[2], given, { ...env, [key]: k }, budget);
    total = op === "sum" ? total + one : Math.max(total, one);
    if (Number.isNaN(total)) return NaN;
  }
  return total;
}

/** Makes the squares of an array's picture (`heatmap.py`) live: arrow keys and clicks choose one, whose value is
    shown. */
function cells(host, { rows, cols, size: [width, height], ask, told }, hooks) {
  const image = host.querySelector("img"), now = host.querySelector(".now"), at = [0, 0];
  const frame = make("i", { class: "at" });
  async function choose(r, c) {
    [at[0], at[1]] = [Math.min(Math.max(r, 0), rows - 1), Math.min(Math.max(c, 0), cols - 1)];
    const [top, left, wide, tall] = [at[0] * height, at[1] * width, width, height].map((n) => `${n}px`);
    Object.assign(frame.style, { top, left, width: wide, height: tall });
    host.append(frame);
    const place = at.join("/"), here = () => place === at.join("/");
    const html = told?.[at[0] * cols + at[1]] ?? await hooks.ask(`${ask}/${place}`, (meanwhile) => {
      if (here()) now.replaceChildren(meanwhile);
    });
    if (here()) now.innerHTML = html;
  }
  image.addEventListener("click", (e) => choose(Math.floor(e.offsetY / height), Math.floor(e.offsetX / width)));
  const by = (r, c) => () => frame.isConnected ? choose(at[0] + r, at[1] + c) : choose(0, 0);
  const keys = { ArrowUp: by(-1, 0), ArrowDown: by(1, 0), ArrowLeft: by(0, -1), ArrowRight: by(0, 1) };
  host.addEventListener("keydown", (e) => pressed(e, keys));
}

/** Makes `host` live: sliders, trees, and the bytes of each stack and of all stacks. */
function whatIf(host, data) {
  const given = { leaf: {}, arrays: data.arrays };
  const text = (n) => Number.isNaN(n) ? "?" : n.toLocaleString("en");
  const holds = (s, depth) => s.bits ? Math.ceil(depth / 32) * 4 : depth * s.width;
  // no value of a leaf is known: what the launch had stands there
  const fixed = !host.querySelector("input[data-leaf]");
  const value = (node) => Math.max(0, sizeOf(node, given, {}, { left: MOST_TRIPS }));

  for (const input of host.querySelectorAll("input[data-leaf]")) {
    const { leaf, start } = input.dataset, shown = host.querySelector(`output[data-of="${CSS.escape(leaf)}"]`);
    input.addEventListener("input", () => {
      if (input.value === start) delete given.leaf[leaf]; else given.leaf[leaf] = Number(input.value);
      shown.textContent = input.dataset.scale ? `× ${Number(input.value) / 100}` : text(Number(input.value));
      input.setAttribute("aria-valuetext", shown.textContent);
      work();
    });
  }
  host.querySelector("[data-reset]")?.addEventListener("click", () => {
    for (const input of host.querySelectorAll("input[data-leaf]")) {
      input.value = input.dataset.start;
      input.dispatchEvent(new Event("input"));
    }
  });

  function work() {
    let lane = 0, before = 0;
    const heap = [];
    data.stacks.forEach((s, n) => {
      const part = host.querySelector(`[data-stack="${n}"]`), worked = value(s.tree);
      const depth = fixed && Number.isNaN(worked) ? s.depth ?? NaN : worked, held = holds(s, depth);
      heap.push([s.name, held]);
      lane += held;
      before += holds(s, s.depth ?? 0);
      const follow = (node, path) => {
        const out = part.querySelector(`[data-path="${path}"] .val`),
          own = sizeOf(node, given, {}, { left: MOST_TRIPS });
        if (out && node[0] !== "const") {
          out.textContent = Number.isNaN(own) ? "" : `= ${text(own)}`;
          out.classList.toggle("fresh", !Number.isNaN(own) && own !== node[3]);
        }
        node[2].forEach((kid, k) => follow(kid, `${path}.${k}`));
      };
      follow(s.tree, "0");
      const most = Math.max(depth || 0, s.depth ?? 0, s.seen ?? 0, 1);
      part.querySelector(".depth").textContent = `depth ${text(depth)}, ${inBytes(held)} per thread`;
      for (const [name, n] of [["now", depth || 0], ["launch", s.depth ?? 0], ["seen", s.seen ?? 0]]) {
        const bar = part.querySelector(`[data-bar="${name}"]`);
        if (!bar) continue;
        bar.hidden = name === "now" && Number.isNaN(worked);
        bar.querySelector("i").style.width = `${100 * n / most}%`;
        bar.querySelector("b").textContent = text(n);
      }
    });
    const launched = lane === before ? "" : `; the launch: ${inBytes(before)}`;
    host.querySelector(".total").textContent = `${inBytes(lane)} per thread${launched}`;
    let at = 0;
    host.querySelector(".heap")?.replaceChildren(...heap.filter(([, n]) => n > 0).map(([name, n], k) => {
      const title = `${name}: bytes ${text(at)} to ${text(at += n)} of a thread`;
      return make("span", { class: `seg s${k % 4}`, style: `flex-grow:${n}`, title }, name);
    }));
  }
  work();
}
