// The graph of a large plan: painted on a canvas, as much as is seen, and with as much detail as can be read.

/** Scales from which on boxes have text, and edges their real way. */
const TEXT_SCALE = 0.55;
const ROUTE_SCALE = 0.3;
/** Most straight edges of a frame; of more, every so many-th is painted. */
const MOST_EDGES = 6000;

class PaintedGraph {
  constructor(section, picture, pointAt, select, fills) {
    this.section = section;
    this.picture = picture;
    this.fills = fills;
    this.marked = -1;
    this.routes = new Array(picture.edgeCount);
    this.surface = new Surface(section.querySelector("canvas"), (context, width, height) => this.paint(context, width, height));
    listen(section, {
      drag: (dx, dy) => this.show({ ...this.view, x: this.view.x - dx / this.view.scale, y: this.view.y - dy / this.view.scale }),
      wheel: (px, py, factor) => this.zoomAt(px, py, factor),
      point: (px, py) => pointAt(picture.nodesOf(px === undefined ? -1 : this.boxAt(px, py)), -1),
      click: (px, py) => select(picture.nodesOf(this.boxAt(px, py)), -1),
    });
    this.fit();
    this.surface.paint();
  }

  /** Shows all of it, and goes on to until it is moved, whatever room it has. */
  fit() {
    const box = this.section.getBoundingClientRect();
    this.show(this.fitted(box.width, box.height));
    this.isFitted = true;
  }

  fitted(roomWidth, roomHeight) {
    const { width, height } = this.picture;
    const scale = Math.max(0.002, Math.min(roomWidth / width, roomHeight / height));
    return { scale, x: (width - roomWidth / scale) / 2, y: (height - roomHeight / scale) / 2 };
  }

  show(view) {
    this.isFitted = false;
    this.view = view;
    this.surface.ask();
  }

  zoomAt(px, py, factor) {
    const { x, y, scale: before } = this.view;
    const scale = Math.min(4, Math.max(0.002, before * factor));
    this.show({ scale, x: x + px / before - px / scale, y: y + py / before - py / scale });
  }

  zoom(factor) {
    const box = this.section.getBoundingClientRect();
    this.zoomAt(box.width / 2, box.height / 2, factor);
  }

  mark(node) {
    this.marked = this.picture.boxOf(node);
    this.surface.ask();
  }

  /** Brings a node into sight. */
  reveal(node) {
    const box = this.section.getBoundingClientRect();
    const scale = Math.max(this.view.scale, TEXT_SCALE);
    const { x, y, width } = this.picture.boxes;
    const at = this.picture.boxOf(node);
    this.show({ scale, x: x[at] + width[at] / 2 - box.width / 2 / scale, y: y[at] - box.height / 2 / scale });
  }

  boxAt(px, py) {
    const { boxes, box_height: height, count } = this.picture;
    const [x, y] = [this.view.x + px / this.view.scale, this.view.y + py / this.view.scale];
    for (let at = 0; at < count; at++) {
      const [dx, dy] = [x - boxes.x[at], y - boxes.y[at]];
      if (dx >= 0 && dy >= 0 && dx <= boxes.width[at] && dy <= height) return at;
    }
    return -1;
  }

  paint(context, width, height) {
    if (this.isFitted) this.view = this.fitted(width, height);
    const { scale, x, y } = this.view;
    const seen = { left: x, top: y, right: x + width / scale, bottom: y + height / scale };
    const ink = colours();
    context.save();
    context.scale(scale, scale);
    context.translate(-x, -y);
    this.paintBands(context, ink, seen, scale);
    if (scale >= ROUTE_SCALE) this.paintRoutes(context, ink, seen);
    else this.paintStraight(context, ink, seen, scale);
    this.paintNodes(context, ink, seen, scale);
    context.restore();
    if (x > 18) this.paintRanks(context, ink, height);
  }

  paintBands(context, ink, seen, scale) {
    for (const [name, top, height] of this.picture.frames) {
      context.strokeStyle = context.fillStyle = ink.between;
      context.lineWidth = 1;
      context.strokeRect(3, top, this.picture.width - 6, height);
      context.font = `bold 11px ${FONT}`;
      context.fillText(`host ${name}`, 12, top + 14);
    }
    this.picture.bands.forEach(({ top, height, lanes }, slice) => {
      if (top > seen.bottom || top + height < seen.top) return;
      context.fillStyle = ink.band;
      context.strokeStyle = ink.line;
      context.lineWidth = 1;
      context.fillRect(8, top, this.picture.width - 16, height);
      context.strokeRect(8, top, this.picture.width - 16, height);
      const size = Math.min(height * 0.8, Math.max(12, 11 / scale));
      context.fillStyle = ink.ink;
      context.font = `bold ${size}px ${FONT}`;
      context.fillText(this.picture.names[slice], 18, top + size + 4, 150);
      if (scale >= TEXT_SCALE) this.paintLanes(context, ink, top, lanes);
    });
  }

  /** Which ranks are seen, at the left edge, where their names are out of sight. */
  paintRanks(context, ink, height) {
    const { scale, y } = this.view;
    let free = 0;
    context.font = `bold 11px ${FONT}`;
    this.picture.bands.forEach(({ top, height: high }, slice) => {
      const middle = (top + high / 2 - y) * scale;
      if (middle < free || middle > height) return;
      free = middle + 15;
      context.fillStyle = ink.page;
      context.globalAlpha = 0.85;
      context.fillRect(0, middle - 8, 62, 15);
      context.globalAlpha = 1;
      context.fillStyle = ink.ink;
      context.fillText(this.picture.names[slice], 5, middle + 4);
    });
  }

  paintLanes(context, ink, top, lanes) {
    context.font = `11px ${FONT}`;
    lanes.forEach(([lane, name], row) => {
      context.fillStyle = lane === null ? ink.line : this.fills[lane % this.fills.length];
      context.fillRect(18, top + 24 + 14 * row, 10, 10);
      context.fillStyle = ink.quiet;
      context.fillText(name, 34, top + 33 + 14 * row);
    });
  }

  /** The edges that may be seen, by what is to be called with (edge, from, to, tie). */
  eachEdge(seen, call) {
    const { edges, boxes: nodes, edgeCount, box_height: high } = this.picture;
    for (let edge = 0; edge < edgeCount; edge++) {
      const [from, to] = [edges[3 * edge], edges[3 * edge + 1]];
      const [a, b] = [nodes.y[from], nodes.y[to]];
      if (nodes.x[from] > seen.right || nodes.x[to] < seen.left) continue;
      if (Math.min(a, b) > seen.bottom || Math.max(a, b) + high < seen.top) continue;
      call(edge, from, to, edges[3 * edge + 2]);
    }
  }

  paintRoutes(context, ink, seen) {
    const styles = [[ink.lane, 1], [ink.dep, 1.1], [ink.message, 1.6], [ink.between, 2.2]];
    const late = [];
    this.eachEdge(seen, (edge, from, to, tie) => {
      if (this.picture.isCriticalEdge[edge] || this.isNear(from, to)) late.push([edge, from, to]);
      else this.paintRoute(context, edge, ...styles[this.picture.isBetween[edge] ? 3 : Math.min(tie, 2)]);
    });
    for (const [edge, from, to] of late) {
      this.paintRoute(context, edge, this.isNear(from, to) ? ink.near : ink.critical, 2.8);
    }
  }

  isNear(from, to) {
    return this.marked >= 0 && (from === this.marked || to === this.marked);
  }

  paintRoute(context, edge, colour, width) {
    const route = (this.routes[edge] ??= readRoute(this.picture.routes[edge]));
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = width;
    context.stroke(route.path);
    const [x, y, size] = [route.x, route.y, 3 + width];
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x - 2 * size, y - size);
    context.lineTo(x - 2 * size, y + size);
    context.fill();
  }

  paintStraight(context, ink, seen, scale) {
    const { boxes: nodes, box_height: high, isCriticalEdge, isBetween } = this.picture;
    const [plain, between, late] = [[], [], []];
    this.eachEdge(seen, (edge, from, to, tie) => {
      if (isCriticalEdge[edge] || this.isNear(from, to)) late.push([from, to]);
      else if (tie > 1) (isBetween[edge] ? between : plain).push([from, to]);
    });
    const line = ([from, to]) => {
      context.moveTo(nodes.x[from] + nodes.width[from], nodes.y[from] + high / 2);
      context.lineTo(nodes.x[to], nodes.y[to] + high / 2);
    };
    context.globalAlpha = 0.35;
    context.lineWidth = 0.8 / scale;
    for (const [edges, colour] of [[plain, ink.message], [between, ink.between]]) {
      const step = Math.ceil(edges.length / MOST_EDGES);
      context.beginPath();
      for (let i = 0; i < edges.length; i += step) line(edges[i]);
      context.strokeStyle = colour;
      context.stroke();
    }
    context.globalAlpha = 1;
    for (const [from, to] of late) {
      context.beginPath();
      line([from, to]);
      context.strokeStyle = this.isNear(from, to) ? ink.near : ink.critical;
      context.lineWidth = 2 / scale;
      context.stroke();
    }
  }

  paintNodes(context, ink, seen, scale) {
    const { boxes: nodes, box_height: high, isCritical, count } = this.picture;
    for (let node = 0; node < count; node++) {
      const [x, y, width] = [nodes.x[node], nodes.y[node], nodes.width[node]];
      if (x > seen.right || y > seen.bottom || x + width < seen.left || y + high < seen.top) continue;
      context.fillStyle = nodes.colour[node] === null ? "#eceef1" : this.fills[nodes.colour[node]];
      context.fillRect(x, y, width, high);
      if (scale >= 0.12 || isCritical[node] || node === this.marked) this.outline(context, ink, node, scale);
      if (scale >= TEXT_SCALE) this.paintText(context, node);
    }
  }

  outline(context, ink, node, scale) {
    const { boxes: nodes, box_height: high, isCritical } = this.picture;
    const colour = isCritical[node] ? ink.critical : ink["box-line"];
    context.strokeStyle = node === this.marked ? ink.ink : colour;
    context.lineWidth = node === this.marked ? 3 / Math.min(scale, 1) : isCritical[node] ? 2.2 / Math.min(scale, 1) : 0.8;
    context.strokeRect(nodes.x[node], nodes.y[node], nodes.width[node], high);
  }

  paintText(context, node) {
    const { boxes: nodes } = this.picture;
    context.fillStyle = "#15181d";
    nodes.lines[node].forEach((line, i) => {
      context.font = `${i ? "" : "bold "}11px ${FONT}`;
      context.fillText(line, nodes.x[node] + 7, nodes.y[node] + 14 + 13 * i);
    });
  }
}

/** Path data as a path and the place where it ends. */
function readRoute(text) {
  const numbers = text.match(/[\d.]+/g).map(Number);
  const y = text.includes("C") ? numbers.at(-1) : numbers[1];
  const x = text.includes("C") ? numbers.at(-2) : numbers.at(-1);
  return { path: new Path2D(text), x, y };
}
