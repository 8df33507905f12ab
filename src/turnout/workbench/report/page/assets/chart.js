"use strict";
// Charts on canvas: scales, axes, what the pointer and the keys do. The kinds of marks are in marks.js and picture.js.

const hidden = new Set(); // labels that are switched off, in all charts
const charts = [];
let over = ""; // what learning curves are drawn over, the first choice of each until another is chosen
const root = document.documentElement;
let onPaper = false; // while a page is printed or a picture is saved: light colours, and sharp
const isDark = () => !onPaper && (getComputedStyle(root).colorScheme === "dark" ||
  (!root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches));
const shade = (style) => (isDark() ? style.dark : style.light);

function told(value, unit) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (unit === "%") return value.toFixed(1) + " %";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(2);
  return Number(value.toPrecision(4)).toLocaleString("en");
}

function niceTicks(low, high, count, whole) {
  const rough = Math.max((high - low) / Math.max(1, count), whole ? 1 : 0);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) || power * 10;
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) ticks.push(i * step);
  return ticks;
}

function logTicks(low, high) {
  const ticks = [];
  for (let p = Math.ceil(Math.log10(low) - 1e-9); p <= Math.log10(high) + 1e-9; p += 1) ticks.push(10 ** p);
  const every = Math.ceil(ticks.length / 8);
  return ticks.length < 2 ? [low, high] : ticks.filter((_, i) => i % every === 0);
}

// A scale is a function from data to pixels that knows its inverse and its ticks.
function scaleOf([low, high], [from, to], { log, whole }, count) {
  const f = log ? Math.log10 : (v) => v;
  const a = f(low), b = f(high) === a ? a + 1 : f(high);
  const scale = (value) => from + ((f(value) - a) / (b - a)) * (to - from);
  scale.invert = (pixel) => {
    const v = a + ((pixel - from) / (to - from)) * (b - a);
    return log ? 10 ** v : v;
  };
  scale.ticks = log ? logTicks(low, high) : niceTicks(low, high === low ? low + 1 : high, count, whole);
  return scale;
}

const waiting = new Set(); // charts to be drawn: a few in each frame, so that the page never stands still
const FRAME = 10; // milliseconds
const INK = "#1a1a1a"; // on paper

function drawWaiting() {
  const begun = performance.now();
  for (const chart of waiting) {
    waiting.delete(chart);
    chart.draw();
    if (performance.now() - begun > FRAME) break;
  }
  if (waiting.size) requestAnimationFrame(drawWaiting);
}

class Chart {
  constructor(figure, spec) {
    Object.assign(this, { figure, spec, zoom: null, cursor: null, drag: null });
    this.canvas = figure.querySelector("canvas");
    this.live = figure.querySelector(".live");
    this.marks = MARKS[spec.kind];
    this.marks.start?.(this);
    this.listen();
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
  }

  get axis() { // the chosen one, or the first that there is
    const { choices } = this.spec.x;
    return choices && (over in choices ? over : Object.keys(choices)[0]);
  }
  get xTitle() { return this.spec.x.choices?.[this.axis] ?? this.spec.x.title ?? ""; }
  get xUnit() { return this.spec.x.unit; }
  shown() { return this.spec.series.filter((s) => !hidden.has(s.label) && (this.spec.x.names || this.xs(s))); }
  xs(series) { return this.axis ? series.over[this.axis] : series.x; }

  domain([low, high]) { // the part of the x axis that is looked at
    if (this.zoom && (this.zoom[0] > low || this.zoom[1] < high)) {
      return [Math.max(low, this.zoom[0]), Math.min(high, this.zoom[1])];
    }
    this.zoom = null;
    return [low, high];
  }

  redraw() {
    if (!waiting.size) requestAnimationFrame(drawWaiting);
    waiting.add(this);
  }

  draw() {
    const width = this.canvas.clientWidth, { height } = this.spec;
    const ratio = Math.max(onPaper ? 2 : 1, devicePixelRatio || 1);
    if (!width) return;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    this.paint(pen, width, height);
    if (this.drag && this.drag.now !== null) this.drawSelection();
    this.figure.querySelector(".reset").hidden = !this.zoom;
  }

  paint(pen, width, height) { // on the canvas of the page, or on anything that draws like one
    pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    this.pen = pen;
    this.ink = onPaper ? INK : getComputedStyle(this.canvas).color;
    this.box = { left: 48, right: width - 16, top: 10, bottom: height - 40, width, height };
    this.marks.draw(this);
  }

  // Axes with their titles and grid; y may be left out. Room on the left is what the numbers need.
  axes(xDomain, yDomain, { xTicks = true, downward = false } = {}) {
    const { pen, box, spec } = this;
    const count = Math.max(2, Math.round((box.bottom - box.top) / 45));
    this.y = scaleOf(yDomain, downward ? [box.top, box.bottom] : [box.bottom, box.top], spec.y, count);
    const names = this.y.ticks.map((v) => told(v, "").replace("–", ""));
    box.left = 26 + Math.max(...names.map((n) => pen.measureText(n).width));
    this.x = scaleOf(xDomain, [box.left, box.right], spec.x, Math.max(2, Math.round((box.right - box.left) / 80)));
    pen.fillStyle = pen.strokeStyle = this.ink;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    this.y.ticks.forEach((tick, i) => {
      this.line(box.left, this.y(tick), box.right, this.y(tick), 0.12);
      pen.fillText(names[i], box.left - 6, this.y(tick));
    });
    pen.textAlign = "center";
    pen.textBaseline = "top";
    if (xTicks) for (const tick of this.x.ticks) {
      this.line(this.x(tick), box.bottom, this.x(tick), box.bottom + 4, 0.6);
      pen.fillText(told(tick, ""), this.x(tick), box.bottom + 7);
    }
    this.line(box.left, box.bottom, box.right, box.bottom, 0.6);
    pen.fillText(this.xTitle + (this.xUnit ? ` (${this.xUnit})` : ""), (box.left + box.right) / 2, box.bottom + 23);
    pen.save();
    pen.translate(11, (box.top + box.bottom) / 2);
    pen.rotate(-Math.PI / 2);
    pen.fillText(spec.y.title + (spec.y.unit ? ` (${spec.y.unit})` : ""), 0, -6);
    pen.restore();
  }

  line(x1, y1, x2, y2, alpha, dash = []) {
    const { pen } = this;
    pen.save();
    pen.globalAlpha = alpha;
    pen.strokeStyle = this.ink;
    pen.setLineDash(dash);
    pen.beginPath();
    pen.moveTo(x1, y1);
    pen.lineTo(x2, y2);
    pen.stroke();
    pen.restore();
  }

  inside(paint) {
    const { pen, box } = this;
    pen.save();
    pen.beginPath();
    pen.rect(box.left, 0, box.right - box.left, box.bottom);
    pen.clip();
    paint(pen);
    pen.restore();
  }

  drawSelection() {
    const { pen, box, drag } = this;
    pen.globalAlpha = 0.15;
    pen.fillStyle = this.ink;
    pen.fillRect(Math.min(drag.from, drag.now), box.top, Math.abs(drag.now - drag.from), box.bottom - box.top);
    pen.globalAlpha = 1;
  }

  listen() {
    const { canvas } = this;
    const place = (event) => {
      const where = canvas.getBoundingClientRect();
      return { x: event.clientX - where.left, y: event.clientY - where.top };
    };
    canvas.addEventListener("pointermove", (event) => {
      const at = place(event);
      if (this.drag) this.drag.now = at.x;
      this.point(at, false);
    });
    canvas.addEventListener("pointerdown", (event) => {
      const at = place(event);
      if (this.marks.zooms) this.drag = { from: at.x, now: null };
      if (event.pointerType === "mouse") canvas.setPointerCapture(event.pointerId);
      this.point(at, false);
    });
    canvas.addEventListener("pointerup", (event) => this.drop(place(event).x));
    canvas.addEventListener("pointercancel", () => { this.drag = null; this.leave(); });
    canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") this.leave(); });
    canvas.addEventListener("dblclick", () => this.zoomTo(null));
    canvas.addEventListener("blur", () => this.leave());
    canvas.addEventListener("keydown", (event) => this.key(event));
    this.figure.querySelector(".reset").addEventListener("click", () => { this.zoomTo(null); canvas.focus(); });
  }

  drop(x) {
    const drag = this.drag;
    this.drag = null;
    if (drag && Math.abs(x - drag.from) > 8) {
      const ends = [drag.from, x].map((p) => this.x.invert(Math.min(this.box.right, Math.max(this.box.left, p))));
      this.zoomTo(ends.sort((a, b) => a - b));
    } else this.redraw();
  }

  zoomTo(range) { this.zoom = range; this.cursor = null; hideTip(); this.redraw(); }
  leave() { this.cursor = null; hideTip(); this.redraw(); }

  point(at, aloud) { // show what is under a place of the canvas
    if (!this.box) return;
    const found = this.marks.find(this, at);
    this.cursor = found && { ...found, at };
    if (found) showTip(this, found); else hideTip();
    if (aloud) this.live.textContent = found ? `${found.title}: ${found.rows.map((r) => r.slice(0, 2).join(" ")).join(", ")}` : "";
    this.redraw();
  }

  key(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1 }, { box } = this;
    if (event.key in steps || event.key === "ArrowUp" || event.key === "ArrowDown") {
      const at = this.cursor?.at || { x: box.left, y: (box.top + box.bottom) / 2 };
      const dx = (steps[event.key] || 0) * this.marks.step(this);
      const dy = ({ ArrowUp: -1, ArrowDown: 1 }[event.key] || 0) * 12;
      const clamp = (v, a, b) => Math.min(b, Math.max(a, v));
      this.point({ x: clamp(at.x + dx, box.left + 1, box.right - 1), y: clamp(at.y + dy, box.top, box.bottom - 1) }, true);
    } else if ((event.key === "+" || event.key === "-") && this.marks.zooms) {
      const half = ((box.right - box.left) / 2) * (event.key === "+" ? 0.5 : 2);
      const middle = this.cursor?.at.x ?? (box.left + box.right) / 2;
      this.zoomTo([middle - half, middle + half].map(this.x.invert));
    } else if (event.key === "Escape" || event.key === "0") this.zoomTo(null);
    else return;
    event.preventDefault();
  }
}
