// The difference of two listings, in which renumbered values count as equal; changed words are marked. The pairing is
// that of `diff.py`.

const ID = /(?<![\w.])[%$#]\d+\b/g, NEXT = / next %\d+/, WORD = /\s+|[%$@#]?[\w.]+|[^]/g, MARKED = 400, QUADRATIC = 1e6;
const SIGNS = { amp: "&", lt: "<", gt: ">", quot: '"', "#x27": "'" };
const plain = (html) => html.replace(/<[^>]*>/g, "").replace(/&(#?\w+);/g, (_, name) => SIGNS[name]);

/** The HTML of a listing that shows how the second of two listings (as HTML) differs from the first. */
function difference(before, after) {
  const box = document.createElement("div");
  const [left, right] = [before, after].map((html) => {
    box.innerHTML = html;
    const data = box.firstElementChild?.dataset.lines;
    return data && JSON.parse(data);
  });
  if (!left || !right) return left ? after : before; // a sentence instead of a listing
  const [a, b] = [left, right].map((side) => side.t.map((x) => plain(x.replace(/^\S+ \S+ \S+ /, ""))));
  const h = hunks(a, b);
  for (const [tag, i, j, k, m] of h) {
    for (let n = 0; tag === "change" && j - i + m - k <= MARKED && n < Math.min(j - i, m - k); n++) {
      const [gone, came] = changedWords(a[i + n], b[k + n]);
      left.t[i + n] = marked(left.t[i + n], gone);
      right.t[k + n] = marked(right.t[k + n], came);
    }
  }
  const host = box.firstElementChild;
  host.dataset.lines = JSON.stringify({ t: left.t, n: left.n, r: { t: right.t }, h });
  host.setAttribute("aria-label", `what changed: ${host.getAttribute("aria-label")}`);
  return box.innerHTML;
}

/** Two texts cut into equal and changed ranges: [tag, left begin, left end, right begin, right end]. */
function hunks(before, after) {
  const [a, b] = [before, after].map((side) => side.map((x) => x.replace(NEXT, "")));
  const to = new Map(), back = new Map(), out = [];
  const agree = (map, x, y) => { if (!map.has(x)) map.set(x, y); return map.get(x) === y; };
  const same = between(paired(a, b), a, b, (x) => x.replace(ID, "%")).filter(([i, j]) => {
    const [x, y] = [a[i], b[j]].map((text) => (text.match(ID) ?? []).map((id) => id.slice(1)));
    return x.every((id, n) => agree(to, id, y[n]) && agree(back, y[n], id));
  });
  let i = 0, j = 0;
  for (const [p, q] of [...same, [a.length, b.length]]) {
    if (p > i || q > j) out.push(["change", i, p, j, q]);
    const last = out.at(-1);
    if (p < a.length && last?.[0] === "equal") { last[2]++; last[4]++; } else if (p < a.length) out.push(["equal", p, p + 1, q, q + 1]);
    i = p + 1;
    j = q + 1;
  }
  return out;
}

/** Pairs of equal entries, ascending on both sides: the common head and tail, entries that occur once, and between these
    the longest common subsequence. */
function paired(a, b) {
  const least = Math.min(a.length, b.length), pairs = [];
  let head = 0, tail = 0;
  while (head < least && a[head] === b[head]) pairs.push([head, head++]);
  while (tail < least - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  const x = a.slice(head, a.length - tail), y = b.slice(head, b.length - tail), once = anchors(x, y);
  const middle = once.length ? between(once, x, y) : x.length * y.length <= QUADRATIC ? longest(x, y) : [];
  for (const [p, q] of middle) pairs.push([head + p, head + q]);
  for (let n = tail; n > 0; n--) pairs.push([a.length - n, b.length - n]);
  return pairs;
}

/** The pairs, and pairs of entries with equal keys in the gaps between them. */
function between(pairs, a, b, key = (x) => x) {
  const out = [];
  let i = 0, j = 0;
  for (const [p, q] of [...pairs, [a.length, b.length]]) {
    if (i < p && j < q) for (const [x, y] of paired(a.slice(i, p).map(key), b.slice(j, q).map(key))) out.push([i + x, j + y]);
    if (p < a.length) out.push([p, q]);
    i = p + 1;
    j = q + 1;
  }
  return out;
}

/** The longest ascending sequence of pairs of entries that occur once on each side. */
function anchors(a, b) {
  const places = (side) => side.reduce((map, x, n) => map.set(x, map.has(x) ? -1 : n), new Map());
  const right = places(b), ends = [], found = [];
  for (const [x, n] of places(a)) {
    const m = right.get(x) ?? -1;
    if (n < 0 || m < 0) continue;
    let low = 0, high = ends.length;
    while (low < high) { const k = (low + high) >> 1; if (ends[k].m < m) low = k + 1; else high = k; }
    ends[low] = { n, m, before: ends[low - 1] };
  }
  for (let x = ends.at(-1); x; x = x.before) found.push([x.n, x.m]);
  return found.reverse();
}

/** The longest common subsequence, as pairs. */
function longest(a, b) {
  const wide = b.length + 1, most = new Uint32Array((a.length + 1) * wide), out = [];
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) {
    const at = i * wide + j;
    most[at] = a[i] === b[j] ? most[at + wide + 1] + 1 : Math.max(most[at + wide], most[at + 1]);
  }
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) out.push([i++, j++]);
    else if (most[(i + 1) * wide + j] >= most[i * wide + j + 1]) i++;
    else j++;
  }
  return out;
}

/** For each of two lines an array: which characters belong to words that the other line lacks. Empty arrays if the lines
    have little in common. */
function changedWords(left, right) {
  const sides = [left.match(WORD) ?? [], right.match(WORD) ?? []], pairs = longest(...sides);
  if (4 * pairs.length < sides[0].length + sides[1].length) return [[], []];
  return sides.map((words, side) => {
    const same = new Set(pairs.map((pair) => pair[side]));
    return words.flatMap((word, n) => Array(word.length).fill(!same.has(n)));
  });
}

/** A line of a listing with a `mark` element around the chosen characters of its text. */
function marked(line, which) {
  const [, head, html] = /^(\S+ \S+ \S+ )([^]*)$/.exec(line);
  let at = 0;
  const told = html.replace(/<[^>]*>|&#?\w+;|[^]/g, (x) => x.length > 1 && x[0] === "<" ? x : which[at++] ? `<mark>${x}</mark>` : x);
  return head + told.replaceAll("</mark><mark>", "");
}
