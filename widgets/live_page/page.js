// Runs a program in the page: shows controls for what the program reads, and the results. Each program has one
// panel.

/** The thread that computes: a Worker, or where there can be none the page itself. */
function engine(program, source, hear) {
  let worker = null, direct = null;
  const start = () => {
    const code = `${source};let go;onmessage=({data})=>{if(data.program)try{go=answerer(data.program,postMessage.bind(self))}`
      + "catch(e){postMessage({broken:`${e.name}: ${e.message}`})}else if(go)go(data)}";
    const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
    worker = new Worker(url);
    worker.onmessage = ({ data }) => hear(data);
    worker.onerror = (e) => { e.preventDefault(); worker = null; here(); };
    worker.postMessage({ program });
  };
  const here = () => {
    direct = answerer(structuredClone(program), hear, true);
    if (last) direct(last);
  };
  let last = null;
  try { start(); } catch { here(); }
  return {
    ask(job) { last = job; if (worker) worker.postMessage(job); else direct?.(job); },
    stop() { if (worker) { worker.terminate(); start(); return true; } return false; },
    get threaded() { return worker !== null; },
  };
}

class Panel {
  constructor(host, program, source) {
    Object.assign(this, { host, program, number: 0, curve: [], values: {}, scalars: {}, seeds: {}, choice: {} });
    this.starts = program.arrays.map((a) => a.input ? unpackArray(a, a.dtype, count(a.shape)) : null);
    const floats = program.arrays.filter((a, n) => a.input && a.grad >= 0);
    this.eps = floats.some((a) => a.dtype === "f16") ? 1e-3 : floats.some((a) => a.dtype === "f32") ? 1.2e-7 : 2.3e-16;
    this.deep = this.eps < 1e-10 ? 10 : 6; // the narrowest step as a power of ten
    this.tolerance = { 1e-3: 0.1, 1.2e-7: 2e-2, 2.3e-16: 1e-5 }[this.eps];
    program.arrays.forEach((a, n) => {
      const size = count(a.shape);
      if (program.loss === n) this.seeds[n] = new Float64Array([1]);
      else if (program.loss < 0 && a.output && a.grad >= 0 && isFloat(a.dtype)) {
        this.seeds[n] = a.seed ? unpackArray(a.seed, a.dtype, size) : new Float64Array(size).fill(1);
      }
    });
    this.build();
    this.engine = engine(program, source, (found) => this.hear(found));
    this.run();
  }

  // --- what is shown

  build() {
    const { program } = this, names = [...new Set(program.kernels.map((k) => k.forward.name))];
    this.time = make("span", { class: "ms" }, "starts …");
    this.stopButton = make("button", { type: "button", hidden: "", click: () => this.stop() }, "stop");
    this.fresh = make("button", { type: "button", click: () => this.reset() }, "as recorded");
    this.said = make("p", { class: "said", role: "status" });
    const launches = program.steps.filter((s) => "kernel" in s).length;
    const what = launches > 1 ? `${launches} launches of ${names.length} kernel${names.length > 1 ? "s" : ""}, and their gradients, run`
      : differentiable(program) ? "This kernel and its gradient run" : "This kernel runs";
    this.inputs = make("div", { class: "col" }, make("h4", {}, "Change what it reads"));
    this.results = make("div", { class: "col" }, make("h4", {}, "What follows"));
    this.more = make("div", { class: "more" });
    this.host.replaceChildren(
      make("header", {}, make("b", {}, program.title), make("span", { class: "what" }, `${what} in this page, on your numbers.`),
        this.time, this.stopButton, this.fresh),
      this.said, make("div", { class: "two" }, this.inputs, this.results), this.more,
    );
    const sources = program.kernels.map((k) => k.source), lines = sources.flatMap((s, k) => k && s.length ? ["", ...s] : s);
    this.listing = make("pre", { class: "source", tabindex: "0", "aria-label": "source" },
      ...lines.map((x) => x ? make("div", { "data-line": x[0] }, `${String(x[0]).padStart(3)}  ${x[1]}`) : "\n"));
    if (lines.length) {
      this.inputs.before(make("div", { class: "col code" }, make("h4", {}, names.length > 1 ? "The kernels" : "The kernel"), this.listing));
      this.host.querySelector(".two").classList.add("three");
    }
    this.scalarControls();
    this.plots = [];
    const order = ([a]) => (a.grad >= 0 ? 0 : isFloat(a.dtype) ? 1 : 2) - (count(a.shape) === 1 ? 0.5 : 0);
    const inputs = program.arrays.map((a, n) => [a, n]).filter(([a]) => a.input).sort((p, q) => order(p) - order(q));
    for (const [a, n] of inputs) this.inputControl(a, n);
    if (this.inputs.children.length === 1) this.inputs.append(make("p", {}, "It reads nothing that can be changed."));
    this.resultViews();
    this.moreViews();
  }

  /** Sliders for the scalar arguments that are the same in all launches of a kernel. */
  scalarControls() {
    this.program.kernels.forEach((kernel, k) => {
      const steps = this.program.steps.filter((s) => s.kernel === k);
      for (const [name, [, dtype]] of Object.entries(kernel.forward.args)) {
        const start = steps[0].scalars[name];
        if (steps.some((s) => s.scalars[name] !== start) || typeof start === "string") continue;
        const label = this.program.kernels.length > 1 ? `${name} of ${kernel.forward.name}` : name;
        this.number_(label, dtype, Number(start), (v) => {
          (this.scalars[k] ??= {})[name] = v;
        });
      }
    });
  }

  /** A slider with a number beside it. */
  number_(label, dtype, start, set) {
    const whole = !isFloat(dtype), size = Math.max(Math.abs(start), 1), unsigned = "ub".includes(dtype[0]) || (whole && start >= 0);
    const low = whole ? (unsigned ? 0 : -4 * size) : start < 0 ? -3 * size : start - 2 * size;
    const [min, max] = [low, whole ? Math.max(4 * size, 16) : start + 3 * size], step = whole ? 1 : (max - min) / 1000;
    const slider = make("input", { type: "range", min, max, step, "aria-label": label });
    const box = make("input", { type: "number", step: whole ? 1 : "any", "aria-label": `${label}, number` });
    slider.value = box.value = start;
    const change = (from, to) => () => {
      const v = Number(from.value);
      if (from.value === "" || !Number.isFinite(v)) return;
      to.value = from === slider ? Number(v.toPrecision(6)) : v;
      set(whole ? Math.trunc(v) : v);
      this.run();
    };
    slider.addEventListener("input", change(slider, box));
    box.addEventListener("input", change(box, slider));
    this.resets.push(() => { slider.value = box.value = start; });
    this.inputs.append(make("label", { class: "scalar" }, make("code", {}, label), slider, box, make("span", { class: "ms" }, dtype)));
  }

  resets = [];

  rest() {} // where nothing walks downhill

  inputControl(a, n) {
    const size = count(a.shape);
    if (size === 1) {
      this.number_(a.name, a.dtype, this.starts[n][0], (v) => { this.values[n] = new Float64Array([v]); });
      return;
    }
    const choices = { recorded: "as recorded", zeros: "zeros", impulse: "an impulse", random: "random" };
    const pick = make("select", { "aria-label": `values of ${a.name}`, change: () => this.pick(a, n, pick.value) },
      ...Object.entries(choices).filter(([k]) => isFloat(a.dtype) || k === "recorded" || k === "zeros")
        .map(([value, text]) => make("option", { value }, text)), make("option", { value: "yours", hidden: "" }, "yours"));
    const again = make("button", { type: "button", title: "another seed", hidden: "", click: () => { this.choice[n].seed++; this.pick(a, n, "random"); } }, "seed 1");
    this.choice[n] = { pick, again, seed: 1 };
    const plot = new Plot(a.shape, BLUE, a.name);
    this.plots.push([plot, () => this.values[n] ?? this.starts[n]]);
    plot.input = n;
    const box = this.figure(plot, a.name, `${a.dtype}[${a.shape.join(", ")}]`, "", pick, again);
    if (isFloat(a.dtype) && size <= MOST_HANDLES && !plot.picture) box.append(this.handles(a, n, plot, size));
    this.inputs.append(box);
    this.resets.push(() => { pick.value = "recorded"; again.hidden = true; });
  }

  /** Lets the reader drag bars, move them by keys, and type numbers. */
  handles(a, n, plot, size) {
    const { host } = plot, box = make("input", { type: "number", step: "any", "aria-label": `element of ${a.name}` });
    const where = make("code", {}, ""), say = make("span", { class: "ms" }, size <= MOST_CELLS ? "drag a bar, or use the arrow keys" : "drag across the bars");
    const name = (k) => `${a.name}[${a.shape.length === 1 ? k : place(a.shape, k).join(", ")}]`;
    const now = () => this.values[n] ?? this.starts[n];
    const select = (k) => {
      plot.at = Math.max(0, Math.min(size - 1, k));
      where.textContent = name(plot.at);
      box.value = digits(now()[plot.at]);
      filled(host, { "aria-valuetext": `${name(plot.at)} = ${box.value}`, "aria-valuenow": now()[plot.at] }, []);
    };
    const set = (k, v) => {
      const values = Float64Array.from(now());
      values[k] = v;
      this.values[n] = values;
      this.choice[n].pick.value = "yours";
      this.choice[n].again.hidden = true;
      select(k);
      this.run();
    };
    filled(host, { role: "slider", tabindex: 0, "aria-valuemin": -1e9, "aria-valuemax": 1e9 }, []);
    let range = null;
    const drag = (e) => {
      const r = host.getBoundingClientRect(), k = Math.floor((e.clientX - r.left) / r.width * size);
      const [low, high] = range, v = high - (high - low) * (e.clientY - r.top - 4) / (r.height - 8);
      set(Math.max(0, Math.min(size - 1, k)), Number(Math.max(low, Math.min(high, v)).toPrecision(4)));
    };
    host.addEventListener("pointerdown", (e) => {
      const [low, high] = limits(now());
      range = [Math.min(low, -0.02 * (high - low)) * 1.25, high * 1.25]; // room to drag beyond
      plot.held = range;
      host.setPointerCapture(e.pointerId);
      drag(e);
    });
    host.addEventListener("pointermove", (e) => { if (range) drag(e); });
    for (const over of ["pointerup", "pointercancel"]) host.addEventListener(over, () => { range = plot.held = null; plot.draw(now()); });
    host.addEventListener("keydown", (e) => {
      const at = Math.max(0, plot.at), [low, high] = limits(now()), by = (high - low) / (e.shiftKey ? 5 : 50);
      const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: size - 1 }[e.key];
      if (to !== undefined) { select(to); plot.draw(now()); }
      else if (e.key === "ArrowUp" || e.key === "ArrowDown") set(at, Number((now()[at] + (e.key === "ArrowUp" ? by : -by)).toPrecision(4)));
      else return;
      e.preventDefault();
    });
    box.addEventListener("input", () => { if (box.value !== "" && plot.at >= 0) { const v = Number(box.value), t = box.value; set(plot.at, v); box.value = t; } });
    select(0);
    plot.at = -1;
    this.resets.push(() => { select(0); plot.at = -1; });
    this.choice[n].select = () => select(Math.max(0, plot.at));
    return make("div", { class: "cell" }, where, " = ", box, say);
  }

  pick(a, n, value) {
    const size = count(a.shape), start = this.starts[n], [low, high] = limits(start), of = Math.max(-low, high) || 1;
    const { again, seed, select, pick } = this.choice[n], draw = random(seed);
    pick.value = value;
    again.hidden = value !== "random";
    again.textContent = `seed ${seed}`;
    if (value === "recorded") delete this.values[n];
    else if (value === "zeros") this.values[n] = new Float64Array(size);
    else if (value === "impulse") {
      this.values[n] = new Float64Array(size);
      this.values[n][a.shape.reduce((at, k) => at * k + (k >> 1), 0)] = of;
    } else this.values[n] = Float64Array.from({ length: size }, () => Number((low + (high - low) * draw()).toPrecision(6)));
    select?.();
    this.run();
  }

  resultViews() {
    const { program } = this;
    const loss = program.loss >= 0 ? program.arrays[program.loss].name : "the outputs, times their seeds,";
    program.kernels[0].forward.returns.forEach((r, k) => {
      const out = make("output", { class: "big" });
      this.results.append(make("div", { class: "number" }, make("code", {}, "returns"), out));
      (this.returned ??= []).push(out);
    });
    this.numbers = [];
    const shown = (a, title, note, what, get) => {
      const kind = what === "value" ? "" : "grad";
      if (count(a.shape) === 1) {
        const out = make("output", { class: "big", [`data-${what}`]: a.name });
        this.numbers.push([out, get]);
        this.results.append(make("div", { class: `number ${kind}` }, make("code", {}, title), " = ", out));
        return;
      }
      const plot = new Plot(a.shape, kind ? ORANGE : BLUE, title);
      this.plots.push([plot, get]);
      this.results.append(this.figure(plot, title, note, kind));
    };
    const value = (a, n) => shown(a, a.name, `${a.dtype}[${a.shape.join(", ")}]`, "value", () => this.found?.values[n]);
    const of = program.loss >= 0 ? program.arrays[program.loss].name : "(outputs)";
    if (program.loss >= 0) value(program.arrays[program.loss], program.loss);
    program.arrays.forEach((a, n) => {
      if (!a.input || a.grad < 0 || !differentiable(program)) return;
      const note = `how ${loss} change${program.loss >= 0 ? "s" : ""} with each element`;
      shown(a, `d${of}/d${a.name}`, note, "gradient", () => this.found?.gradients[n]);
    });
    program.arrays.forEach((a, n) => { if (a.output && n !== program.loss) value(a, n); });
    const none = program.kernels.find((k) => !k.reverse && !k.passive) ?? program.kernels[0];
    const why = !differentiable(program) ? `No gradient: ${none.none}` : program.arrays.some((a) => a.input && a.grad >= 0) ? ""
      : `The gradient is zero: ${loss} take${program.loss >= 0 ? "s" : ""} nothing from an input by a way that has a derivative.`;
    if (why) this.results.append(make("p", { class: "ms" }, why));
  }

  /** A plot under its title; the value under the pointer stands beside that. */
  figure(plot, title, note, kind, ...more) {
    const point = make("span", { class: "ms point" });
    plot.host.addEventListener("pointermove", (e) => {
      const values = plot.values;
      if (!values) return;
      const r = plot.host.getBoundingClientRect(), u = (e.clientX - r.left) / r.width, v = (e.clientY - r.top) / r.height;
      let k = Math.floor(u * values.length);
      if (plot.picture) {
        const [rows, columns] = plot.shape;
        k = Math.floor(v * rows) * columns + Math.floor(u * columns);
      }
      if (values[k] !== undefined) point.textContent = `[${place(plot.shape, k).join(", ")}] = ${digits(values[k])}`;
    });
    plot.host.addEventListener("pointerleave", () => { point.textContent = ""; });
    return make("div", { class: `array ${kind}` }, make("div", { class: "head" }, make("code", {}, title), make("span", { class: "ms" }, note), ...more, point), plot.host);
  }

  moreViews() {
    const { program } = this, checks = program.arrays.some((a) => a.input && a.grad >= 0) && differentiable(program);
    const fold = (title, kind, ...body) => {
      const x = make("details", { open: "", class: kind }, make("summary", {}, title), ...body);
      this.more.append(x);
      return x;
    };
    if (checks) {
      this.verdict = make("span", { class: "verdict", role: "status" }, "…");
      this.errors = drawing("errors", 620, 150, "error of the gradient over the width of the steps");
      const what = make("p", { class: "ms" }, "All inputs move at once, by steps of many widths. The change that the gradient predicts is compared with the one "
        + "that the kernel computes: the line shows how far they differ. Wide steps show the curve of the function, narrow ones rounding.");
      fold(make("span", {}, "Is the gradient right? ", this.verdict), "half", this.errors, what);
      this.checked = program.arrays.map((a, n) => n).filter((n) => program.arrays[n].input && program.arrays[n].grad >= 0);
      const draw = random(1);
      this.direction = Object.fromEntries(this.checked.map((n) => [n, Float64Array.from({ length: count(program.arrays[n].shape) },
        () => 0.5 + 0.5 * draw())]));
    }
    if (checks && program.loss >= 0) this.descent(fold);
    if (checks) this.exercise = new Exercise(this, fold);
    this.steps = new Steps(this, fold);
    const stacks = program.kernels.flatMap((k, n) => (k.reverse?.stacks ?? []).map((s, at) => [n, at, s, k]));
    if (stacks.length) {
      this.depths = stacks.map(([kernel, at, s]) => ({ kernel, at, s, depth: make("b", { "data-depth": s.name }), held: make("td"), note: make("span", { class: "ms" }) }));
      const rows = this.depths.map(({ s, kernel, depth, held }) => make("tr", {}, make("td", {}, make("code", {}, s.name), program.kernels.length > 1 ? ` of ${program.kernels[kernel].forward.name}` : "", make("span", { class: "ms" }, ` line ${s.line}`)),
        make("td", {}, s.reason), make("td", {}, make("code", {}, s.size[1])), make("td", { class: "num" }, depth), held));
      this.stackSum = make("span", { class: "ms" });
      fold(make("span", {}, "What the gradient keeps ", this.stackSum), "whole", make("table", {}, make("thead", {}, make("tr", {},
        ...["value", "needed as", "depth of its stack", "now", "per iteration"].map((t) => make("th", {}, t)))), make("tbody", {}, ...rows)));
    }
    const sizes = program.kernels.flatMap((k) => [k.forward, k.reverse, k.counting].filter(Boolean).map((m) => m.bytes));
    this.more.append(make("p", { class: "ms whole" }, `${sizes.length} WebAssembly module${sizes.length > 1 ? "s" : ""} of `
      + `${sizes.map((n) => n.toLocaleString("en")).join(", ")} bytes; nothing is loaded from elsewhere. To edit the kernel, `
      + "open it in the notebook: ", make("code", {}, "%%qdkernel --grad loss")));
  }

  /** A button that walks downhill. */
  descent(fold) {
    const { program } = this, curve = drawing("descent", 620, 110, "the loss over the rounds", { preserveAspectRatio: "none" });
    const rate = make("input", { type: "number", step: "any", value: "0.1", "aria-label": "rate" }), told = make("span", { class: "ms", role: "status" });
    const along = make("select", { "aria-label": "what is changed" }, ...this.checked.map((n) => make("option", { value: n }, program.arrays[n].name)));
    const go = make("button", { type: "button", click: () => walk(!this.walking) }, "walk downhill");
    const name = program.arrays[program.loss].name;
    const walk = (on) => {
      this.walking = on ? [] : null;
      go.textContent = on ? "stop" : "walk downhill";
      if (on) this.downhill();
    };
    this.rest = () => walk(false);
    this.downhill = () => {
      const { walking, found } = this, n = Number(along.value);
      if (!walking || !found || walking.length >= 1000 || !found.gradients[n]) { this.rest(); return; }
      walking.push(found.loss);
      told.textContent = `round ${walking.length}: ${name} = ${digits(found.loss)}`;
      linePlot(curve, walking);
      if (!Number.isFinite(found.loss)) { this.rest(); return; }
      const now = this.values[n] ?? this.starts[n], g = found.gradients[n], by = Number(rate.value);
      this.values[n] = now.map((v, k) => v - by * g[k]);
      if (this.choice[n]) this.choice[n].pick.value = "yours";
      this.run();
    };
    fold("Walk downhill", "half", make("p", { class: "row" }, go, make("label", {}, "rate ", rate), make("label", {}, "of ", along), told), curve);
  }

  // --- what happens

  reset() {
    this.values = {};
    this.scalars = {};
    this.rest();
    this.resets.forEach((f) => f());
    this.run();
  }

  stop() {
    this.rest();
    if (this.engine.stop()) this.tell("stopped; change something to compute again");
    clearTimeout(this.late);
    this.stopButton.hidden = true;
  }

  run() {
    const most = Math.max(0, ...(this.checked ?? []).map((n) => Math.max(...limits(this.values[n] ?? this.starts[n]).map(Math.abs)))) || 1;
    const widths = this.checked ? Array.from({ length: WIDTHS }, (_, k) => most * 10 ** (-k * this.deep / (WIDTHS - 1))) : [];
    this.asked = performance.now();
    this.scale = most;
    const job = { id: ++this.number, values: this.values, scalars: this.scalars, seeds: this.seeds, eps: this.eps, widths, direction: this.direction ?? {}, follow: this.steps.asked };
    this.redraw(false);
    clearTimeout(this.late);
    this.late = setTimeout(() => {
      if (this.answered === this.number) return;
      this.stopButton.hidden = !this.engine.threaded;
      this.time.textContent = "computes …";
    }, 150);
    this.engine.ask(job);
  }

  hear(found) {
    if (found.broken) { this.broken(found.broken); return; }
    if (found.progress) {
      const [at, of, way] = found.progress;
      this.time.textContent = `${way}: launch ${at + 1} of ${of}`;
      return;
    }
    if (found.id < this.number && !found.values) return;
    if ("move" in found) { this.judge(found); return; }
    if (found.id === this.number) {
      this.answered = this.number;
      clearTimeout(this.late);
      this.stopButton.hidden = true;
    }
    if (found.error) { this.tell(found.error); this.time.textContent = ""; this.rest(); return; }
    this.tell("");
    this.found = found;
    this.curve = [];
    const back = found.backward === undefined ? "" : `, gradient ${inSeconds(found.backward / 1000)}`;
    this.time.textContent = `launch ${inSeconds(found.forward / 1000)}${back}${found.simd ? "" : " (no vectors in this browser)"}`;
    for (const [out, get] of this.numbers) out.textContent = digits(get()?.[0]);
    this.returned?.forEach((out, k) => { out.textContent = typeof found.returned[k] === "number" ? digits(found.returned[k]) : String(found.returned[k]); });
    let sum = 0;
    this.depths?.forEach(({ kernel, at, s, depth, held }) => {
      const d = found.depths[kernel]?.[at] ?? 0, n = s.dtype === "u1" ? Math.ceil(d / 32) * 4 : d * DTYPES[s.dtype][0];
      depth.textContent = d.toLocaleString("en");
      held.textContent = inBytes(n);
      sum += n;
    });
    if (this.depths) this.stackSum.textContent = `${inBytes(sum)} for an iteration`;
    this.redraw(true);
    this.exercise?.judge();
    if (found.followed) this.steps.show(found.followed);
    this.host.dataset.shown = found.id;
    this.host.dataset.took = (performance.now() - this.asked).toFixed(2);
    if (this.walking) requestAnimationFrame(() => this.downhill());
  }

  judge({ move, width, last }) {
    if (move && move.every(Number.isFinite)) {
      const [seen, expected, noise] = move, size = Math.max(Math.abs(seen), Math.abs(expected));
      const off = Math.abs(seen - expected);
      this.curve.push([width / this.scale, size ? off / size : 0, seen, expected, off <= Math.max(noise, this.tolerance * size)]);
    }
    errorPlot(this.errors, this.curve, this.eps < 1e-10 ? 16 : 8, this.deep);
    const best = this.curve.reduce((a, b) => !a || b[4] > a[4] || (b[4] === a[4] && b[1] < a[1]) ? b : a, null);
    if (!best) { this.verdict.textContent = last ? "the loss or its gradient is not a number here" : "…"; return; }
    const right = best[4];
    if (!right && !last) return;
    // differences that agree with each other, by steps of two widths, contradict the gradient
    const slopes = this.curve.map(([width, , seen]) => seen / width), near = (a, b) => Math.abs(a - b) <= 0.01 * Math.abs(b);
    const at = slopes.findIndex((v, k) => k && near(slopes[k - 1], v) && !near(this.curve[k][2], this.curve[k][3]));
    this.verdict.className = `verdict ${right ? "right" : at > 0 ? "wrong" : ""}`;
    const to = best[1] >= 1 ? ", both 0 but for rounding" : best[1] ? ` to ${best[1].toExponential(0)}` : " in every digit";
    const both = at > 0 ? `differences give ${digits(this.curve[at][2])}, the gradient ${digits(this.curve[at][3])}` : "";
    this.verdict.textContent = right ? `Yes: it agrees with differences${to}.` : at > 0 ? `No: ${both}.`
      : "Unclear: steps of no two widths agree with each other. qd.ad.check in the notebook says why.";
    if (last) this.host.dataset.judged = this.number;
  }

  tell(text) {
    this.said.textContent = text;
    this.host.classList.toggle("failed", text !== "");
    const line = /line (\d+)/.exec(text)?.[1];
    this.listing?.querySelectorAll("[data-line]").forEach((x) => x.classList.toggle("at", x.dataset.line === line));
  }

  broken(why) {
    this.tell(`WebAssembly does not run here (${why}). The page's content policy must allow script-src 'wasm-unsafe-eval'; for a `
      + "thread of its own, worker-src blob:.");
    this.time.textContent = "";
  }

  /** Draws what is `found`, or what is read, where it has changed. */
  redraw(found) {
    for (const [plot, values] of this.plots) {
      const now = found === (plot.input === undefined) && values();
      if (now && now !== plot.values) plot.draw(now, plot.held);
    }
  }
}

