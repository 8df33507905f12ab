// A chart as a file: its numbers as CSV, its picture as SVG or PNG, with its title and the meaning of its colours.

const WIDE = 640, HEAD = 34, KEY = 20; // of a picture: its width, the room of the title and of one line of the key
const PIXELS = 3; // of a PNG, for each unit
// Asked of the browser: a page holds no address at all, so that anyone can see that it loads nothing.
const SVG = Object.assign(document.createElement("i"), { innerHTML: "<svg></svg>" }).firstChild.namespaceURI;

class SvgPen { // draws like the context of a canvas, as far as charts need it
  constructor() {
    Object.assign(this, { parts: [], kept: [], path: "", dash: [], transform: "", clipped: "" });
    Object.assign(this, { fillStyle: INK, strokeStyle: INK, globalAlpha: 1, lineWidth: 1, textAlign: "start", textBaseline: "alphabetic", font: "" });
    this.ruler = document.createElement("canvas").getContext("2d");
  }

  get shared() {
    const moved = this.transform ? ` transform="${this.transform.trim()}"` : "";
    const alpha = this.globalAlpha === 1 ? "" : ` opacity="${this.globalAlpha}"`;
    return moved + alpha + (this.clipped ? ` clip-path="url(#${this.clipped})"` : "");
  }
  add(tag, attributes, inside = "") {
    const named = Object.entries(attributes).map(([name, value]) => ` ${name}="${typeof value === "number" ? +value.toFixed(2) : value}"`);
    this.parts.push(`<${tag}${named.join("")}${this.shared}>${inside}</${tag}>`);
  }
  save() {
    const { fillStyle, strokeStyle, globalAlpha, lineWidth, textAlign, textBaseline, font, dash, transform, clipped } = this;
    this.kept.push({ fillStyle, strokeStyle, globalAlpha, lineWidth, textAlign, textBaseline, font, dash, transform, clipped });
  }
  restore() { Object.assign(this, this.kept.pop()); }
  translate(x, y) { this.transform += ` translate(${x} ${y})`; }
  rotate(angle) { this.transform += ` rotate(${(angle * 180) / Math.PI})`; }
  setLineDash(dash) { this.dash = dash; }
  beginPath() { this.path = ""; }
  moveTo(x, y) { this.path += `M${x.toFixed(2)} ${y.toFixed(2)}`; }
  lineTo(x, y) { this.path += `L${x.toFixed(2)} ${y.toFixed(2)}`; }
  rect(x, y, width, height) { this.path += `M${x} ${y}h${width}v${height}h${-width}z`; }
  clip() {
    this.clipped = `clip-${this.parts.length}`;
    this.parts.push(`<clipPath id="${this.clipped}"><path d="${this.path}"/></clipPath>`);
  }
  stroke() {
    const dash = this.dash.length ? { "stroke-dasharray": this.dash.join(" ") } : {};
    this.add("path", { d: this.path, fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth, ...dash });
  }
  fill() { this.add("path", { d: this.path, fill: this.fillStyle }); }
  fillRect(x, y, width, height) { this.add("rect", { x, y, width, height, fill: this.fillStyle }); }
  measureText(text) { this.ruler.font = this.font; return this.ruler.measureText(text); }
  fillText(text, x, y, most = Infinity) {
    const anchor = { center: "middle", right: "end" }[this.textAlign] ?? "start";
    const size = parseFloat(this.font.match(/[\d.]+px/)), down = { top: 0.8, middle: 0.33 }[this.textBaseline] ?? 0;
    const squeezed = this.measureText(text).width > most ? { textLength: most, lengthAdjust: "spacingAndGlyphs" } : {};
    const weight = this.font.startsWith("bold") ? { "font-weight": "bold" } : {};
    const family = { "font-family": "sans-serif", "font-size": size };
    this.add("text", { x, y: y + down * size, fill: this.fillStyle, "text-anchor": anchor, ...family, ...weight, ...squeezed }, escaped(text));
  }
  drawImage(image, x, y, width, height) {
    const style = "image-rendering:pixelated";
    this.add("image", { x, y, width, height, href: image.toDataURL(), preserveAspectRatio: "none", style });
  }
  text(width, height) {
    return `<svg xmlns="${SVG}" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">${this.parts.join("")}</svg>\n`;
  }
}

const escaped = (text) => text.replace(/[&<>"]/g, (letter) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[letter]);

function meanings(chart) { // label and style of each entry of the key; a picture has states, and one label in its title
  const named = chart.spec.states ? Object.entries(chart.spec.states) : chart.shown().map((s) => [s.label, s.style]);
  return named.length > 1 || chart.spec.states ? named : [];
}

function keyPlaces(chart, pen) { // where each entry stands, line by line
  let x = 16, line = 0;
  return meanings(chart).map(([label, style]) => {
    const width = 38 + pen.measureText(label).width;
    if (x > 16 && x + width > WIDE - 16) { x = 16; line += 1; }
    const place = { label, style, x, line };
    x += width + 14;
    return place;
  });
}

function drawWhole(chart, pen, height) { // title, chart and key on white paper
  const fonts = getComputedStyle(document.body).fontFamily, title = chart.figure.querySelector("h3").textContent;
  pen.fillStyle = "#ffffff";
  pen.fillRect(0, 0, WIDE, height);
  pen.fillStyle = INK;
  pen.font = `bold 14px ${fonts}`;
  pen.textAlign = "left";
  pen.fillText(chart.choice ? `${title}: ${chart.choice.value}` : title, 16, 22, WIDE - 32);
  pen.save();
  pen.translate(0, HEAD);
  chart.paint(pen, WIDE, chart.spec.height);
  pen.restore();
  pen.font = `12px ${fonts}`;
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  for (const { label, style, x, line } of keyPlaces(chart, pen)) {
    const y = HEAD + chart.spec.height + KEY * (line + 0.5);
    pen.strokeStyle = style.light;
    pen.lineWidth = chart.spec.states || chart.spec.kind === "bars" ? 10 : 3;
    pen.setLineDash(chart.spec.states || !style.dash[1] ? [] : style.dash);
    pen.beginPath();
    pen.moveTo(x, y);
    pen.lineTo(x + 26, y);
    pen.stroke();
    pen.setLineDash([]);
    pen.fillStyle = INK;
    pen.fillText(label, x + 32, y);
  }
}

function asPicture(chart, draw) { // `draw` gets the size and a function that draws on a pen; the chart is as before after it
  const { cursor } = chart;
  onPaper = true;
  chart.cursor = null;
  const ruler = document.createElement("canvas").getContext("2d");
  ruler.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const height = HEAD + chart.spec.height + KEY * (Math.max(-1, ...keyPlaces(chart, ruler).map((entry) => entry.line)) + 1) + 8;
  try {
    return draw(height, (pen) => drawWhole(chart, pen, height));
  } finally {
    onPaper = false;
    chart.cursor = cursor;
    chart.draw();
  }
}

const svgOf = (chart) => asPicture(chart, (height, draw) => {
  const pen = new SvgPen();
  draw(pen);
  return pen.text(WIDE, height);
});

const pngOf = (chart) => asPicture(chart, (height, draw) => {
  const canvas = document.createElement("canvas");
  canvas.width = WIDE * PIXELS;
  canvas.height = height * PIXELS;
  const pen = canvas.getContext("2d");
  pen.scale(PIXELS, PIXELS);
  draw(pen);
  return new Promise((done) => canvas.toBlob(done));
});

function csvOf(chart) { // one line per point of what is shown, with all digits that the page has
  const quoted = (cell) => (/[",\n]/.test(cell) ? `"${String(cell).replaceAll('"', '""')}"` : String(cell ?? ""));
  return chart.marks.points(chart).map((row) => row.map(quoted).join(",")).join("\n") + "\n";
}

async function save(chart, name, form) {
  const made = { csv: csvOf, svg: svgOf, png: pngOf }[form](chart);
  const blob = form === "png" ? await made : new Blob([made], { type: form === "csv" ? "text/csv" : "image/svg+xml" });
  const link = element("a", undefined, { href: URL.createObjectURL(blob), download: `${name}.${form}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
