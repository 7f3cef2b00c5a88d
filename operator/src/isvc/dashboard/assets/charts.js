// The charts of a service: points come by the page's stream, and uPlot draws them.
"use strict";

const KEPT = 360;
const SHOWN = 60; // seconds that the charts are long, at least
const GAP = 75; // seconds between two points, after which something was not read
const figures = [...document.querySelectorAll("[data-chart]")];
const points = [];
const seconds = (v) => (v == null ? "–" : v === 0 ? "0" : v < 0.01 ? `${(v * 1000).toFixed(1)} ms` : v < 1 ? `${Math.round(v * 1000)} ms` : `${v.toFixed(1)} s`);
const number = (v) => (v == null ? "–" : v < 10 ? String(+v.toFixed(2)) : Math.round(v).toLocaleString("en"));
const bytes = (v) => (v == null ? "–" : v < 2 ** 30 ? `${Math.round(v / 2 ** 20)} MiB` : `${(v / 2 ** 30).toFixed(1)} GiB`);
const WRITTEN = { number, seconds, bytes };
const clock = (at) => new Date(at * 1000).toTimeString().slice(0, 8);
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const POWERS = Array.from({ length: 32 }, (_, power) => 2 ** (power + 16)); // between the marks of sizes
let plots = [];

// The points, and others without values: where the charts begin, and where a line is interrupted.
function rows() {
  const all = points.length ? points : [{ at: Date.now() / 1000 }];
  const begin = all.at(-1).at - SHOWN;
  const found = all[0].at > begin ? [{ at: begin }] : [];
  for (const point of all) {
    const last = found.at(-1) ?? point;
    if (point.at - last.at > GAP) found.push({ at: last.at + 1 });
    found.push(point);
  }
  return found;
}

function data(lines) {
  const shown = rows();
  return [shown.map((point) => point.at), ...lines.map(([field]) => shown.map((point) => point[field] ?? null))];
}

// The values that no line leads to: they are dots.
function alone(plot, index) {
  const values = plot.data[index];
  return [...values.keys()].filter((at) => values[at] !== null && (values[at - 1] ?? values[at + 1] ?? null) === null);
}

function make(figure) {
  const lines = JSON.parse(figure.dataset.lines);
  const written = WRITTEN[figure.dataset.written];
  const place = figure.querySelector(".plot");
  place.replaceChildren();
  const axis = { stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  const options = {
    width: place.clientWidth,
    height: place.clientHeight,
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, sync: { key: "charts" } },
    scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high || 1) * 1.1] } },
    axes: [{ ...axis, size: 26, space: 80, values: (_, ticks) => ticks.map(clock) }, { ...axis, size: 62, ...(written === bytes && { incrs: POWERS }), values: (_, ticks) => ticks.map(written) }],
    series: [{}, ...lines.map(([label, token]) => ({ label, stroke: color(token), width: 1.75, points: { show: true, filter: alone, size: 5, fill: color(token) }, spanGaps: false }))],
  };
  return { lines, written, figure, plot: new uPlot(options, data(lines), place) };
}

function now(lines, written, point) {
  const known = lines.filter(([field]) => point[field] != null);
  return known.map(([field]) => written(point[field])).join(" · ") || "–";
}

function makeAll() {
  for (const { plot } of plots) plot.destroy();
  plots = figures.map(make);
}

function draw() {
  const last = points.at(-1);
  document.querySelector(".charts").dataset.points = points.length;
  for (const { lines, written, plot, figure } of plots) {
    plot.setData(data(lines));
    if (last) figure.querySelector("output").textContent = now(lines, written, last);
    figure.hidden = "optional" in figure.dataset && points.length > 0 && points.every((point) => lines.every(([field]) => point[field] === null));
  }
  document.getElementById("charts-unread").hidden = points.length > 0;
  document.getElementById("charts-none").hidden = points.length === 0 || points.some((point) => point.rate > 0);
}

document.addEventListener("points", (event) => {
  for (const point of JSON.parse(event.detail.data)) {
    if (point.at > (points.at(-1)?.at ?? 0)) points.push(point);
  }
  points.splice(0, points.length - KEPT);
  draw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", makeAll);
new ResizeObserver(() => {
  for (const { plot, figure } of plots) {
    const place = figure.querySelector(".plot");
    if (place.clientWidth !== plot.width) plot.setSize({ width: place.clientWidth, height: place.clientHeight });
  }
}).observe(document.querySelector(".charts"));
makeAll();
