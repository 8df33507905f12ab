// Who was there: one row per client, one column per round, one colour per state. One strategy at a time.

MARKS.picture = {
  zooms: true,
  start(chart) {
    chart.cells = {};
    chart.choice = chart.figure.querySelector("select");
    chart.choice.addEventListener("change", () => chart.zoomTo(chart.zoom));
  },
  series(chart) { // the chosen one, or the first that is not hidden
    for (const option of chart.choice.options) option.disabled = hidden.has(option.value);
    if (hidden.has(chart.choice.value)) {
      const next = [...chart.choice.options].find((option) => !option.disabled);
      if (next) chart.choice.value = next.value;
    }
    return chart.spec.series.find((s) => s.label === chart.choice.value);
  },
  unpacked(chart, series) { // four cells a byte, or two of more states, the first in its lowest bits
    if (!chart.cells[series.label]) {
      const bytes = atob(series.cells), count = series.rounds.length * series.clients.length;
      const cells = new Uint8Array(count), bits = Object.keys(chart.spec.states).length > 4 ? 4 : 2, each = 8 / bits;
      for (let i = 0; i < count; i += 1) cells[i] = (bytes.charCodeAt(Math.floor(i / each)) >> (bits * (i % each))) & (2 ** bits - 1);
      chart.cells[series.label] = cells;
    }
    return chart.cells[series.label];
  },
  draw(chart) {
    const series = this.series(chart), { box, pen } = chart;
    const { rounds, clients } = series, last = rounds[rounds.length - 1] + (rounds[1] - rounds[0] || 1);
    const domain = chart.domain([rounds[0], last]);
    chart.axes(domain, [0, clients.length], { downward: true });
    const from = rounds.findIndex((r) => r + (rounds[1] - rounds[0] || 1) > domain[0]);
    const to = rounds.filter((r) => r < domain[1]).length;
    const image = this.image(chart, series, from, Math.max(from + 1, to));
    pen.imageSmoothingEnabled = image.width > box.right - box.left;
    pen.drawImage(image, box.left, box.top, box.right - box.left, box.bottom - box.top);
    for (const edge of series.edges || []) chart.line(box.left - 5, chart.y(edge), box.right, chart.y(edge), 1);
  },
  image(chart, series, from, to) {
    const cells = this.unpacked(chart, series), count = series.clients.length, width = series.rounds.length;
    const paint = Object.values(chart.spec.states).map((state) => [1, 3, 5].map((k) => parseInt(shade(state).slice(k, k + 2), 16)));
    const image = document.createElement("canvas");
    image.width = to - from;
    image.height = count;
    const pixels = new ImageData(to - from, count);
    for (let row = 0; row < count; row += 1) for (let t = from; t < to; t += 1) {
      const place = 4 * (row * (to - from) + t - from), colour = paint[cells[row * width + t]];
      pixels.data[place] = colour[0];
      pixels.data[place + 1] = colour[1];
      pixels.data[place + 2] = colour[2];
      pixels.data[place + 3] = 255;
    }
    image.getContext("2d").putImageData(pixels, 0, 0);
    return image;
  },
  find(chart, at) {
    const series = this.series(chart), { clients, rounds } = series;
    const row = Math.floor(chart.y.invert(at.y)), t = rounds.filter((r) => r <= chart.x.invert(at.x)).length - 1;
    if (row < 0 || row >= clients.length || t < 0 || at.x < chart.box.left || at.x > chart.box.right) return null;
    const [name, style] = Object.entries(chart.spec.states)[this.unpacked(chart, series)[row * rounds.length + t]];
    return { title: `client ${clients[row]}, ${chart.xTitle.toLowerCase()} ${rounds[t]}`, rows: [[series.label, name, style], ...others(series, row)] };
  },
  points(chart) {
    const series = this.series(chart), cells = this.unpacked(chart, series), states = Object.keys(chart.spec.states);
    const rows = series.clients.flatMap((client, row) => series.rounds.map((round, t) => [client, round, states[cells[row * series.rounds.length + t]]]));
    return [["client", chart.xTitle.toLowerCase(), `state (${series.label})`], ...rows];
  },
  step: (chart) => Math.max(1, (chart.box.right - chart.box.left) / 100),
  table(chart) {
    const series = this.series(chart), cells = this.unpacked(chart, series), width = series.rounds.length;
    const rows = series.clients.map((client, row) => {
      const counts = Object.keys(chart.spec.states).map(() => 0);
      for (let t = 0; t < width; t += 1) counts[cells[row * width + t]] += 1;
      return [String(client), ...counts.map((n) => told((100 * n) / width, "%"))];
    });
    return { header: [`client (${series.label})`, ...Object.keys(chart.spec.states)], rows };
  },
};
