// Details in words, as rows of a table; and times for people.

/** A time with a unit that suits it. */
function timeWords(ns) {
  const size = Math.abs(ns);
  if (size < 1e3) return `${Math.round(ns)} ns`;
  if (size < 1e6) return `${(ns / 1e3).toFixed(size < 1e5 ? 2 : 1)} µs`;
  if (size < 1e9) return `${(ns / 1e6).toFixed(2)} ms`;
  return `${(ns / 1e9).toFixed(3)} s`;
}

/** What there is to say of a node, and of one tile of it where `tile` is not -1: a heading and rows of two words. */
function detailsOf(model, node, tile) {
  const { nodes, ranks } = model;
  const rank = ranks[nodes.slice[node]];
  const lane = nodes.lane[node];
  const rows = [
    ["lane", `${lane}: ${rank.lanes[lane]}`],
    ["takes", nodes.sources[node]],
    ["gives", nodes.sinks[node]],
    ["bytes", nodes.size[node] || "known to their rank only"],
    ["after", neighbours(model, node, (from, to, tie) => (to === node && tie === 1 ? from : -1))],
    ["messages from", neighbours(model, node, (from, to, tie) => (to === node && tie > 1 ? from : -1))],
    ["messages to", neighbours(model, node, (from, to, tie) => (from === node && tie > 1 ? to : -1))],
  ];
  for (const times of model.times) rows.push(...timeRows(model, times, node, tile));
  if (model.isCritical[node]) rows.push(["critical", "on the longest way of one tile through the loop body"]);
  const host = rank.host ? ` on ${rank.host}` : "";
  const heading = `rank ${rank.rank}${host}, node ${nodes.id[node]}: ${model.kinds[nodes.kind[node]]}`;
  return { heading, rows: rows.filter(([, words]) => words) };
}

/** The same of several nodes of a kind that are shown as one. */
function detailsOfMany(model, list) {
  const { nodes, ranks } = model;
  const rank = ranks[nodes.slice[list[0]]];
  const flow = (node) => [`node ${nodes.id[node]}`, `${nodes.sources[node]} → ${nodes.sinks[node]}`];
  const rows = list.slice(0, 8).map(flow);
  if (list.length > 8) rows.push(["", `and ${list.length - 8} more`]);
  rows.push(["", "click: unfold"]);
  return { heading: `rank ${rank.rank}: ${list.length} × ${model.kinds[nodes.kind[list[0]]]}`, rows };
}

/** The other nodes of some of a node's edges, at most eight by name. */
function neighbours(model, node, other) {
  const found = new Set();
  for (const edge of model.edgesOf[node]) {
    const at = other(model.edges[3 * edge], model.edges[3 * edge + 1], model.edges[3 * edge + 2]);
    if (at >= 0) found.add(at);
  }
  const own = model.nodes.slice[node];
  const name = (at) => {
    const slice = model.nodes.slice[at];
    return slice === own ? `node ${model.nodes.id[at]}` : `rank ${model.ranks[slice].rank} node ${model.nodes.id[at]}`;
  };
  const names = [...found].slice(0, 8).map(name);
  return names.join(", ") + (found.size > 8 ? ` and ${found.size - 8} more` : "");
}

function timeRows(model, times, node, tile) {
  const word = times === model.measured ? "measured" : "predicted";
  const [first, end] = [times.first[node], times.first[node + 1]];
  if (first === end) return [[word, times === model.measured ? "not in the trace" : ""]];
  const { from, to } = times.runs;
  const run = tile < 0 ? -1 : findRun(times, node, tile);
  if (run >= 0) {
    const why = times.why[run] ? `; critical: it began ${times.whys[times.why[run] - 1]}` : "";
    return [[word, `tile ${tile} from ${timeWords(from[run])} to ${timeWords(to[run])}, ${timeWords(to[run] - from[run])}${why}`]];
  }
  let [start, stop, busy] = [Infinity, 0, 0];
  for (let i = first; i < end; i++) {
    start = Math.min(start, from[i]);
    stop = Math.max(stop, to[i]);
    busy += to[i] - from[i];
  }
  const tiles = end - first;
  return [[word, `from ${timeWords(start)} to ${timeWords(stop)}, ${tiles} tile${tiles > 1 ? "s" : ""} of ${timeWords(busy / tiles)}`]];
}
