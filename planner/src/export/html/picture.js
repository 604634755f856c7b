// The graph of a small plan: an SVG whose view box moves.

class PictureGraph {
  constructor(section, picture, pointAt, select) {
    this.svg = section.querySelector("svg");
    this.section = section;
    this.picture = picture;
    for (const title of this.svg.querySelectorAll("title")) title.remove();
    this.nodes = Array.from({ length: picture.count });
    for (const group of this.svg.querySelectorAll("[data-node]")) this.nodes[group.dataset.node] = group;
    this.edges = [...this.svg.querySelectorAll("[data-from]")];
    const { x, y, width, height } = this.svg.viewBox.baseVal;
    this.whole = { x, y, width, height };
    const at = (event) => event?.target.closest?.("[data-node]")?.dataset.node ?? -1;
    listen(section, {
      drag: (dx, dy) => this.move(dx, dy),
      wheel: (px, py, factor) => this.zoomAt(px, py, factor),
      point: (px, py, event) => pointAt(picture.nodesOf(Number(at(event))), -1),
      click: (px, py) => {
        const box = section.getBoundingClientRect();
        select(picture.nodesOf(Number(at({ target: document.elementFromPoint(px + box.left, py + box.top) }))), -1);
      },
    });
    this.fit();
  }

  fit() {
    this.show({ ...this.whole });
  }

  show(view) {
    this.view = view;
    this.svg.setAttribute("viewBox", `${view.x} ${view.y} ${view.width} ${view.height}`);
  }

  /** How many units of the picture a pixel is, and where the picture begins within the section. */
  scale() {
    const box = this.section.getBoundingClientRect();
    const units = Math.max(this.view.width / box.width, this.view.height / box.height);
    return { units, left: (box.width - this.view.width / units) / 2, top: (box.height - this.view.height / units) / 2 };
  }

  move(dx, dy) {
    const { units } = this.scale();
    this.show({ ...this.view, x: this.view.x - dx * units, y: this.view.y - dy * units });
  }

  zoomAt(px, py, factor) {
    const { units, left, top } = this.scale();
    const [x, y] = [this.view.x + (px - left) * units, this.view.y + (py - top) * units];
    const width = Math.min(this.whole.width * 4, Math.max(80, this.view.width / factor));
    const by = width / this.view.width;
    this.show({ x: x - (x - this.view.x) * by, y: y - (y - this.view.y) * by, width, height: this.view.height * by });
  }

  zoom(factor) {
    const box = this.section.getBoundingClientRect();
    this.zoomAt(box.width / 2, box.height / 2, factor);
  }

  /** Marks the box of a node and its edges; -1 marks nothing. */
  mark(marked) {
    const node = this.picture.boxOf(marked);
    this.svg.classList.toggle("points", node >= 0);
    for (const before of this.svg.querySelectorAll(".near, .pointed")) before.classList.remove("near", "pointed");
    if (node < 0) return;
    this.nodes[node].classList.add("pointed");
    for (const edge of this.edges) {
      const { from, to } = edge.dataset;
      if (Number(from) !== node && Number(to) !== node) continue;
      edge.classList.add("near");
      this.nodes[Number(from) === node ? to : from].classList.add("near");
    }
  }

  /** Nothing to do: the whole picture is near. */
  reveal() {}
}
