// The lanes of every rank over time: what was measured above what is predicted.

const GUTTER = 190;
const AXIS = 22;
/** Heights of a row, between which it is as high as there is room. */
const LEAST_ROW = 15;
const MOST_ROW = 24;
const RANK_GAP = 9;
/** Ranks of more lanes are folded at first. */
const MANY_LANES = 8;

class Times {
  constructor(section, model, pointAt, select) {
    this.section = section;
    this.model = model;
    this.marked = { node: -1, tile: -1 };
    this.isSameScale = document.getElementById("scale")?.checked ?? true;
    this.folded = model.ranks.map((rank) => rank.lanes.length > MANY_LANES);
    this.layOut();
    this.surface = new Surface(section.querySelector("canvas"), (context, width, height) => this.paint(context, width, height));
    listen(section, {
      drag: (dx, dy) => this.show({ ...this.view, start: this.view.start - dx / this.breadth() / this.view.zoom, top: this.view.top - dy }),
      wheel: (px, py, factor, dy) => (dy ? this.show({ ...this.view, top: this.view.top + dy }) : this.zoomAt(px, factor)),
      point: (px, py) => {
        const [node, tile] = px === undefined ? [-1, -1] : this.runAt(px, py);
        pointAt(node < 0 ? [] : [node], tile);
      },
      click: (px, py) => {
        if (px < GUTTER) return this.turn(py);
        const [node, tile] = this.runAt(px, py);
        select(node < 0 ? [] : [node], tile);
      },
    });
    this.fit();
    this.surface.paint();
  }

  /** Gives each lane its row, and each folded rank one. */
  layOut() {
    this.rows = rowsOf(this.model, this.folded, innerHeight * 0.4);
    this.section.style.height = `${this.rows.height + AXIS + (this.model.times.length > 1 ? 20 : 6)}px`;
  }

  /** Folds or unfolds the lanes of the rank whose name is at a place. */
  turn(py) {
    const row = this.rowAt(py);
    if (!row || this.model.ranks[row.slice].lanes.length < 2) return;
    this.folded[row.slice] = !this.folded[row.slice];
    this.layOut();
    this.show(this.view);
  }

  rowAt(py) {
    const y = py - AXIS + this.view.top;
    return py > AXIS ? this.rows.list.find((row) => y >= row.y && y < row.y + this.rows.high) : undefined;
  }

  fit() {
    this.show({ start: 0, zoom: 1, top: 0 });
  }

  /** `start` and `zoom` in parts of the whole breadth, `top` in pixels. */
  show(view) {
    const zoom = Math.min(1e6, Math.max(0.5, view.zoom));
    const start = Math.min(1, Math.max(-1, view.start));
    const lowest = Math.max(0, this.rows.height - this.section.clientHeight + AXIS + 8);
    this.view = { zoom, start, top: Math.min(lowest, Math.max(0, view.top)) };
    this.surface.ask();
  }

  breadth() {
    return Math.max(50, this.section.clientWidth - GUTTER - 12);
  }

  zoomAt(px, factor) {
    const at = this.view.start + (px - GUTTER) / this.breadth() / this.view.zoom;
    const zoom = Math.min(1e6, Math.max(0.5, this.view.zoom * factor));
    this.show({ ...this.view, zoom, start: at - (at - this.view.start) * (this.view.zoom / zoom) });
  }

  setSameScale(isSame) {
    this.isSameScale = isSame;
    this.surface.ask();
  }

  /** Nanoseconds that the whole breadth stands for. */
  span(times) {
    const shared = this.isSameScale ? Math.max(...this.model.times.map((each) => each.total_ns)) : times.total_ns;
    return Math.max(1, shared);
  }

  mark(node, tile) {
    this.marked = { node, tile };
    this.surface.ask();
  }

  /** Brings a node's lane, and its first run where it has any, into sight. */
  reveal(node) {
    const row = this.rows.list.find((row) => row.slice === this.model.nodes.slice[node] && (row.lane < 0 || row.lane === this.model.nodes.lane[node]));
    if (row) this.show({ ...this.view, top: row.y - this.section.clientHeight / 2 });
  }

  /** The node and tile of the run at a place, or -1 for both. */
  runAt(px, py) {
    const row = px >= GUTTER ? this.rowAt(py) : undefined;
    if (!row) return [-1, -1];
    const { runs } = row.times;
    const [scale, slack] = [this.scaleOf(row.times), 2];
    for (const lane of lanesOf(row)) {
      const run = lane[firstAfter(lane, runs.to, (px - slack - scale.left) / scale.perNs)];
      if (run === undefined || scale.left + runs.from[run] * scale.perNs > px + slack) continue;
      return [runs.node[run], runs.tile[run]];
    }
    return [-1, -1];
  }

  /** Where a time lies: `left + ns * perNs`. */
  scaleOf(times) {
    const perNs = (this.breadth() * this.view.zoom) / this.span(times);
    return { perNs, left: GUTTER - this.view.start * this.breadth() * this.view.zoom };
  }

  paint(context, width, height) {
    const ink = colours();
    const { top } = this.view;
    this.paintAbove(context, ink, width, height);
    context.save();
    context.beginPath();
    context.rect(0, AXIS, width, height - AXIS);
    context.clip();
    for (const row of this.rows.list) {
      const y = row.y - top + AXIS;
      if (y > height || y + this.rows.high < AXIS) continue;
      this.paintRow(context, ink, row, y, width);
    }
    this.paintNames(context, ink, height);
    this.paintPlace(context, ink, width, height - AXIS);
    context.restore();
    if (this.hasTwoScales()) this.paintBelow(context, ink, width, height);
  }

  paintRow(context, ink, row, y, width) {
    context.fillStyle = ink.band;
    context.globalAlpha = 0.7;
    context.fillRect(GUTTER, y, width - GUTTER, this.rows.high - 1);
    context.globalAlpha = 1;
    context.save();
    context.beginPath();
    context.rect(GUTTER, y, width - GUTTER, this.rows.high);
    context.clip();
    for (const lane of lanesOf(row)) this.paintLane(context, ink, row.times, lane, y, width);
    context.restore();
  }

  paintLane(context, ink, times, lane, y, width) {
    const { runs } = times;
    const { perNs, left } = this.scaleOf(times);
    let painted = -1;
    for (let i = firstAfter(lane, runs.to, (GUTTER - left) / perNs); i < lane.length; i++) {
      const run = lane[i];
      const [from, to] = [left + runs.from[run] * perNs, left + runs.to[run] * perNs];
      if (from > width) break;
      // What falls into the same pixel as the run before it cannot be told from that.
      const isMarked = this.isMarked(run, runs);
      if (to < painted && !isMarked && !times.why[run]) continue;
      painted = Math.floor(to) + 1;
      const fill = this.model.colours[this.model.nodes.lane[runs.node[run]] % this.model.colours.length];
      this.paintRun(context, ink, times, run, { from, breadth: Math.max(1, to - from), y, fill, isMarked });
    }
  }

  isMarked(run, runs) {
    const { node, tile } = this.marked;
    return node === runs.node[run] && (tile < 0 || tile === runs.tile[run]);
  }

  paintRun(context, ink, times, run, { from, breadth, y, fill, isMarked }) {
    const high = this.rows.high - 3;
    context.fillStyle = fill;
    context.fillRect(from, y + 1, breadth, high);
    if (times.why[run]) {
      context.fillStyle = ink.critical;
      context.fillRect(from, y + high - 2, breadth, 3);
    }
    if (breadth > 4) {
      context.strokeStyle = ink["box-line"];
      context.lineWidth = 0.6;
      context.strokeRect(from, y + 1, breadth, high);
    }
    if (isMarked) {
      context.strokeStyle = ink.near;
      context.lineWidth = 2.4;
      context.strokeRect(from, y + 1, breadth, high);
    }
    if (breadth > 14) this.paintWords(context, times.runs, run, from, breadth, y + high / 2 + 4);
  }

  /** As much of node, kind and tile as there is room for. */
  paintWords(context, runs, run, from, breadth, y) {
    const node = runs.node[run];
    const { id, kind } = this.model.nodes;
    const [short, tile] = [String(id[node]), runs.tile[run]];
    const words = breadth > 130 ? `${short} ${this.model.kinds[kind[node]]} · tile ${tile}` : breadth > 40 ? `${short} · ${tile}` : short;
    context.fillStyle = "#15181d";
    context.font = "10px Helvetica, Arial, sans-serif";
    const left = Math.max(from, GUTTER) + 3;
    if (from + breadth - left > 10) context.fillText(words, left, y);
  }

  /** The names of ranks and lanes, and which rows were measured. */
  paintNames(context, ink, height) {
    context.fillStyle = ink.page;
    context.fillRect(0, AXIS, GUTTER - 2, height);
    for (const row of this.rows.list) {
      const y = row.y - this.view.top + AXIS;
      const middle = y + this.rows.high / 2;
      if (y > height || y + this.rows.high < 0) continue;
      context.font = "bold 11px Helvetica, Arial, sans-serif";
      context.fillStyle = ink.ink;
      if (row.isFirst) context.fillText(`rank ${this.model.ranks[row.slice].rank}`, 10, middle + 4);
      context.font = "11px Helvetica, Arial, sans-serif";
      if (row.isFirstOfLane) {
        const { lanes } = this.model.ranks[row.slice];
        context.fillStyle = row.lane < 0 ? ink.line : this.model.colours[row.lane % this.model.colours.length];
        context.fillRect(64, middle - 4, 8, 8);
        context.fillStyle = ink.ink;
        const name = row.lane < 0 ? `${lanes.length} lanes` : lanes[row.lane];
        context.fillText(name, 76, middle + 4, this.model.measured ? 58 : 108);
      }
      if (this.model.measured) {
        context.fillStyle = ink.quiet;
        context.font = "10px Helvetica, Arial, sans-serif";
        context.fillText(row.times === this.model.measured ? "measured" : "predicted", 138, middle + 3);
      }
    }
  }

  /** Which part of all rows is seen, at the right edge. */
  paintPlace(context, ink, width, height) {
    const all = this.rows.height;
    if (all <= height) return;
    context.fillStyle = ink.quiet;
    context.globalAlpha = 0.5;
    context.fillRect(width - 6, AXIS + (this.view.top / all) * height, 4, Math.max(12, (height / all) * height));
    context.globalAlpha = 1;
  }

  hasTwoScales() {
    return !this.isSameScale && this.model.times.length > 1;
  }

  /** The axis of all times, or of the measured ones, and its lines down the rows. */
  paintAbove(context, ink, width, height) {
    context.fillStyle = ink.page;
    context.fillRect(0, 0, width, AXIS);
    this.paintAxis(context, ink, this.model.times[0], width, 12, height);
    if (this.hasTwoScales()) context.fillText("measured", 10, 12);
  }

  /** The axis of the predicted times, where it is another. */
  paintBelow(context, ink, width, height) {
    context.fillStyle = ink.page;
    context.fillRect(0, height - 16, width, 16);
    this.paintAxis(context, ink, this.model.times[1], width, height - 4, 0);
    context.fillText("predicted", 10, height - 4);
  }

  paintAxis(context, ink, times, width, y, height) {
    const { perNs, left } = this.scaleOf(times);
    const step = niceStep(90 / perNs);
    context.font = "10px Helvetica, Arial, sans-serif";
    context.textAlign = "center";
    for (let at = Math.max(0, Math.ceil((GUTTER - left) / perNs / step)); ; at++) {
      const x = left + at * step * perNs;
      if (x > width) break;
      context.fillStyle = ink.quiet;
      context.fillText(timeWords(at * step), x, y);
      if (height > 0) {
        context.fillStyle = ink.line;
        context.globalAlpha = 0.6;
        context.fillRect(x, AXIS - 6, 1, height);
        context.globalAlpha = 1;
      }
    }
    context.fillStyle = ink.quiet;
    context.textAlign = "left";
  }
}

/** A row per rank, lane and kind of times, as high as suits `room`, and the height of all. A folded rank has one row of a kind, whose lane is -1. */
function rowsOf(model, folded, room) {
  const list = [];
  const lanes = model.ranks.map((rank, slice) => (folded[slice] ? [-1] : rank.lanes.map((_, lane) => lane)));
  const count = lanes.reduce((sum, own) => sum + own.length, 0) * model.times.length;
  const gaps = model.ranks.length * (RANK_GAP + 3) + 12;
  const high = Math.floor(Math.min(MOST_ROW, Math.max(LEAST_ROW, (room - gaps) / count)));
  let y = 4;
  lanes.forEach((own, slice) => {
    own.forEach((lane, nth) => {
      model.times.forEach((times, i) => {
        list.push({ slice, lane, times, y, isFirst: nth === 0 && i === 0, isFirstOfLane: i === 0 });
        y += high;
      });
      if (model.times.length > 1) y += 3;
    });
    y += RANK_GAP;
  });
  return { list, high, height: y };
}

/** The lanes that a row shows. */
function lanesOf({ times, slice, lane }) {
  return lane < 0 ? times.lanes[slice] : [times.lanes[slice][lane]];
}

/** The first place in a lane whose run ends at `time` or later. Runs of a lane do not overlap. */
function firstAfter(lane, to, time) {
  let [low, high] = [0, lane.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (to[lane[middle]] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** 1, 2 or 5 times a power of ten, at least `least`. */
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-3)));
  return [1, 2, 5, 10].map((times) => times * power).find((step) => step >= least);
}
