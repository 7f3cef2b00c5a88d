// The log of a container or of all: followed by a stream, searched here. It keeps so many lines, and shows the newest
// that match.
"use strict";

const view = document.querySelector("[data-log]");
const SHOWN = 1500; // lines in the page at a time: more would make it slow, and nobody reads them
const KEPT = Number(view.dataset.kept);
const at = (id) => document.getElementById(id);
const lines = at("lines");
let kept = [];
let pending = [];
let stream = null;
let frame = 0;
let received = 0;
let chosen = ""; // the id of the container's option
let all = ""; // the containers whose logs are one
let drawnTo = 0; // where the view was scrolled to by the page itself
let ended = ""; // why no more lines come
const OWN_TIME = /^\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d([.,]\d+)?(Z|[+-]\d\d:?\d\d)?\]?\s+/;
const RANK = { debug: 0, info: 1, warning: 2, error: 3 };

function matches([, level, text]) {
  const needle = at("find").value.toLowerCase();
  return RANK[level] >= (RANK[at("level").value] ?? 0) && (!needle || text.toLowerCase().includes(needle));
}

function part(tag, name, text) {
  const element = document.createElement(tag);
  element.className = name;
  element.append(text);
  return element;
}

function row([time, level, text, from]) {
  const element = part("div", level, "");
  const needle = at("find").value.toLowerCase();
  const found = needle ? text.toLowerCase().indexOf(needle) : -1;
  const own = (time && OWN_TIME.exec(text)?.[0]) || "";
  if (time) {
    element.append(part("span", "at", time.slice(11, 23).replace("Z", "")));
    element.firstChild.title = own ? `${time}; the line says ${own.trim()}` : time;
  }
  if (from) element.append(part("span", "from", from));
  // The line's own time is not shown beside this one, unless it is what is searched; it is copied with the line.
  const begin = found >= 0 && found < own.length ? 0 : own.length;
  element.append(part("span", "own", text.slice(0, begin)));
  if (found < 0) element.append(text.slice(begin));
  else element.append(text.slice(begin, found), part("mark", "", text.slice(found, found + needle.length)), text.slice(found + needle.length));
  return element;
}

function say(text) {
  at("log-state").textContent = text;
}

function count() {
  const shown = lines.childElementCount;
  const held = received > KEPT ? ` The newest ${KEPT.toLocaleString("en")} of them are kept.` : "";
  const errors = begins().length;
  at("errors").hidden = !errors;
  at("errors").textContent = `${errors} error${errors > 1 ? "s" : ""} ↓`;
  say(`${received.toLocaleString("en")} lines, ${shown.toLocaleString("en")} shown.${held} ${ended}`.trim());
}

// What has come since the last frame is added at once: a flood of lines costs one layout a frame.
function draw() {
  frame = 0;
  const added = pending.filter(matches).slice(-SHOWN);
  const before = kept.length;
  received += pending.length;
  kept.push(...pending);
  const isLate = pending.some(([time], index) => time < (kept[before + index - 1]?.[0] ?? "")); // of another container
  if (isLate) kept.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  if (kept.length > KEPT) kept = kept.slice(-KEPT);
  pending = [];
  if (isLate) return drawAll();
  lines.append(...added.map(row));
  while (lines.childElementCount > SHOWN) lines.firstElementChild.remove();
  toEnd();
  count();
}

// The first line of each error that is shown: a traceback is one.
function begins() {
  return [...lines.querySelectorAll(".error")].filter((one) => !one.previousElementSibling?.classList.contains("error"));
}

function jump(forward) {
  const top = lines.getBoundingClientRect().top + 40;
  const where = (one) => one.getBoundingClientRect().top - top;
  const found = begins();
  const next = forward ? found.find((one) => where(one) > 1) ?? found[0] : found.findLast((one) => where(one) < -1) ?? found.at(-1);
  if (!next) return;
  at("follow").checked = false;
  lines.scrollTop += where(next);
  for (const one of lines.querySelectorAll(".found")) one.classList.remove("found");
  next.classList.add("found");
}

function toEnd() {
  if (!at("follow").checked) return;
  lines.scrollTop = lines.scrollHeight;
  drawnTo = lines.scrollTop;
}

function drawAll() {
  lines.replaceChildren(...kept.filter(matches).slice(-SHOWN).map(row));
  toEnd();
  count();
}

function clear() {
  kept = [];
  pending = [];
  received = 0;
  lines.replaceChildren();
}

function open() {
  leave();
  clear();
  ended = "";
  const option = at("container").selectedOptions[0];
  chosen = option?.id ?? "";
  if (!option) return say("No container has been started.");
  const { pod, container, previous } = option.dataset;
  all = containers();
  const query = new URLSearchParams(pod ? { pod, container, ...(previous && { previous }) } : {});
  history.replaceState(null, "", `${location.pathname}?${query}`);
  if (document.hidden) return; // it is opened when it is seen
  say("Reading…");
  stream = new EventSource(`${view.dataset.log}?${query}`);
  stream.addEventListener("open", () => { if (!received && !pending.length) say("No lines yet."); });
  stream.addEventListener("lines", (event) => {
    for (const line of JSON.parse(event.data)) pending.push(line);
    if (pending.length > KEPT) {
      received += pending.length - KEPT;
      pending = pending.slice(-KEPT);
    }
    frame ||= requestAnimationFrame(draw);
  });
  stream.addEventListener("end", (event) => {
    stream.close();
    ended = `${JSON.parse(event.data)}.`;
    frame ||= requestAnimationFrame(draw);
  });
  stream.addEventListener("error", () => {
    // The browser connects again, and the log begins again.
    if (stream.readyState === EventSource.CLOSED) return say("The log cannot be read; choose the container again.");
    clear();
    say("Connection lost; trying again.");
  });
}

const containers = () => [...at("container").options].map((option) => option.id).join(" ");

// The container that the address names, else the first server.
function choose() {
  const query = new URLSearchParams(location.search);
  const options = [...at("container").options];
  const isAsked = ({ dataset }) => dataset.pod === query.get("pod") && dataset.container === query.get("container") && (dataset.previous ?? null) === query.get("previous");
  const option = options.find(isAsked) ?? options.find((one) => one.dataset.purpose === "server");
  if (option) option.selected = true;
}

function leave() {
  stream?.close();
  stream = null;
}

at("container").addEventListener("change", open);
at("find").addEventListener("input", drawAll);
at("level").addEventListener("change", drawAll);
at("follow").addEventListener("change", drawAll);
at("errors").addEventListener("click", () => jump(true));
document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() === "e" && !event.target.closest("input, textarea, select") && !event.ctrlKey && !event.metaKey) jump(event.key === "e");
});
at("wrap").addEventListener("change", () => lines.classList.toggle("wrap", at("wrap").checked));
// By wheel, touch, keys or the scroll bar: who goes up reads there, and who comes to the end follows again.
lines.addEventListener("scroll", () => {
  const isAtEnd = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 4;
  if (lines.scrollTop < drawnTo - 4 && !isAtEnd) at("follow").checked = false;
  else if (isAtEnd) [at("follow").checked, drawnTo] = [true, lines.scrollTop];
}, { passive: true });
view.querySelector("form").addEventListener("submit", (event) => event.preventDefault());

// The list of containers has changed: what is read stays chosen.
document.addEventListener("htmx:after:swap", () => {
  const option = chosen && at("container").namedItem(chosen);
  if (option) {
    option.selected = true;
    if (!option.dataset.pod && all !== containers()) open(); // there are others now
  } else if (chosen) at("container").selectedIndex = -1; // its pod is gone; what was read of it stays
  else if (at("container").options.length) { choose(); open(); }
});

// A page that nobody sees gives its connection back: a browser has six of them for a host.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) leave();
  else if (!stream && !ended) open();
});

if (matchMedia("(max-width: 46rem)").matches) at("wrap").checked = true;
lines.classList.toggle("wrap", at("wrap").checked);
choose();
open();
