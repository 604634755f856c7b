// Joins the graph, the times and the details. What became of it is said in attributes of the root element: data-drawn, or data-error.

const root = document.documentElement;

/** What the marks on runs mean. */
const LEGEND = ["in a run: node · tile", "red: critical path of the whole call"];

function fail(what) {
  root.dataset.error = String(what);
}

function start() {
  const begun = performance.now();
  const model = readModel();
  const details = document.getElementById("details");
  const views = [];
  let selected = { node: -1, tile: -1 };

  const markAll = ({ node, tile }) => {
    for (const view of views) view.mark(node, tile);
  };
  const pointAt = (node, tile) => {
    markAll(node < 0 ? selected : { node, tile });
    showDetails(model, details, node, tile);
  };
  const select = (from) => (node, tile) => {
    selected = { node, tile };
    markAll(selected);
    if (node >= 0) for (const view of views) if (view !== from()) view.reveal(node);
  };

  // The graph has the room that the times leave, so it comes last.
  const note = document.getElementById("times-note");
  if (note) note.textContent = [...model.times.map((each) => each.note), ...LEGEND].join(" · ");
  const times = model.times.length ? new Times(document.getElementById("times"), model, pointAt, select(() => times)) : null;
  if (times) views.push(times);
  const section = document.getElementById("graph");
  const Graph = section.querySelector("svg") ? PictureGraph : PaintedGraph;
  const graph = new Graph(section, model, pointAt, select(() => graph));
  views.push(graph);

  connect(model, graph, times, details);
  root.dataset.drawn = `${model.count} nodes`;
  root.dataset.runs = model.times.map((each) => each.count).join(" ");
  root.dataset.took = `${Math.round(performance.now() - begun)} ms`;
}

function connect(model, graph, times, details) {
  const does = {
    fit: () => graph.fit(),
    in: () => graph.zoom(1.4),
    out: () => graph.zoom(1 / 1.4),
    all: () => times.fit(),
  };
  for (const button of document.querySelectorAll("button")) button.addEventListener("click", does[button.dataset.do]);
  document.getElementById("scale")?.addEventListener("change", (event) => times.setSameScale(event.target.checked));
  addEventListener("pointermove", (event) => placeBeside(details, event));
}

/** Fills the box of details, or hides it where `node` is -1. */
function showDetails(model, box, node, tile) {
  box.hidden = node < 0;
  if (node < 0) return;
  const { heading, rows } = detailsOf(model, node, tile);
  const title = document.createElement("b");
  title.textContent = heading;
  const table = document.createElement("table");
  for (const [name, words] of rows) {
    const row = table.insertRow();
    row.appendChild(document.createElement("th")).textContent = name;
    row.insertCell().textContent = words;
  }
  box.replaceChildren(title, table);
}

/** Beside the pointer, and within the window. */
function placeBeside(box, event) {
  if (box.hidden) return;
  const { width, height } = box.getBoundingClientRect();
  const beside = (at, size, all) => (at + 16 + size > all ? Math.max(4, at - size - 12) : at + 16);
  box.style.left = `${beside(event.clientX, width, innerWidth)}px`;
  box.style.top = `${beside(event.clientY, height, innerHeight)}px`;
}

addEventListener("error", (event) => fail(event.message));
addEventListener("unhandledrejection", (event) => fail(event.reason));
try {
  start();
} catch (error) {
  fail(error);
  throw error;
}
