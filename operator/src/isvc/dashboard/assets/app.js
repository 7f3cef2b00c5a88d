// What every page does: times that go on, the filter of services, copying, and what is said of the connection.
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
    const text = `${ago((now - Date.parse(element.dateTime)) / 1000)} ago`;
    if (element.textContent !== text) element.textContent = text;
  }
}

// --- the filter of all services; the address keeps it -------------------------------------------------------
const filter = document.querySelector("[data-filter]");

function wanted() {
  const query = new URLSearchParams(location.search);
  return { text: query.get("q") ?? "", health: query.get("health") ?? "" };
}

function want(change) {
  const all = { ...wanted(), ...change };
  const query = new URLSearchParams();
  if (all.text) query.set("q", all.text);
  if (all.health) query.set("health", all.health);
  history.replaceState(null, "", `${location.pathname}${query.size ? `?${query}` : ""}`);
  showWanted();
}

function showWanted() {
  if (!filter) return;
  const { text, health } = wanted();
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  const rows = document.getElementById("rows").rows;
  for (const row of rows) {
    const content = words.length ? row.textContent.toLowerCase() : "";
    const matches = (!health || row.dataset.health === health) && words.every((word) => content.includes(word));
    row.toggleAttribute("data-unmatched", !matches);
    shown += matches;
  }
  document.getElementById("none").hidden = shown > 0 || rows.length === 0;
  for (const button of document.querySelectorAll("[data-show]")) {
    button.setAttribute("aria-pressed", String(button.dataset.show === health));
  }
}

if (filter) {
  const search = document.getElementById("search");
  search.value = wanted().text;
  filter.addEventListener("submit", (event) => event.preventDefault());
  search.addEventListener("input", () => want({ text: search.value }));
  filter.addEventListener("click", (event) => {
    const button = event.target.closest("[data-show]");
    if (button) want({ health: button.dataset.show });
  });
  document.querySelector("[data-clear]").addEventListener("click", () => {
    search.value = "";
    want({ text: "", health: "" });
    search.focus();
  });
}

// --- keys: / searches, j and k go from service to service, Ctrl Enter sends ---------------------------------
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
  }
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
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
