// Unpacks a bundle of the inspector, which `widgets/pack.py` makes.

async function unpack(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const data = await new Response(stream).json();
  if (!document.getElementById("qdi-style")) {
    document.head.append(Object.assign(document.createElement("style"), { id: "qdi-style", textContent: data.style }));
  }
  const url = URL.createObjectURL(new Blob([data.script], { type: "text/javascript" }));
  const [pieces, made] = data.answers, answers = (request) => made[request]?.map((n) => pieces[n]).join("\n");
  return { ...data, ...(await import(url)), answers };
}
