// Searches in the parts of a pane, and shows the list of keys.

const HELP = [
  ["Tab, Shift Tab", "from one control to the next; lists, listings and graphs are one stop each"],
  ["1 … 9, 0", "the tab of that number, the tenth"],
  ["← →, Home, End", "on tabs and choices: the next, the first, the last"],
  ["↑ ↓, Page Up, Page Down, Home, End", "in a listing, list, table or graph: another line or block"],
  ["Enter, Space", "mark the related lines, in all panes; again: remove the marks; on a fold: open it"],
  ["/", "search where the focus is; Enter: the next hit, Shift Enter: the one before, Escape: end"],
  ["+ − 0", "in a graph: larger, smaller, all of it; Shift and arrows move it; f folds or opens a loop"],
  ["← →", "on a slider: less, more"],
  ["w", "the full window; Escape: back into the page"],
  ["← → on the bar between two columns", "a wider or narrower column"],
  ["?", "these keys; Escape closes them"],
];

/** Shows the keys in a dialog; Escape, the button and a click beside it close it. */
function help(root) {
  const rows = HELP.map(([k, v]) => make("tr", {}, make("th", { scope: "row" }, k), make("td", {}, v)));
  const box = make("dialog", {
    class: "keys", "aria-label": "Keys", closedby: "any", close: () => box.remove(), keydown: (e) => e.stopPropagation(),
  }, make("h4", {}, "Keys"), make("table", { class: "tb" }, make("tbody", {}, ...rows)),
    make("button", { type: "button", class: "ch", click: () => box.close() }, "close"));
  root.append(box);
  box.showModal();
}

/** Marks elements outside of listings and graphs that contain the text; returns functions that scroll to
    them. */
function searchElements(panel, text) {
  for (const x of panel.querySelectorAll(".hit:not(.lines *, .graph *)")) x.classList.remove("hit");
  if (!text) return [];
  const found = [...panel.querySelectorAll("tr, .leaf, summary, .ps, p, h4, .chip, .pre")].filter((x) =>
    !x.closest(".lines, .graph, .search") && x.getClientRects().length
      && x.textContent.toLowerCase().includes(text.toLowerCase()));
  return found.map((x) => {
    x.classList.add("hit");
    return () => x.scrollIntoView({ block: "nearest" });
  });
}

/** Opens the search bar of `panel` for all `parts()` (objects with a `search`), or for the part that has the
    focus. */
function searchBar(panel, parts) {
  const old = panel.parentElement.querySelector(".search"), back = focused(panel);
  if (old) { old.querySelector("input").focus(); return; }
  const own = parts().filter((p) => p.host.contains(back)), over = () => own.length ? own : parts();
  const where = own.length ? own[0].label : "this pane";
  const told = make("span", { role: "status", "aria-live": "polite" });
  const input = make("input", { type: "search", "aria-label": `Search in ${where}`, input: () => find() });
  const bar = make("div", { class: "search" }, make("label", { class: "tg" }, "search ", input), told);
  let hits = [], at = 0;
  const go = (to) => {
    at = to;
    hits[at]?.();
    told.textContent = hits.length ? `${at + 1} of ${hits.length}` : input.value ? "not found" : "";
  };
  const find = () => {
    hits = over().flatMap((p) => p.search(input.value.trim()));
    if (!own.length) hits.push(...searchElements(panel, input.value.trim()));
    go(0);
  };
  const close = () => {
    over().forEach((p) => p.search(""));
    searchElements(panel, "");
    bar.remove();
    (back.isConnected ? back : panel).focus();
  };
  const next = (step) => go((at + step + hits.length) % Math.max(hits.length, 1));
  bar.addEventListener("keydown", (e) => {
    pressed(e, { Enter: () => next(e.shiftKey ? -1 : 1), Escape: close });
    e.stopPropagation();
  });
  panel.before(bar);
  input.focus();
}
