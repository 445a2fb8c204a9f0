// Unpacks a bundle of the inspector, which `widgets/pack.py` makes. `el`: where the inspector will stand; in a shadow
// root, which the document's style sheets do not reach, the style sheet goes into that root.

async function unpack(bytes, el = document.body) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const data = await new Response(stream).json();
  const root = el.getRootNode() instanceof ShadowRoot ? el.getRootNode() : document;
  if (!root.getElementById("qdi-style")) {
    (root.head ?? root).append(Object.assign(document.createElement("style"), { id: "qdi-style", textContent: data.style }));
  }
  const url = URL.createObjectURL(new Blob([data.script], { type: "text/javascript" }));
  const [pieces, made] = data.answers, answers = (request) => made[request]?.map((n) => pieces[n]).join("\n");
  return { ...data, ...(await import(url)), answers };
}
