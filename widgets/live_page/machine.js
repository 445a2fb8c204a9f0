// Runs a program of launches on WebAssembly modules that the compiler made: in a Worker, or in the page itself.
// `notebook/live_page.py` says what the data are. `sizeOf`, which evaluates the depth of a stack, is in `../sizes.js`.

const DTYPES = {
  f32: [4, Float32Array, "Float32"], f64: [8, Float64Array, "Float64"], f16: [2, Uint16Array, "Uint16"],
  i8: [1, Int8Array, "Int8"], i16: [2, Int16Array, "Int16"], i32: [4, Int32Array, "Int32"],
  i64: [8, BigInt64Array, "BigInt64"], u8: [1, Uint8Array, "Uint8"], u16: [2, Uint16Array, "Uint16"],
  u32: [4, Uint32Array, "Uint32"], u64: [8, BigUint64Array, "BigUint64"], u1: [1, Uint8Array, "Uint8"],
};
const MOST_SIZED = 5e7, LINE = 64; // trips that the sizes of a launch may take; alignment of memory
const QUICK = 1, SETTLED = 200; // milliseconds
const PLACE = "$log.place", LOG = "$log", ROOM = 1 << 20; // `passes/log_values.py`
const decode = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const count = (shape) => shape.reduce((a, n) => a * n, 1);

/** The number that 16 bits mean, and the bits of the nearest number. */
function fromHalf(h) {
  const e = h >> 10 & 31, m = h & 1023, s = h & 0x8000 ? -1 : 1;
  return s * (e === 31 ? (m ? NaN : Infinity) : e ? 2 ** (e - 25) * (1024 + m) : 2 ** -24 * m);
}
function toHalf(x) {
  const s = x < 0 || Object.is(x, -0) ? 0x8000 : 0, a = Math.abs(x);
  if (Number.isNaN(x)) return 0x7e00;
  const even = (v) => { const f = Math.floor(v), r = v - f; return r > 0.5 || (r === 0.5 && f % 2) ? f + 1 : f; };
  if (a < 2 ** -14) return s | even(a * 2 ** 24);
  if (a >= 65520) return s | 0x7c00;
  const e = Math.floor(Math.log2(a)), m = even(a * 2 ** (10 - e));
  return s | (m === 2048 ? e + 16 << 10 : e + 15 << 10 | m - 1024);
}
const ENCODE = { f16: toHalf, i64: (x) => BigInt(Math.trunc(x)), u64: (x) => BigInt(Math.trunc(x)), u1: (x) => x ? 1 : 0 };
const DECODE = { f16: fromHalf, i64: Number, u64: Number };
const encoded = (dtype, value) => (ENCODE[dtype] ?? Number)(value), decoded = (dtype, bits) => (DECODE[dtype] ?? Number)(bits);

/** The values of an array of the data, as Float64Array. */
function unpackArray(a, dtype, size) {
  const out = new Float64Array(size), raw = a.all ?? a.one;
  if (raw === undefined) return out;
  const bits = new DTYPES[dtype][1](decode(raw).buffer);
  return a.one !== undefined ? out.fill(decoded(dtype, bits[0])) : out.map((_, n) => decoded(dtype, bits[n]));
}

/** An engine without 128-bit vectors refuses this module. */
const VECTORS = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11];

class LaunchError extends Error {}

/** Whether each kernel has a gradient, or touches nothing that has one. */
const differentiable = ({ kernels }) => kernels.some((k) => k.reverse) && kernels.every((k) => k.reverse || k.passive);

class Machine {
  constructor(program) {
    this.program = program;
    this.head = program.head;
    this.memory = new WebAssembly.Memory({ initial: 17 });
    this.simd = WebAssembly.validate(new Uint8Array(VECTORS));
    this.free = this.head.first;
    this.arrays = program.arrays.map((a) => {
      const size = count(a.shape), [width, type] = DTYPES[a.dtype];
      return { ...a, size, width, type, start: unpackArray(a, a.dtype, size), at: this.take(size * width) };
    });
    this.prints = this.take(64);
    this.kernels = program.kernels.map((k) => {
      const made = { ...k, steps: { ...k.steps } };
      for (const mode of ["forward", "reverse", "counting"]) if (k[mode]) made[mode] = this.load(k[mode]);
      return made;
    });
    this.base = this.free;
  }

  load(kernel) {
    const bytes = decode(!this.simd && kernel.scalar ? kernel.scalar : kernel.module);
    const made = new WebAssembly.Instance(new WebAssembly.Module(bytes), { env: { memory: this.memory } });
    return { ...kernel, run: made.exports.run, frame: this.take(kernel.size) };
  }

  /** Room for so many bytes; memory may move. */
  take(bytes) {
    const at = this.free;
    this.free = Math.ceil((at + Math.max(bytes, 1)) / LINE) * LINE;
    const lack = this.free - this.memory.buffer.byteLength;
    if (lack > 0) {
      try {
        this.memory.grow(Math.ceil(lack / 65536));
      } catch {
        throw new LaunchError(`${this.free.toLocaleString("en")} bytes are more than this browser gives a page`);
      }
    }
    return at;
  }

  bits(a) { return new a.type(this.memory.buffer, a.at, a.size); }

  /** The values of an array as Float64Array. */
  read(n) {
    const a = this.arrays[n], bits = this.bits(a), from = DECODE[a.dtype];
    return from ? Float64Array.from(bits, from) : new Float64Array(bits); // `from` takes ten times as long
  }

  write(n, values) {
    const a = this.arrays[n], bits = this.bits(a), to = ENCODE[a.dtype];
    if (!to) bits.set(values); else for (let k = 0; k < a.size; k++) bits[k] = to(values[k]);
  }

  /** Rounds a value as the array does. */
  rounded(n, values) {
    const a = this.arrays[n];
    return a.dtype === "f64" ? values : a.dtype === "f32" ? new Float64Array(new Float32Array(values))
      : Float64Array.from(values, (v) => decoded(a.dtype, encoded(a.dtype, v)));
  }

  // --- one launch

  extent(step, name) {
    const bound = step.bind[name];
    return bound === undefined ? this.scratch[name].shape : this.arrays[bound].shape;
  }

  /** What size expressions read. */
  given(step, kernel, scalars, counted) {
    const leaf = {}, arrays = {}, machine = this;
    for (const [name, value] of Object.entries(scalars)) leaf[`arg ${name}`] = Number(value);
    for (const [stack, n] of Object.entries(counted)) leaf[`counted $${stack}`] = n;
    for (const [name, number] of Object.entries(step.bind)) {
      const a = this.arrays[number];
      a.shape.forEach((n, axis) => { leaf[`@${name}.shape[${axis}]`] = n; });
      if (!a.shape.length) leaf[name] = this.read(number)[0];
      else arrays[name] = { shape: a.shape, get data() { return this.read ??= machine.read(number); } };
    }
    return { leaf, arrays };
  }

  size(tree, given, what) {
    const n = sizeOf(tree, given, {}, { left: MOST_SIZED });
    if (Number.isNaN(n)) throw new LaunchError(`${what} cannot be computed in the page: ${tree[1]}`);
    return Math.max(0, n);
  }

  set(at, value) { this.view.setUint32(at, value, true); this.view.setUint32(at + 4, 0, true); }

  scalar(at, dtype, value) {
    if (dtype === "u1") this.view.setUint32(at, value ? 1 : 0, true);
    else this.view[`set${DTYPES[dtype][2]}`](at, encoded(dtype, Number(value)), true);
  }

  result(at, dtype) {
    if (dtype === "u1") return this.view.getUint32(at, true) !== 0;
    return decoded(dtype, this.view[`get${DTYPES[dtype][2]}`](at, true));
  }

  /** Launches a kernel in one of its modes; `scratch`: the buffers that the launch and its gradient share. */
  launch(step, kernel, scalars, scratch, depths) {
    this.scratch = scratch;
    const given = kernel.scratch.length ? this.given(step, kernel, scalars, {}) : null;
    for (const b of kernel.scratch) {
      if (scratch[b.name]) continue;
      const shape = b.extents.map((e) => this.size(e, given, `the size of ${b.name}`)), bytes = count(shape) * b.width;
      const at = this.take(bytes);
      new Uint8Array(this.memory.buffer, at, bytes).fill(0);
      scratch[b.name] = { at, shape };
    }
    const heap = this.free, places = [];
    let here = 0, most = 0, lanes = 1, task = -1;
    kernel.stacks.forEach((s, n) => {
      if (s.task !== task) [task, here] = [s.task, 0];
      lanes = Math.max(lanes, s.lanes);
      places.push(here);
      if (s.at >= 0) {
        const slots = Math.max(depths[n], 1);
        here += (s.dtype === "u1" ? Math.ceil(slots / 32) * 4 : slots * DTYPES[s.dtype][0]) * s.lanes;
      }
      most = Math.max(most, here);
    });
    if (most) { this.take(most + 16); this.free = heap; }
    this.view = new DataView(this.memory.buffer);
    const f = kernel.frame, h = this.head;
    new Uint8Array(this.memory.buffer, f, h.seed).fill(0);
    new Uint8Array(this.memory.buffer, f + kernel.zero[0], kernel.zero[1]).fill(0);
    this.set(f + h.seed, this.program.random);
    this.set(f + h.launch, step.number);
    this.set(f + h.threads, lanes);
    this.set(f + h.lanes, 1);
    this.set(f + h.heap, heap);
    this.set(f + h.prints, this.prints);
    for (const [name, at] of Object.entries(kernel.buffers)) {
      const bound = step.bind[name];
      this.set(f + at, bound === undefined ? scratch[name].at : this.arrays[bound].at);
    }
    for (const [name, at] of Object.entries(kernel.extents)) {
      this.extent(step, name).forEach((n, axis) => this.set(f + at + 8 * axis, n));
    }
    for (const [name, [at, dtype]] of Object.entries(kernel.args)) this.scalar(f + at, dtype, scalars[name]);
    kernel.stacks.forEach((s, n) => {
      if (s.at < 0) return;
      this.set(f + s.at + h.capacity, depths[n]);
      this.set(f + s.at + h.last, Math.max(depths[n], 1) - 1);
      this.set(f + s.at + h.at, places[n]);
    });
    try {
      kernel.run(f);
    } catch (e) {
      throw new LaunchError(`WebAssembly stopped kernel ${kernel.name}: ${e.message}`);
    }
    const status = this.view.getUint32(f + h.status, true);
    if (status & ~8) throw this.failed(kernel, f);
  }

  failed(kernel, f) {
    const h = this.head, what = this.view.getUint32(f + h.what, true), kind = this.view.getUint32(f + h.failed, true);
    if (kind === 1) {
      const s = kernel.stacks[what], needed = this.view.getUint32(f + h.count, true);
      return new LaunchError(`adstack overflow in the gradient of kernel ${kernel.name}: ${needed} values for the `
        + `stack of ${s.name}, line ${s.line}`);
    }
    const [message, of, line, label, cure, types] = kernel.asserts[what];
    let k = 0;
    const value = () => k < types.length && k < 8 ? this.result(f + h.values + 8 * k, types[k++]) : "?";
    const filled = message.replace(/\{[^}]*\}/g, () => String(value()));
    const said = of === "assert" ? `assertion failed in kernel ${kernel.name}${filled && `: ${filled}`}`
      : `${filled} (kernel ${kernel.name})`;
    return new LaunchError(`${said}; line ${line}: ${label}${cure && `. ${cure[0].toUpperCase()}${cure.slice(1)}.`}`);
  }

  // --- the program

  /** The kernel for the launch of a step: one that logs an iteration where this is the launch to follow. */
  kernelFor(job, k, mode, scratch) {
    const { step, mode: followed, task, lane } = job.follow ?? {}, kernel = this.kernels[this.program.steps[k].kernel];
    if (step !== k || followed !== mode) return kernel[mode];
    const place = [BigInt(task), 0n, ...lane.map(BigInt)];
    scratch[PLACE] = { at: this.take(8 * (place.length + 8)), shape: [place.length + 8] };
    scratch[LOG] = { at: this.take(8 * ROOM), shape: [ROOM] };
    new BigInt64Array(this.memory.buffer, scratch[PLACE].at).set(place);
    return kernel.steps[mode];
  }

  /** What was logged. */
  logged(scratch) {
    const end = Number(new BigInt64Array(this.memory.buffer, scratch[PLACE].at, 2)[1]);
    return { log: new Float64Array(this.memory.buffer, scratch[LOG].at, ROOM).slice(0, Math.min(end, ROOM)), full: end > ROOM };
  }

  /** Loads the kernel that logs. */
  prepareToFollow({ step, mode }) {
    const { steps } = this.kernels[this.program.steps[step].kernel];
    this.free = this.base;
    if (!steps[mode].run) steps[mode] = this.load(steps[mode]);
    this.base = this.free;
  }

  /** Sets memory to what it is before the program. */
  prepare(values) {
    this.free = this.base;
    this.arrays.forEach((a, n) => {
      if (a.derivative) this.bits(a).fill(0);
      else this.write(n, values[n] ?? a.start);
    });
  }

  /** Runs the steps. `trail`: what the way back needs. */
  forward(job, trail, tell) {
    this.prepare(job.values);
    this.returned = [];
    this.program.steps.forEach((step, k) => {
      if (tell) tell(k, this.program.steps.length, "forward");
      const back = { step, saved: [], scratch: {} };
      const save = (number) => back.saved.push([number, this.bits(this.arrays[number]).slice()]);
      if ("write" in step) {
        if (trail) save(step.write);
        const a = this.arrays[step.write], bits = this.bits(a);
        step.data ??= unpackArray(step, a.dtype, step.at.length);
        step.at.forEach((at, n) => { bits[at] = encoded(a.dtype, step.data[n]); });
      } else {
        const from = this.free, kernel = this.kernelFor(job, k, "forward", back.scratch);
        back.scalars = this.scalars(job, step);
        if (trail) for (const name of kernel.writes) if (name in step.bind) save(step.bind[name]);
        this.launch(step, kernel, back.scalars, back.scratch, []);
        if (kernel.tasks) this.log = this.logged(back.scratch);
        this.returned = kernel.returns.map(([, at, dtype]) => this.result(kernel.frame + at, dtype));
        if (!trail) this.free = from;
      }
      trail?.push(back);
    });
  }

  scalars(job, step) {
    return { ...step.scalars, ...job.scalars[step.kernel] };
  }

  /** The loss: the array of that name, or the outputs times their seeds. */
  lossNow(job) {
    const { loss } = this.program;
    if (loss >= 0) return this.read(loss)[0];
    let sum = 0;
    this.arrays.forEach((a, n) => {
      const seed = job.seeds[n];
      if (seed) this.read(n).forEach((v, k) => { sum += v * seed[k]; });
    });
    return sum;
  }

  /** Values, gradients and depths for a job: `values` by array, `scalars` by kernel, `seeds` by output. */
  compute(job, tell) {
    const began = performance.now(), trail = [], depths = [];
    const out = { id: job.id, values: {}, gradients: {}, depths, simd: this.simd };
    if (job.follow) this.prepareToFollow(job.follow);
    this.forward(job, trail, tell);
    out.forward = performance.now() - began;
    out.loss = this.lossNow(job);
    out.returned = this.returned;
    this.arrays.forEach((a, n) => { if (a.output) out.values[n] = this.read(n); });
    if (job.follow?.mode === "forward") out.followed = { asked: job.follow, ...this.log };
    if (!differentiable(this.program)) return out;
    const back = performance.now();
    for (const [n, seed] of Object.entries(job.seeds)) if (this.arrays[n].grad >= 0) this.write(this.arrays[n].grad, seed);
    for (let k = trail.length - 1; k >= 0; k--) {
      if (tell) tell(trail.length - 1 - k, trail.length, "gradient");
      const { step, saved, scratch, scalars } = trail[k];
      if ("write" in step) {
        const grad = this.arrays[step.write].grad;
        if (grad >= 0) { const bits = this.bits(this.arrays[grad]); for (const at of step.at) bits[at] = 0; }
      } else if (this.kernels[step.kernel].reverse) {
        const kernel = this.kernelFor(job, k, "reverse", scratch);
        depths[step.kernel] = this.backwards(step, kernel, scalars, scratch, depths[step.kernel]);
        if (kernel.tasks) out.followed = { asked: job.follow, ...this.logged(scratch) };
      }
      for (const [number, bits] of saved) this.bits(this.arrays[number]).set(bits);
    }
    out.backward = performance.now() - back;
    this.arrays.forEach((a, n) => { if (a.input && a.grad >= 0) out.gradients[n] = this.read(a.grad); });
    return out;
  }

  /** The gradient of a launch; the depths of its stacks, or the greater ones of `so`. */
  backwards(step, reverse, scalars, scratch, so) {
    const { counting } = this.kernels[step.kernel], counted = {}, from = this.free;
    if (counting) {
      this.launch(step, counting, scalars, { ...scratch }, counting.stacks.map(() => 0));
      for (const [name, at, dtype] of counting.returns) {
        counted[name.replace(/\D*/, "")] = this.result(counting.frame + at, dtype);
      }
    }
    const given = this.given(step, reverse, scalars, counted);
    const depths = reverse.stacks.map((s) => this.size(s.size, given, `the depth of ${s.name}`));
    this.launch(step, reverse, scalars, { ...scratch }, depths);
    this.free = from;
    return depths.map((d, n) => Math.max(d, so?.[n] ?? 0));
  }

  /** Central differences of the loss, `width` wide, along the signs of the gradient, by the sizes in `direction`:
      [change found, change by the gradient, noise]. */
  difference(job, gradients, direction, width) {
    const losses = [1, -1].map((way) => {
      const values = { ...job.values };
      for (const [n, d] of Object.entries(direction)) {
        values[n] = this.rounded(n, (job.values[n] ?? this.arrays[n].start).map((v, k) =>
          v + way * width * d[k] * (Math.sign(gradients[n][k]) || 1)));
      }
      this.forward({ ...job, values, follow: null }, null);
      return [this.lossNow(job), values];
    });
    let expected = 0;
    for (const n of Object.keys(direction)) {
      const [up, down] = losses.map(([, values]) => values[n]);
      gradients[n].forEach((g, k) => { if (up[k] !== down[k]) expected += g * (up[k] - down[k]); });
    }
    const most = Math.max(...losses.map(([loss]) => Math.abs(loss)));
    return [losses[0][0] - losses[1][0], expected, 8 * job.eps * most];
  }
}

/** Answers jobs one after the other; a later one replaces those that wait. `say` gets what is found. The verdict waits
    until nothing is changed for a while, if the program takes long or the page's own thread computes. */
function answerer(program, say, inPage = false) {
  const machine = new Machine(program);
  let next = null, working = false, wake = () => {};
  /** Lets messages come in for some milliseconds, or until there is a job. */
  const pause = (time) => new Promise((done) => { wake = done; setTimeout(done, time); });
  async function answer(job) {
    let told = performance.now();
    const found = machine.compute(job, (at, of, way) => {
      if (performance.now() - told < 100) return;
      told = performance.now();
      say({ progress: [at, of, way] });
    });
    say(found);
    for (const [k, width] of found.gradients && Object.keys(job.direction).length ? job.widths.entries() : []) {
      await pause(!k && (inPage || found.forward > QUICK) ? SETTLED : 0);
      if (next) break;
      let move = null;
      try { move = machine.difference(job, found.gradients, job.direction, width); } catch { /* it stops there */ }
      say({ id: job.id, move, width, last: k === job.widths.length - 1 });
    }
  }
  async function work() {
    while (next) {
      const job = next;
      next = null;
      try {
        await answer(job);
      } catch (e) {
        say({ id: job.id, error: e instanceof LaunchError ? e.message : `${e.name}: ${e.message}` });
      }
    }
    working = false;
  }
  return (job) => {
    next = job;
    wake();
    if (!working) { working = true; work(); }
  };
}
