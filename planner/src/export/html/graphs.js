// The pictures of a plan, of which one is shown: with its lanes folded, where they are many, and with all of them.

class Graphs {
  constructor(model, pointAt, select) {
    this.sections = [...document.querySelectorAll(".graph")];
    this.model = model;
    this.make = (at) => {
      const [section, picture] = [this.sections[at], model.pictures[at]];
      picture.names = model.ranks.map(({ rank }) => `rank ${rank}`);
      const Graph = section.querySelector("svg") ? PictureGraph : PaintedGraph;
      return new Graph(section, picture, pointAt, select, model.colours);
    };
    this.graphs = [];
    this.show(0);
  }

  /** Shows one of them; it is made when it is first seen. */
  show(at) {
    this.shown = at;
    this.sections.forEach((section, i) => (section.hidden = i !== at));
    this.graphs[at] ??= this.make(at);
    const button = document.querySelector("button[data-do=fold]");
    if (button) button.textContent = at ? "fold lanes" : "unfold lanes";
    document.documentElement.dataset.boxes = this.model.pictures[at].count;
  }

  /** Folds what is unfolded, and the other way round. */
  turn() {
    this.show((this.shown + 1) % this.sections.length);
  }

  /** Shows every node. */
  unfold() {
    this.show(this.sections.length - 1);
  }

  get graph() {
    return this.graphs[this.shown];
  }

  fit() {
    this.graph.fit();
  }

  zoom(factor) {
    this.graph.zoom(factor);
  }

  mark(node) {
    this.graph.mark(node);
  }

  reveal(node) {
    this.graph.reveal(node);
  }
}
