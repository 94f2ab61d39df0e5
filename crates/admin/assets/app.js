// Live charts and sortable tables. Pages are complete without this script.
"use strict";

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const units = ["", "k", "M", "G", "T", "P"];

// A number with three digits and a unit, as in the text of the page.
function short(value, unit) {
  if (value == null) return "–";
  let index = 0;
  while (Math.abs(value) >= 999.5 && index < units.length - 1) { value /= 1000; index += 1; }
  const digits = value === 0 || Math.abs(value) >= 99.95 ? 0 : Math.abs(value) >= 9.995 ? 1 : 2;
  const suffix = unit === "bytes/s" ? "B/s" : unit === "bytes" ? "B" : unit === "per second" ? "/s" : "";
  return `${value.toFixed(digits)} ${units[index]}${suffix}`;
}

// Labels of a time axis: times of a day, or dates of a longer range.
const clock = (range) => (_, ticks) => ticks.map((tick) => {
  const text = new Date(tick * 1000).toISOString();
  return range === "quarter" ? text.slice(5, 10) : text.slice(11, range === "hour" && tick % 60 ? 19 : 16);
});

const charts = [];

// Appends a point. A gap of more than three steps interrupts the lines.
function append(data, columns, point, step) {
  const before = data[0].at(-1);
  if (before !== undefined && point[0] - before > 3 * step) {
    data[0].push(before + step);
    columns.forEach((_, index) => data[index + 1].push(null));
  }
  data[0].push(point[0]);
  columns.forEach((column, index) => data[index + 1].push(point[column]));
}

function draw(figure, history) {
  const names = figure.dataset.series.split(",");
  const labels = figure.dataset.labels.split(",");
  const unit = figure.dataset.unit;
  const columns = names.map((name) => history.series.indexOf(name) + 1);
  const data = [[], ...columns.map(() => [])];
  history.points.forEach((point) => append(data, columns, point, history.step));
  const holder = document.createElement("div");
  const axis = { stroke: css("--soft"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line") } };
  const options = {
    width: figure.clientWidth, height: 190, pxAlign: false, cursor: { sync: { key: history.range } },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.05 : 1] } },
    axes: [{ ...axis, values: clock(history.range) }, { ...axis, size: 74, values: (_, ticks) => ticks.map((tick) => short(tick, unit)) }],
    series: [{ label: "UTC", value: (_, at) => (at == null ? "–" : new Date(at * 1000).toISOString().slice(0, 16).replace("T", " ")) }, ...labels.map((label, index) => ({
      label, stroke: css(`--line${index}`), width: 1.6, points: { show: false }, value: (_, value) => short(value, unit),
    }))],
  };
  const plot = new uPlot(options, data, holder);
  figure.querySelector("svg").replaceWith(holder);
  figure.querySelectorAll(".key").forEach((key) => key.remove());
  const resize = new ResizeObserver(() => { if (figure.clientWidth > 0) plot.setSize({ width: figure.clientWidth, height: 190 }); });
  resize.observe(figure);
  charts.push({ plot, columns, data, range: history.range, step: history.step });
}

async function load(range) {
  const figures = document.querySelectorAll(`figure.chart[data-range="${range}"]`);
  if (figures.length === 0) return;
  const answer = await fetch(`/history.json?range=${range}`);
  if (!answer.ok) return;
  const history = await answer.json();
  if (history.points.length > 1) figures.forEach((figure) => draw(figure, history));
}

function add(point) {
  for (const chart of charts.filter((chart) => chart.range === "hour")) {
    append(chart.data, chart.columns, point, chart.step);
    while (chart.data[0][0] < point[0] - 3600) chart.data.forEach((column) => column.shift());
    chart.plot.setData(chart.data);
  }
}

function follow() {
  const live = document.getElementById("live");
  const events = new EventSource("/events");
  events.onopen = () => { live.textContent = "live · times are UTC"; };
  events.onmessage = (event) => add(JSON.parse(event.data));
  events.onerror = () => { live.textContent = "not live: reload the page · times are UTC"; };
  addEventListener("pagehide", () => events.close());
}

const multipliers = { B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, PB: 1e15, ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400 };

function key(cell) {
  const text = cell.textContent.replace(/\u202f/g, "").trim();
  const match = /^(-?[\d.]+)(?: ?(kB|MB|GB|TB|PB|B|ms|min|h|d|s|%))?(?:\/s)?\b/.exec(text);
  if (!match || /^\d{4}-/.test(text) || !cell.classList.contains("number")) return text;
  return Number(match[1]) * (multipliers[match[2]] ?? 1);
}

function sort(table, column, head) {
  const ascending = head.getAttribute("aria-sort") === "descending";
  table.querySelectorAll("th[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [key(row.cells[column]), row]);
  rows.sort(([a], [b]) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b))));
  if (!ascending) rows.reverse();
  body.append(...rows.map(([, row]) => row));
}

for (const table of document.querySelectorAll("table")) {
  if (table.tBodies[0].rows.length < 3) continue;
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    if (!head.textContent) return;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.title = "Sort";
    button.addEventListener("click", () => sort(table, column, head));
    head.replaceChildren(button);
  });
}

if (document.querySelector("figure.chart")) {
  Promise.all(["hour", "day", "quarter"].map(load)).then(follow);
}
