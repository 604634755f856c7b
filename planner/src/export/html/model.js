// The data of the page: nodes by number, their edges, and the runs of each lane in order of time.

/** Reads what the page holds. */
function readModel() {
  const model = JSON.parse(document.getElementById("data").textContent);
  model.count = model.nodes.id.length;
  model.edgeCount = model.edges.length / 3;
  model.isCritical = marked(model.count, model.critical_nodes);
  model.edgesOf = edgesOf(model);
  for (const picture of model.pictures) readPicture(model, picture);
  model.times = [model.measured, model.predicted].filter(Boolean);
  for (const times of model.times) unpack(model, times);
  return model;
}

/** Completes what is given of a picture: counts, marks, and which nodes are in which box. */
function readPicture(model, picture) {
  picture.count = picture.boxes.x.length;
  picture.edgeCount = picture.edges.length / 3;
  picture.isCritical = marked(picture.count, picture.critical_boxes);
  picture.isCriticalEdge = marked(picture.edgeCount, picture.critical_edges);
  picture.isBetween = marked(picture.edgeCount, picture.between_edges);
  const isFolded = picture.box_of.length > 0;
  picture.boxOf = (node) => (isFolded && node >= 0 ? picture.box_of[node] : node);
  const members = isFolded ? Array.from({ length: picture.count }, () => []) : null;
  for (let node = 0; isFolded && node < model.count; node++) members[picture.box_of[node]].push(node);
  picture.nodesOf = (box) => (box < 0 ? [] : isFolded ? members[box] : [box]);
}

function marked(length, numbers) {
  const marks = new Uint8Array(length);
  for (const number of numbers) marks[number] = 1;
  return marks;
}

/** Per node, the numbers of the edges that leave or enter it. */
function edgesOf(model) {
  const of = Array.from({ length: model.count }, () => []);
  for (let edge = 0; edge < model.edgeCount; edge++) {
    of[model.edges[3 * edge]].push(edge);
    of[model.edges[3 * edge + 1]].push(edge);
  }
  return of;
}

/** Turns packed runs into columns, and sorts them into lanes: `lanes[slice][lane]` lists runs in order of time. */
function unpack(model, times) {
  const total = times.runs.reduce((sum, packed) => sum + packed.length / 3, 0);
  const columns = { node: new Uint32Array(total), tile: new Uint32Array(total), from: new Float64Array(total), to: new Float64Array(total) };
  times.lanes = model.ranks.map((rank) => rank.lanes.map(() => []));
  times.first = new Uint32Array(model.count + 1);
  let run = 0;
  times.runs.forEach((packed, node) => {
    const lane = times.lanes[model.nodes.slice[node]][model.nodes.lane[node]];
    let tile = 0, from = 0;
    for (let i = 0; i < packed.length; i += 3, run++) {
      tile += packed[i];
      from += packed[i + 1];
      columns.node[run] = node;
      columns.tile[run] = tile;
      columns.from[run] = from;
      columns.to[run] = from + packed[i + 2];
      lane.push(run);
    }
    times.first[node + 1] = run;
  });
  times.runs = columns;
  times.count = total;
  for (const lanes of times.lanes) for (const lane of lanes) lane.sort((a, b) => columns.from[a] - columns.from[b]);
  times.why = whyOf(times);
}

/** Per run, one more than why it did not begin sooner, where it is on the critical path, and 0 elsewhere. */
function whyOf(times) {
  const why = new Uint8Array(times.count);
  for (let i = 0; i < times.path.length; i += 3) {
    const run = findRun(times, times.path[i], times.path[i + 1]);
    if (run >= 0) why[run] = times.path[i + 2] + 1;
  }
  return why;
}

/** The run of a node for a tile, or -1. */
function findRun(times, node, tile) {
  let low = times.first[node], high = times.first[node + 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times.runs.tile[middle] < tile) low = middle + 1;
    else high = middle;
  }
  return low < times.first[node + 1] && times.runs.tile[low] === tile ? low : -1;
}
