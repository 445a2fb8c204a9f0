// --- an exercise: the reader writes the derivative as a formula, and the page compares it with the gradient

const CALLS = Object.fromEntries(["sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "exp", "log", "sqrt", "abs", "floor",
  "ceil", "sign", "min", "max", "pow"].map((name) => [name, Math[name]]));
const INDICES = ["i", "j", "k", "l"], POWER = ["**", "^"];

/** Makes a formula a function of an element's index. `names`: the values of names, each as such a function. */
function formula(text, names) {
  const words = text.match(/\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|[a-z_][\w.]*|\*\*|\S/gi) ?? [];
  const wrong = (why) => { throw new Error(why); };
  const take = (...any) => any.includes(words[0]) ? words.shift() : undefined;
  const need = (word) => take(word) ?? wrong(words.length ? `${word} is missing before ${words[0]}` : `${word} is missing at the end`);
  function list(end) {
    const out = [];
    while (!take(end)) { if (out.length) need(","); out.push(sum()); }
    return out;
  }
  function atom() {
    if (take("(")) { const inner = sum(); need(")"); return inner; }
    const word = words.shift() ?? wrong("it ends too early");
    if (/^[\d.]/.test(word)) return () => Number(word);
    if (!/^[a-z_]/i.test(word)) wrong(`${word} is out of place`);
    if (take("(")) {
      const f = CALLS[word] ?? wrong(`there is no function ${word}; there are ${Object.keys(CALLS).join(", ")}`), given = list(")");
      return (at) => f(...given.map((x) => x(at)));
    }
    const axis = INDICES.indexOf(word), index = take("[") ? list("]") : [];
    const own = Object.hasOwn(names, word) ? names[word] : word === "pi" ? () => Math.PI
      : axis >= 0 ? (_, at) => at[axis] ?? NaN : wrong(`nothing is called ${word}; there are ${[...Object.keys(names), "i", "pi"].join(", ")}`);
    return (at) => own(index.map((x) => x(at)), at);
  }
  function signed() {
    if (take("-")) { const x = signed(); return (at) => -x(at); }
    if (take("+")) return signed();
    const x = atom();
    if (!take(...POWER)) return x;
    const y = signed();
    return (at) => x(at) ** y(at);
  }
  const chain = (inner, signs) => () => {
    let x = inner();
    for (let sign; (sign = take(...Object.keys(signs)));) { const [a, y, op] = [x, inner(), signs[sign]]; x = (at) => op(a(at), y(at)); }
    return x;
  };
  const product = chain(signed, { "*": (a, b) => a * b, "/": (a, b) => a / b, "%": (a, b) => a - b * Math.floor(a / b) });
  const sum = chain(product, { "+": (a, b) => a + b, "-": (a, b) => a - b });
  const whole = sum();
  return words.length ? wrong(`${words[0]} is out of place`) : whole;
}

/** The fold in which the reader writes the derivative by an input. */
class Exercise {
  constructor(panel, fold) {
    const { program, checked } = panel, of = program.loss >= 0 ? program.arrays[program.loss].name : "(outputs)";
    this.panel = panel;
    const judge = () => this.judge();
    this.by = make("select", { "aria-label": "derivative by", change: judge }, ...checked.map((n) => {
      const { name, shape } = program.arrays[n], index = shape.length ? `[${INDICES.slice(0, shape.length).join(", ")}]` : "";
      return make("option", { value: n }, `d${of}/d${name}${index}`);
    }));
    this.text = make("input", { type: "text", size: 30, spellcheck: "false", placeholder: "for instance 2 * x[i]", "aria-label": "your derivative", input: judge });
    this.says = make("span", { class: "ruling", role: "status" });
    const what = make("p", { class: "ms" }, "A formula of what the kernel reads, with i for the place of the element; or a number. It is compared with the gradient of "
      + "each element, on the numbers of now.");
    fold("Write the derivative yourself", "half", make("p", { class: "row" }, make("label", {}, this.by, " = ", this.text)), make("p", {}, this.says), what);
  }

  /** What a formula can name: the inputs, by their index, and the scalar arguments. */
  get names() {
    const { panel } = this, { program } = panel, names = {};
    program.kernels.forEach(({ forward }, k) => {
      const { scalars } = program.steps.find((s) => s.kernel === k);
      for (const name of Object.keys(forward.args)) names[name] = () => Number(panel.scalars[k]?.[name] ?? scalars[name]);
    });
    program.arrays.forEach(({ name, shape, input }, n) => {
      if (!input) return;
      names[name] = (index) => {
        const at = shape.reduce((sum, size, axis) => index[axis] >= 0 && index[axis] < size ? sum * size + Math.floor(index[axis]) : NaN, 0);
        return (panel.values[n] ?? panel.starts[n])[at] ?? NaN;
      };
    });
    return names;
  }

  judge() {
    const { panel } = this, n = Number(this.by.value), { shape } = panel.program.arrays[n], wanted = panel.found?.gradients[n];
    let told = "", right = false;
    if (wanted && this.text.value.trim()) try {
      const mine = formula(this.text.value, this.names), close = Math.sqrt(panel.eps), bad = [];
      wanted.forEach((want, k) => {
        const got = mine(place(shape, k));
        if (!(Math.abs(got - want) <= close * Math.max(Math.abs(want), 1e-3))) bad.push([k, got, want]);
      });
      right = !bad.length;
      const [[k, got, want] = []] = bad, where = shape.length ? ` at [${k === undefined ? "" : place(shape, k).join(", ")}]` : "";
      told = right ? `Right${wanted.length > 1 ? `, for all ${wanted.length.toLocaleString("en")} elements` : ""}.`
        : `Not yet:${where} yours is ${digits(got)}, and the gradient ${digits(want)}; ${bad.length} of ${wanted.length} differ.`;
    } catch (e) { told = `This is no formula: ${e.message}.`; }
    this.says.textContent = told;
    this.says.className = `ruling ${right ? "right" : told ? "wrong" : ""}`;
  }
}
