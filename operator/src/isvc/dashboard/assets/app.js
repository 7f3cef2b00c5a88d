// What every page does: times that go on, the list of services, the form, keys, and what is said of the connection.
"use strict";

const ago = (seconds) => {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
};

function tick() {
  const now = Date.now();
  for (const element of document.querySelectorAll("time[data-live]")) {
    const since = (now - Date.parse(element.dateTime)) / 1000;
    const text = element.dataset.live === "until" ? `in ${ago(-since)}` : `${ago(since)} ago`;
    if (element.textContent !== text) element.textContent = text;
  }
}

// --- the filter and the order of all services; the address keeps them -------------------------------------------------------
const filter = document.querySelector("[data-filter]");

function wanted() {
  const query = new URLSearchParams(location.search);
  return { q: query.get("q") ?? "", health: query.get("health") ?? "", sort: query.get("sort") ?? "" };
}

function want(change) {
  const all = Object.entries({ ...wanted(), ...change });
  const query = new URLSearchParams(all.filter(([, value]) => value));
  history.replaceState(null, "", `${location.pathname}${query.size ? `?${query}` : ""}`);
  showWanted();
}

function showWanted() {
  if (!filter) return;
  const { q, health, sort } = wanted();
  arrange(sort);
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  const rows = document.getElementById("rows").rows;
  for (const row of rows) {
    const content = words.length ? row.textContent.toLowerCase() : "";
    const matches = (!health || row.dataset.health === health) && words.every((word) => content.includes(word));
    row.toggleAttribute("data-unmatched", !matches);
    shown += matches;
  }
  document.getElementById("none").hidden = shown > 0 || rows.length === 0;
  document.getElementById("services").hidden = filter.hidden = rows.length === 0;
  document.getElementById("empty").hidden = rows.length > 0;
  for (const button of document.querySelectorAll("[data-show]")) {
    button.setAttribute("aria-pressed", String(button.dataset.show === health));
  }
}

// By a column, as "5" or "-5"; else what needs somebody comes first. Only rows that are out of place are moved.
function arrange(sort) {
  const column = sort === "" ? 1 : Math.abs(Number(sort));
  const sign = sort.startsWith("-") ? -1 : 1;
  const of = (row, index) => row.cells[index]?.dataset.sort ?? "";
  const compare = (a, b) => (a === b ? 0 : a !== "" && b !== "" && !isNaN(a) && !isNaN(b) ? a - b : a < b ? -1 : 1);
  const body = document.getElementById("rows");
  const focused = document.activeElement;
  const rows = [...body.rows].sort((a, b) => sign * compare(of(a, column), of(b, column)) || compare(of(a, 0), of(b, 0)));
  rows.forEach((row, index) => { if (body.rows[index] !== row) body.insertBefore(row, body.rows[index]); });
  if (focused !== document.activeElement) focused.focus();
  for (const button of document.querySelectorAll("[data-column]")) {
    const isSorted = sort !== "" && Number(button.dataset.column) === column;
    button.parentElement.setAttribute("aria-sort", isSorted ? (sign > 0 ? "ascending" : "descending") : "none");
  }
}

if (filter) {
  document.querySelector(".services thead").addEventListener("click", (event) => {
    const column = event.target.closest("[data-column]")?.dataset.column;
    if (!column) return;
    const begin = column > 2 ? [`-${column}`, column, ""] : [column, `-${column}`, ""]; // of numbers, the largest first
    want({ sort: begin[(begin.indexOf(wanted().sort) + 1) % 3] });
  });
  const search = document.getElementById("search");
  search.value = wanted().q;
  filter.addEventListener("submit", (event) => event.preventDefault());
  search.addEventListener("input", () => want({ q: search.value }));
  filter.addEventListener("click", (event) => {
    const button = event.target.closest("[data-show]");
    if (button) want({ health: button.dataset.show });
  });
  document.querySelector("[data-clear]").addEventListener("click", () => {
    search.value = "";
    want({ q: "", health: "" });
    search.focus();
  });
}

// --- a request: its body stays when the tab changes, an image is shown, and it is copied as a command --------
const draft = (form) => `body ${form.dataset.url}`;

function showForm() {
  const form = document.querySelector("[data-send]");
  if (!form) return;
  const { body } = form.elements;
  body.value = sessionStorage.getItem(draft(form)) ?? body.value;
  form.querySelector("[data-sample]").hidden = body.value === body.defaultValue;
}

document.addEventListener("input", (event) => {
  const form = event.target.form;
  if (event.target.id !== "body" || !form.matches("[data-send]")) return;
  sessionStorage.setItem(draft(form), event.target.value);
  showForm();
});

document.addEventListener("change", async (event) => {
  if (event.target.id !== "file") return;
  const canvas = document.getElementById("preview");
  event.target.form.toggleAttribute("data-file", event.target.files.length > 0);
  const image = await createImageBitmap(event.target.files[0]).catch(() => null); // also without a file
  canvas.hidden = !image;
  if (!image) return;
  const scale = Math.min(1, 320 / image.width, 200 / image.height);
  [canvas.width, canvas.height] = [Math.max(1, image.width * scale), Math.max(1, image.height * scale)];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
});

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`; // for a shell

function python(text) {
  try {
    const values = { true: "True", false: "False", null: "None" };
    const tokens = /"(?:[^"\\]|\\.)*"|true|false|null/g;
    return JSON.stringify(JSON.parse(text), null, 2).replace(tokens, (token) => values[token] ?? token);
  } catch {
    return null;
  }
}

const COMMANDS = {
  curl(url, body, file, inFile) {
    const send = `curl -X POST ${quoted(url)} -H 'Content-Type: application/json'`;
    if (!file) return `${send} -d ${quoted(body)}`;
    return `printf ${quoted(inFile.replace("FILE", "%s"))} "$(base64 < ${quoted(file)} | tr -d '\\n')" | ${send} -d @-`;
  },
  python(url, body, file, inFile) {
    const [library, data] = file
      ? ["import base64\n", python(inFile).replace('"FILE"', `base64.b64encode(open(${JSON.stringify(file)}, "rb").read()).decode()`)]
      : ["", python(body)];
    const sent = data === null ? `${JSON.stringify(body)}.encode()` : "json.dumps(body).encode()";
    return `${library}import json\nimport urllib.request\n\n${data === null ? "" : `body = ${data}\n`}headers = {"Content-Type": "application/json"}\n`
      + `request = urllib.request.Request(${JSON.stringify(url)}, ${sent}, headers)\nprint(urllib.request.urlopen(request).read().decode())\n`;
  },
};

// --- keys: those that the dialog lists ------------------------------------------------------------------------
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select");
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.form?.matches("[data-send]")) {
    event.target.form.requestSubmit();
  } else if (typing || event.ctrlKey || event.metaKey || event.altKey) {
    return;
  } else if (event.key === "/") {
    const search = document.querySelector("input[type=search]");
    if (!search) return;
    event.preventDefault();
    search.focus();
  } else if (filter && (event.key === "j" || event.key === "k")) {
    const links = [...document.querySelectorAll("#rows tr:not([data-unmatched]) a")];
    const next = links.indexOf(document.activeElement) + (event.key === "j" ? 1 : -1);
    links[Math.min(Math.max(next, 0), links.length - 1)]?.focus();
  } else if (event.key === "?") {
    document.getElementById("keys").showModal();
  } else if (event.key === "u") {
    document.querySelector(".crumbs a")?.click();
  } else {
    document.querySelector(`.tabs [data-key="${CSS.escape(event.key)}"]`)?.click();
  }
});

function copied({ dataset, form }) {
  if (dataset.copy) return document.getElementById(dataset.copy).textContent;
  return COMMANDS[dataset.copyAs](form.dataset.url, form.elements.body.value, form.elements.file.files[0]?.name, form.dataset.withFile);
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button");
  if (button?.matches("[data-keys]")) document.getElementById("keys").showModal();
  if (button?.matches("[data-sample]")) {
    sessionStorage.removeItem(draft(button.form));
    button.form.elements.body.value = button.form.elements.body.defaultValue;
    showForm();
  }
  if (!button?.matches("[data-copy], [data-copy-as]")) return;
  await navigator.clipboard.writeText(copied(button));
  const text = button.textContent;
  if (text === "Copied") return;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = text; }, 1500);
});

// --- what is said to all: the connection, and how the service is --------------------------------------------
function connection(state, text) {
  const element = document.getElementById("connection");
  if (element.dataset.state === state) return;
  element.dataset.state = state;
  element.textContent = text;
}

let announced = document.querySelector("[data-announce]")?.dataset.announce;
document.addEventListener("htmx:sse:after:connection", () => connection("live", "Live"));
for (const name of ["htmx:sse:error", "htmx:error", "htmx:sse:close"]) {
  document.addEventListener(name, (event) => {
    if (!event.target.hasAttribute?.("hx-sse:connect")) return;
    connection("lost", "Connection lost; trying again");
    if (document.querySelector(".person")) signInAgain();
  });
}

// Who is not signed in any more is led from a page to the form, and gets nothing of a stream.
async function signInAgain() {
  const response = await fetch(location.href, { redirect: "manual", headers: { Accept: "text/html" } }).catch(() => null);
  if (response && (response.type === "opaqueredirect" || response.status === 401)) location.reload();
}
document.addEventListener("htmx:after:swap", (event) => {
  tick();
  if (event.target.id === "form" || event.target.closest?.("#form")) showForm();
  // On a phone the response is below the form.
  if (event.target.matches?.("[data-send]") && matchMedia("(max-width: 46rem)").matches) document.getElementById("response-title").scrollIntoView();
  showWanted();
  const text = document.querySelector("[data-announce]")?.dataset.announce;
  if (text && text !== announced) document.getElementById("announced").textContent = announced = text;
});

document.querySelector(".tabs [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
tick();
setInterval(tick, 1000);
showWanted();
