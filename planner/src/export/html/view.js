// What both canvases share: size and sharpness, painting once per frame, colours of the style sheet, dragging and wheeling.

/** Paints a canvas with `paint(context, width, height)` at most once per frame, and whenever its size changes. */
class Surface {
  constructor(canvas, paint) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.paintOn = paint;
    this.isAsked = false;
    new ResizeObserver(() => this.ask()).observe(canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.ask());
  }

  /** Asks for a frame. */
  ask() {
    if (this.isAsked) return;
    this.isAsked = true;
    requestAnimationFrame(() => this.paint());
  }

  /** Paints at once. */
  paint() {
    this.isAsked = false;
    const { width, height } = this.canvas.parentElement.getBoundingClientRect();
    const sharpness = devicePixelRatio || 1;
    const [wide, high] = [Math.max(1, Math.round(width * sharpness)), Math.max(1, Math.round(height * sharpness))];
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      this.canvas.width = wide;
      this.canvas.height = high;
    }
    this.context.setTransform(sharpness, 0, 0, sharpness, 0, 0);
    this.context.clearRect(0, 0, width, height);
    this.paintOn(this.context, width, height);
  }
}

/** The font of boxes and lanes, whose letters are equally wide. */
const FONT = '"DejaVu Sans Mono", Menlo, Consolas, monospace';

/** The colours of the style sheet, by name. */
function colours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["page", "ink", "quiet", "line", "band", "lane", "dep", "message", "between", "critical", "near", "box-line"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** Calls `drag(dx, dy)`, `wheel(x, y, factor, dy)` (`dy` with the shift key only), `point(x, y)` (or with no place when the pointer
    leaves) and `click(x, y)`. */
function listen(element, { drag, wheel, point, click }) {
  let held = null;
  const place = (event) => {
    const box = element.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  element.addEventListener("pointerdown", (event) => {
    held = { x: event.clientX, y: event.clientY, moved: 0 };
  });
  addEventListener("pointermove", (event) => {
    if (!held) return;
    const [dx, dy] = [event.clientX - held.x, event.clientY - held.y];
    held = { x: event.clientX, y: event.clientY, moved: held.moved + Math.abs(dx) + Math.abs(dy) };
    drag(dx, dy);
  });
  addEventListener("pointerup", (event) => {
    if (held && held.moved < 4 && element.contains(event.target)) click(...place(event));
    held = null;
  });
  element.addEventListener("pointermove", (event) => {
    if (!held) point(...place(event), event);
  });
  element.addEventListener("pointerleave", () => point());
  element.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      // With the shift key some browsers turn the wheel sideways.
      const dy = event.shiftKey ? event.deltaY || event.deltaX : 0;
      wheel(...place(event), Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), dy);
    },
    { passive: false },
  );
}
