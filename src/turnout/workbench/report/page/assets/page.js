// What holds the page together: the data, the tip, tables behind charts, switches of strategies and of light and dark.

const specs = JSON.parse(document.getElementById("data").textContent); // of all charts, by name
const tip = document.getElementById("tip");

function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function hideTip() { tip.hidden = true; }

function showTip(chart, found) {
  tip.replaceChildren(element("b", found.title));
  for (const [label, value, style] of found.rows.slice(0, 16)) {
    const row = element("div");
    if (style) { const swatch = element("i"); swatch.style.background = shade(style); row.append(swatch); }
    row.append(element("span", label), element("span", value));
    tip.append(row);
  }
  tip.hidden = false;
  const at = chart.cursor.at, where = chart.canvas.getBoundingClientRect();
  const room = root.clientWidth - tip.offsetWidth - 8;
  const right = where.left + at.x + 16, left = where.left + at.x - tip.offsetWidth - 16;
  tip.style.left = `${Math.max(4, right <= room || left < 4 ? Math.min(right, room) : left) + scrollX}px`;
  tip.style.top = `${where.top + Math.max(0, Math.min(at.y, chart.box.height) - tip.offsetHeight - 12) + scrollY}px`;
}

function fillTable(details, chart) { // built when it is opened: a page of many numbers stays light
  const { header, rows } = chart.shown().length || chart.choice ? chart.marks.table(chart) : { header: [], rows: [] };
  const table = element("table"), head = element("tr"), body = element("tbody");
  header.forEach((cell) => head.append(element("th", cell, { scope: "col" })));
  for (const row of rows) {
    const line = element("tr");
    row.forEach((cell, i) => line.append(element(i ? "td" : "th", cell, i ? {} : { scope: "row" })));
    body.append(line);
  }
  table.append(element("thead"), body);
  table.tHead.append(head);
  details.querySelector(".scroll").replaceChildren(table);
}

function chartIn(figure) { // made when it is first needed
  if (!figure.chart) charts.push(figure.chart = new Chart(figure, specs[figure.dataset.chart]));
  return figure.chart;
}

function startCharts() {
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) {
      seen.unobserve(entry.target);
      chartIn(entry.target);
    }
  }, { rootMargin: "400px" });
  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    seen.observe(figure);
    const details = figure.querySelector("details.numbers");
    details.addEventListener("toggle", () => { if (details.open) fillTable(details, chartIn(figure)); });
    for (const button of figure.querySelectorAll("[data-save]")) {
      button.addEventListener("click", () => save(chartIn(figure), figure.dataset.chart, button.dataset.save));
    }
  }
}

function startPrinting() { // a printed page has all charts, also those that nobody has scrolled to
  addEventListener("beforeprint", () => {
    onPaper = true;
    for (const figure of document.querySelectorAll("figure[data-chart]")) chartIn(figure).draw();
  });
  addEventListener("afterprint", () => { onPaper = false; redrawAll(); });
}

function sortBy(table, column, rising) {
  const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
  const number = (text) => parseFloat(text.replaceAll(",", "").replace("−", "-"));
  const order = (a, b) => {
    const [x, y] = [number(value(a)), number(value(b))];
    if (Number.isNaN(x) && Number.isNaN(y)) return (rising ? 1 : -1) * value(a).localeCompare(value(b));
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y); // without a number: last
    return rising ? x - y : y - x;
  };
  const body = table.tBodies[0];
  body.append(...[...body.rows].sort(order));
  [...table.tHead.rows[0].cells].forEach((head, i) => {
    if (i === column) head.ariaSort = rising ? "ascending" : "descending"; else head.removeAttribute("aria-sort");
  });
}

function startSorting() {
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = element("button", head.textContent, { type: "button", class: "sort", title: "Sort by this column" });
      button.addEventListener("click", () => sortBy(table, column, head.ariaSort !== "ascending"));
      head.replaceChildren(button);
    });
  }
}

function show(label, wanted) {
  if (wanted) hidden.delete(label); else hidden.add(label);
  for (const button of document.querySelectorAll(".legend [data-label]")) {
    if (button.dataset.label === label) button.setAttribute("aria-pressed", String(wanted));
  }
  for (const row of document.querySelectorAll("tr[data-label]")) {
    if (row.dataset.label === label) row.classList.toggle("off", !wanted);
  }
}

function redrawAll() {
  hideTip();
  for (const chart of charts) {
    chart.redraw();
    const details = chart.figure.querySelector("details.numbers");
    if (details.open) fillTable(details, chart);
  }
  const all = document.querySelector(".legend [data-all]");
  if (all) all.hidden = !hidden.size;
}

function startLegend() {
  for (const button of document.querySelectorAll(".legend [data-label]")) {
    button.addEventListener("click", (event) => {
      if (event.shiftKey || event.altKey) { // this one alone
        for (const other of document.querySelectorAll(".legend [data-label]")) show(other.dataset.label, other === button);
      } else show(button.dataset.label, hidden.has(button.dataset.label));
      redrawAll();
    });
  }
  document.querySelector(".legend [data-all]")?.addEventListener("click", () => {
    for (const label of [...hidden]) show(label, true);
    redrawAll();
  });
}

function startAxes() {
  for (const radio of document.querySelectorAll("input[name=over]")) {
    radio.addEventListener("change", () => {
      over = radio.value;
      for (const chart of charts) if (chart.spec.x.choices) chart.zoom = null;
      redrawAll();
    });
  }
}

function startTheme() {
  const button = document.querySelector("button.theme");
  const kept = (() => { try { return localStorage.getItem("turnout-theme"); } catch { return null; } })();
  if (kept) root.dataset.theme = kept;
  const name = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Change to light colours" : "Change to dark colours");
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("turnout-theme", root.dataset.theme); } catch { /* a page from a file may not keep anything */ }
    name();
    redrawAll();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { name(); redrawAll(); });
  name();
}

function startCopying() {
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.addEventListener("click", async () => {
      const text = document.getElementById(button.dataset.copy).textContent;
      try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; } catch { button.textContent = "Select it and copy"; }
    });
  }
}

startTheme();
startCharts();
startLegend();
startAxes();
startCopying();
startSorting();
startPrinting();
