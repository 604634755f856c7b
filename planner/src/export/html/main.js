// Joins the graph, the times and the details. What became of it is said in attributes of the root element: data-drawn, or data-error.

const root = document.documentElement;

/** What the marks on runs mean. */
const LEGEND = ["in a run: node · tile", "red: critical path of the whole call", "click on a rank: fold or unfold its lanes"];

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
  // What is pointed at is a node, several in one box, or nothing.
  const pointAt = (nodes, tile) => {
    markAll(nodes.length ? { node: nodes[0], tile } : selected);
    showDetails(model, details, nodes, tile);
  };
  const select = (from) => (nodes, tile) => {
    const node = nodes.length ? nodes[0] : -1;
    selected = { node, tile };
    if (nodes.length > 1) graphs.unfold();
    markAll(selected);
    if (node >= 0) for (const view of views) if (view !== from() || nodes.length > 1) view.reveal(node);
  };

  // The graph has the room that the times leave, so it comes last.
  const note = document.getElementById("times-note");
  if (note) note.textContent = [...model.times.map((each) => each.note), ...LEGEND].join(" · ");
  const times = model.times.length ? new Times(document.getElementById("times"), model, pointAt, select(() => times)) : null;
  if (times) views.push(times);
  const graphs = new Graphs(model, pointAt, select(() => graphs));
  views.push(graphs);

  connect(graphs, times, details);
  root.dataset.drawn = `${model.count} nodes`;
  root.dataset.runs = model.times.map((each) => each.count).join(" ");
  root.dataset.took = `${Math.round(performance.now() - begun)} ms`;
}

function connect(graph, times, details) {
  const does = {
    fit: () => graph.fit(),
    in: () => graph.zoom(1.4),
    out: () => graph.zoom(1 / 1.4),
    all: () => times.fit(),
    fold: () => graph.turn(),
  };
  for (const button of document.querySelectorAll("button")) button.addEventListener("click", does[button.dataset.do]);
  document.getElementById("scale")?.addEventListener("change", (event) => times.setSameScale(event.target.checked));
  addEventListener("pointermove", (event) => placeBeside(details, event));
}

/** Fills the box of details, or hides it where there are no nodes to speak of. */
function showDetails(model, box, nodes, tile) {
  box.hidden = !nodes.length;
  if (!nodes.length) return;
  const { heading, rows } = nodes.length > 1 ? detailsOfMany(model, nodes) : detailsOf(model, nodes[0], tile);
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
