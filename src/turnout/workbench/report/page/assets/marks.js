// Lines with bands, dots with whiskers, and bars. Each kind: draw, find what is under the pointer, step of the arrow keys,
// rows of the table that says the same in numbers.

const finite = (values) => values.filter((v) => v !== null && Number.isFinite(v));

function extent(lists, fallback = [0, 1]) {
  let low = Infinity, high = -Infinity;
  for (const list of lists) for (const v of list || []) if (v !== null && Number.isFinite(v)) {
    if (v < low) low = v;
    if (v > high) high = v;
  }
  return low <= high ? [low, high] : fallback;
}

function padded([low, high], spec) { // a little air, and zero where it belongs to the subject
  if (spec.log) return [low / 1.1, high * 1.1];
  if (spec.zero) [low, high] = [Math.min(0, low), Math.max(0, high)];
  const air = (high - low || Math.abs(high) || 1) * 0.05;
  return [spec.zero && low === 0 ? 0 : low - air, high + air];
}

const nearest = (values, x) => { // place of the closest value in a rising list
  let low = 0, high = values.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (values[middle] <= x) low = middle; else high = middle;
  }
  return Math.abs(values[low] - x) <= Math.abs(values[high] - x) ? low : high;
};

function spread(series, i, unit) {
  const low = series.low?.[i], high = series.high?.[i];
  return low === undefined || low === null || low === high ? "" : ` (${told(low, "")} to ${told(high, unit)})`;
}

const others = (series, i) => (series.more || []).map(({ title, values, unit }) => [title, told(values[i], unit)]);

const titled = ({ title, unit }) => (unit ? `${title} (${unit})` : title);

function points(chart) { // a header and one row per point of the series that are shown
  const { spec } = chart, shown = chart.shown(), more = shown.flatMap((s) => s.more || []).map(titled);
  const further = [...new Set(more)], named = shown.some((s) => s.names), spread = shown.some((s) => s.low);
  const x = titled({ title: chart.xTitle, unit: chart.xUnit });
  const header = ["series", ...(named ? ["name"] : []), x, titled(spec.y), ...(spread ? ["low", "high"] : []), ...further];
  const rows = shown.flatMap((s) => s.y.map((y, i) => [
    s.label, ...(named ? [s.names?.[i]] : []), spec.x.names ? spec.x.names[i] : chart.xs(s)[i], y,
    ...(spread ? [s.low?.[i], s.high?.[i]] : []),
    ...further.map((title) => (s.more || []).find((one) => titled(one) === title)?.values[i])]));
  const targets = (spec.targets || []).map((y, i) => ["target", spec.x.names[i], y, ...(spread ? ["", ""] : [])]);
  return [header, ...rows, ...targets];
}

function rules(chart) { // lines across, such as a target
  for (const rule of chart.spec.rules || []) {
    if (hidden.has(rule.label)) continue;
    const { pen, box } = chart, y = chart.y(rule.y);
    pen.save();
    pen.strokeStyle = rule.style ? shade(rule.style) : chart.ink;
    pen.setLineDash([6, 4]);
    pen.beginPath();
    pen.moveTo(box.left, y);
    pen.lineTo(box.right, y);
    pen.stroke();
    pen.restore();
  }
}

function domains(chart) {
  const shown = chart.shown(), { spec } = chart;
  const x = chart.domain(spec.x.domain || extent(shown.map((s) => chart.xs(s))));
  const seen = shown.map((s) => {
    const xs = chart.xs(s), inView = (_, i) => xs[i] >= x[0] && xs[i] <= x[1];
    return [...s.y.filter(inView), ...(s.low || []).filter(inView), ...(s.high || []).filter(inView)];
  });
  const ruled = (spec.rules || []).filter((r) => !hidden.has(r.label)).map((r) => r.y);
  let y = spec.y.domain && !chart.zoom ? spec.y.domain : padded(extent([...seen, ruled]), spec.y);
  if (spec.y.log) y = [Math.max(y[0], 1e-12), y[1]];
  return [x, y];
}

const lines = {
  points,
  zooms: true,
  draw(chart) {
    chart.axes(...domains(chart));
    chart.inside((pen) => {
      for (const series of chart.shown()) this.band(chart, pen, series);
      rules(chart);
      for (const series of chart.shown()) this.line(chart, pen, series);
      if (chart.cursor?.x !== undefined) chart.line(chart.x(chart.cursor.x), chart.box.top, chart.x(chart.cursor.x), chart.box.bottom, 0.5, [3, 3]);
    });
  },
  band(chart, pen, series) {
    if (!series.low) return;
    const xs = chart.xs(series), points = [];
    const at = (values, i) => [chart.x(xs[i]), chart.y(chart.spec.y.log ? Math.max(values[i], 1e-12) : values[i])];
    xs.forEach((_, i) => { if (series.low[i] !== null) points.push(at(series.low, i)); });
    for (let i = xs.length - 1; i >= 0; i -= 1) if (series.high[i] !== null) points.push(at(series.high, i));
    pen.globalAlpha = 0.15;
    pen.fillStyle = shade(series.style);
    pen.beginPath();
    points.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.fill();
    pen.globalAlpha = 1;
  },
  line(chart, pen, series) {
    const xs = chart.xs(series), { style } = series;
    pen.strokeStyle = shade(style);
    pen.lineWidth = 2;
    pen.setLineDash(style.dash[1] ? style.dash : []);
    pen.beginPath();
    let down = false;
    xs.forEach((x, i) => {
      if (series.y[i] === null) { down = false; return; }
      if (down) pen.lineTo(chart.x(x), chart.y(series.y[i])); else pen.moveTo(chart.x(x), chart.y(series.y[i]));
      down = true;
    });
    pen.stroke();
    pen.setLineDash([]);
    pen.lineWidth = 1;
  },
  find(chart, at) {
    const shown = chart.shown();
    if (!shown.length || at.x < chart.box.left - 4 || at.x > chart.box.right + 4) return null;
    const wanted = chart.x.invert(at.x), unit = chart.spec.y.unit;
    const first = chart.xs(shown[0]), x = first[nearest(first, wanted)];
    const rows = shown.map((s) => {
      const i = nearest(chart.xs(s), wanted);
      return [s.label, told(s.y[i], unit) + spread(s, i, unit), s.style, s.y[i] ?? -Infinity];
    });
    rows.sort((a, b) => b[3] - a[3]);
    return { x, title: `${chart.xTitle} ${told(x, chart.xUnit)}`, rows };
  },
  step(chart) { // to the next point
    const shown = chart.shown();
    if (!shown.length) return 10;
    const xs = chart.xs(shown[0]).filter((x) => !chart.zoom || (x >= chart.zoom[0] && x <= chart.zoom[1]));
    return (chart.box.right - chart.box.left) / Math.max(1, Math.min(xs.length - 1, 40));
  },
  table(chart) {
    const shown = chart.shown(), first = chart.xs(shown[0]) || [], { unit } = chart.spec.y;
    const stride = Math.ceil(first.length / 60);
    const rows = first.filter((_, i) => i % stride === 0 || i === first.length - 1).map((x) => [
      told(x, chart.xUnit), ...shown.map((s) => { const i = nearest(chart.xs(s), x); return told(s.y[i], unit) + spread(s, i, unit); })]);
    return { header: [chart.xTitle, ...shown.map((s) => s.label)], rows };
  },
};

const dots = {
  points,
  zooms: true,
  draw(chart) {
    chart.axes(...domains(chart));
    chart.inside((pen) => {
      rules(chart);
      for (const series of chart.shown()) this.series(chart, pen, series);
    });
    const found = chart.cursor;
    if (found?.dot) {
      chart.pen.strokeStyle = chart.ink;
      chart.pen.beginPath();
      chart.pen.arc(found.dot[0], found.dot[1], 6, 0, 7);
      chart.pen.stroke();
    }
  },
  series(chart, pen, series) {
    const xs = chart.xs(series), clip = (v) => Math.min(chart.box.bottom, Math.max(chart.box.top, chart.y(v)));
    pen.fillStyle = pen.strokeStyle = shade(series.style);
    pen.globalAlpha = 0.3;
    if (series.low) {
      pen.beginPath();
      xs.forEach((x, i) => { pen.moveTo(chart.x(x), clip(series.low[i])); pen.lineTo(chart.x(x), clip(series.high[i])); });
      pen.stroke();
    }
    pen.globalAlpha = 0.75;
    xs.forEach((x, i) => { if (series.y[i] !== null) pen.fillRect(chart.x(x) - 1.75, clip(series.y[i]) - 1.75, 3.5, 3.5); });
    pen.globalAlpha = 1;
  },
  find(chart, at) {
    let best = null, least = 20 ** 2;
    for (const series of chart.shown()) chart.xs(series).forEach((x, i) => {
      if (series.y[i] === null) return;
      const px = chart.x(x), py = Math.max(chart.box.top, chart.y(series.y[i]));
      const far = (px - at.x) ** 2 + (py - at.y) ** 2;
      if (far < least) { least = far; best = { series, i, dot: [px, py] }; }
    });
    if (!best) return null;
    const { series, i } = best, { spec } = chart;
    const name = series.names ? series.names[i] : `${chart.xTitle} ${told(chart.xs(series)[i], chart.xUnit)}`;
    const rows = [[series.label, told(series.y[i], spec.y.unit) + spread(series, i, spec.y.unit), series.style]];
    rows.push(...others(series, i));
    return { title: name, rows, dot: best.dot };
  },
  step: () => 8,
  table(chart) {
    const { spec } = chart;
    const rows = chart.shown().flatMap((s) => chart.xs(s).map((x, i) => [s.names?.[i] ?? String(i), s.label, told(x, chart.xUnit), told(s.y[i], spec.y.unit) + spread(s, i, spec.y.unit)]));
    const stride = Math.ceil(rows.length / 300);
    return { header: ["", "series", chart.xTitle, spec.y.title], rows: rows.filter((_, i) => i % stride === 0) };
  },
};

const bars = {
  points,
  zooms: false,
  draw(chart) {
    const { spec, pen } = chart, shown = chart.shown(), count = spec.x.names.length;
    const seen = [...shown.flatMap((s) => [s.y, s.high || []]), (spec.targets || []), [0]];
    chart.axes([0, count], padded(extent(seen), { zero: true, ...spec.y }), { xTicks: false });
    const { box } = chart, room = (box.right - box.left) / count;
    chart.cells = [];
    spec.x.names.forEach((name, k) => {
      const left = box.left + k * room + room * 0.08, wide = (room * 0.84) / Math.max(1, shown.length);
      shown.forEach((series, j) => this.bar(chart, pen, series, k, left + j * wide, wide));
      if (spec.targets && spec.targets[k] !== null) {
        pen.fillStyle = chart.ink;
        pen.fillRect(left - 3, chart.y(spec.targets[k]) - 1.5, room * 0.84 + 6, 3);
      }
      this.name(chart, name, box.left + (k + 0.5) * room, room, k);
    });
  },
  bar(chart, pen, series, k, left, wide) {
    if (series.y[k] === null) return;
    const top = chart.y(series.y[k]), base = chart.y(Math.max(0, chart.spec.y.log ? 1e-12 : 0));
    pen.fillStyle = shade(series.style);
    pen.globalAlpha = 0.85;
    pen.fillRect(left + 1, Math.min(top, base), Math.max(1, wide - 2), Math.abs(base - top));
    pen.globalAlpha = 1;
    if (series.low && series.high[k] > series.low[k]) {
      const x = left + wide / 2;
      chart.line(x, chart.y(series.low[k]), x, chart.y(series.high[k]), 0.8);
    }
  },
  name(chart, name, x, room, k) {
    const { pen, box } = chart, every = Math.ceil(38 / room);
    if (room < 38 && k % every) return;
    pen.fillStyle = chart.ink;
    pen.textAlign = "center";
    pen.textBaseline = "top";
    const tight = chart.spec.x.names.some((each) => pen.measureText(each).width > room);  // all in the same form
    const words = tight ? name.replace(/ (available|correlated|uncorrelated)/g, (w) => ({ " available": "" }[w] ?? ` ${w.trim().slice(0, 5)}.`)) : name;
    pen.fillText(words, x, box.bottom + 7, room * every - 2);
  },
  find(chart, at) {
    const { spec, box } = chart, count = spec.x.names.length;
    const k = Math.floor(((at.x - box.left) / (box.right - box.left)) * count);
    if (k < 0 || k >= count) return null;
    const rows = chart.shown().map((s) => [s.label, told(s.y[k], spec.y.unit) + spread(s, k, spec.y.unit), s.style]);
    if (spec.targets) rows.push(["target", told(spec.targets[k], spec.y.unit)]);
    return { title: spec.x.names[k], rows };
  },
  step: (chart) => (chart.box.right - chart.box.left) / chart.spec.x.names.length,
  table(chart) {
    const { spec } = chart, shown = chart.shown();
    const rows = spec.x.names.map((name, k) => [name, ...shown.map((s) => told(s.y[k], spec.y.unit) + spread(s, k, spec.y.unit)), ...(spec.targets ? [told(spec.targets[k], spec.y.unit)] : [])]);
    return { header: [spec.x.title, ...shown.map((s) => s.label), ...(spec.targets ? ["target"] : [])], rows };
  },
};

const MARKS = { lines, dots, bars };
