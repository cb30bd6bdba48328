"use strict";
// The status page's only script: signs in by the link's key, keeps a page up to date, draws curves.
// What it inserts as HTML was rendered and escaped by the server.

const find = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// ---- signing in -----------------------------------------------------------------------------------------------------

async function signIn(main) {
  const hash = location.hash;
  if (hash.startsWith("#/")) {
    find("[name=next]", main).value = main.dataset.next += hash; // a place inside MLflow, which browsers keep to themselves
  } else if (hash) {
    const key = decodeURIComponent(hash.slice(1));
    history.replaceState(null, "", location.pathname + location.search); // out of sight, and out of the history
    find("#token").value = key;
    find("form", main).submit();
    return;
  }
  // A link from another site comes without our cookie, although it is there.
  const answer = await fetch("/session", { cache: "no-store" }).catch(() => null);
  if (answer?.ok && (await answer.json()).signed_in) location.replace(main.dataset.next);
}

// ---- keeping a page up to date: it is fetched anew, and what differs is replaced ------------------------------------

let busy = false;
let failures = 0;
let timer = null;

async function update() {
  if (busy) return;
  busy = true;
  clearTimeout(timer);
  const began = performance.now();
  const main = find("main");
  try {
    const fresh = new DOMParser().parseFromString(await (await fetchFresh(location.href)).text(), "text/html");
    document.title = fresh.title;
    morph(main, find("main", fresh));
    if (find("#legend")) await drawCurves(main);
    failures = 0;
    say(main.dataset.again ? "live" : "", main.dataset.status);
  } catch {
    failures += 1;
    say("lost", "The server does not answer; trying again. Nothing will be missing");
  }
  busy = false;
  const wait = 1000 * (failures ? Math.min(15, 2 ** failures) : main.dataset.again);
  const work = 4 * (performance.now() - began); // a large sweep keeps neither the server nor the browser busy
  if (failures || main.dataset.again) timer = setTimeout(update, Math.max(wait, work, document.hidden ? 15000 : 0));
}

async function fetchFresh(address) {
  const answer = await fetch(address, { cache: "no-store" });
  if (answer.redirected || answer.status === 401)
    location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
  if (!answer.ok) throw new Error(answer.statusText);
  return answer;
}

// Make an element equal to a fresh one, touching only what differs, so that focus, selection and ticks stay.
// What is marked data-keep belongs to this script or to the reader.
function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== Node.ELEMENT_NODE || old.nodeName !== fresh.nodeName) return old.replaceWith(fresh);
  if ("keep" in old.dataset && "keep" in fresh.dataset) return;
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const [present, wanted] = [[...old.childNodes], [...fresh.childNodes]];
  for (const surplus of present.slice(wanted.length)) surplus.remove();
  wanted.forEach((node, place) => (place < present.length ? morph(present[place], node) : old.append(node)));
}

function say(state, text) {
  const place = find("#connection");
  if (!place || place.textContent === text) return;
  place.className = `soft ${state}`;
  place.textContent = text;
}

// ---- curves ---------------------------------------------------------------------------------------------------------

let curves = { chunk: 0, lines: [] };
let lit = null; // the config whose legend entry is pointed at
let lighting = null;

async function drawCurves(main) {
  if (Number(main.dataset.chunk) > curves.chunk) curves = await (await fetchFresh(`${location.pathname}/curves`)).json();
  draw();
}

function draw() {
  if (find(".curves").hidden) return; // what is hidden has no size to draw in
  find("#stages").hidden = new Set(curves.lines.map((line) => line.stage)).size < 2;
  const stage = find("#stages :checked").value;
  const lines = curves.lines.filter((line) => line.stage === stage);
  const recorded = new Set(lines.map((line) => line.config));
  for (const entry of all("#legend label")) entry.hidden = !recorded.has(entry.control.value);
  const looks = all("#legend label:not([hidden]):has(:checked)").map(look);
  for (const chart of all(".chart")) {
    const byConfig = new Map(lines.filter((line) => line.key === chart.dataset.key).map((line) => [line.config, line]));
    const drawn = looks.filter(({ config }) => byConfig.has(config)).map((each) => ({ ...each, ...byConfig.get(each.config) }));
    drawChart(chart, drawn, Number(find("main").dataset.steps));
  }
}

// Colour and dashes of a config are those that the style sheet gives its swatch, in light and in dark.
function look(entry) {
  const { stroke, strokeDasharray } = getComputedStyle(find("line", entry));
  const name = entry.textContent.trim().replaceAll("&", "&amp;").replaceAll("<", "&lt;"); // plotly knows some HTML
  return { config: entry.control.value, name, stroke, dash: strokeDasharray === "none" ? "solid" : strokeDasharray };
}

function drawChart(chart, lines, steps) {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const traces = lines.map(({ config, name, stroke, dash, x, mean, n }) => ({
    meta: config, name, x, y: mean, customdata: n, mode: "lines", hovertemplate: "%{y:.4~g} n=%{customdata}",
    line: { color: stroke, dash, width: config === lit ? 3 : 1.6, simplify: false }, opacity: lit && config !== lit ? 0.13 : 1,
  }));
  const range = lines.find((line) => line.config === lit);
  if (range)
    traces.push({
      x: [...range.x, ...[...range.x].reverse()], y: [...range.high, ...[...range.low].reverse()], mode: "lines",
      fill: "toself", fillcolor: range.stroke, line: { width: 0 }, opacity: 0.16, hoverinfo: "skip",
    });
  // A dot where a line ends that still grows, and for a single point, which is no line.
  const growing = lines.filter(({ x }) => x.length === 1 || x.at(-1) < 0.995 * steps);
  traces.push({
    x: growing.map(({ x }) => x.at(-1)), y: growing.map(({ mean }) => mean.at(-1)), mode: "markers", hoverinfo: "skip",
    marker: { color: growing.map(({ stroke }) => stroke), size: 6, opacity: lit ? 0.3 : 1 },
  });
  const axis = { gridcolor: colour("grid"), zeroline: false, automargin: true, fixedrange: innerWidth < 860 };
  const layout = {
    margin: { l: 44, r: 10, t: 8, b: 36 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
    font: { family: colour("font"), size: 11.5, color: colour("muted") }, uirevision: "zoom stays",
    hovermode: lines.length > 12 ? "closest" : "x unified", dragmode: innerWidth < 860 ? false : "zoom",
    hoverlabel: { bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("ink"), size: 12 } },
    xaxis: { ...axis, range: [-0.01 * steps, 1.01 * steps], title: { text: "step", standoff: 4 }, hoverformat: ".0f", unifiedhovertitle: { text: "step %{x}" } },
    yaxis: axis,
    annotations: lines.length ? [] : [{ text: "nothing recorded yet", xref: "paper", yref: "paper", x: 0.5, y: 0.5, showarrow: false }],
  };
  Plotly.react(chart, traces, layout, { displayModeBar: false });
}

function readWithKeys(event) {
  const chart = event.currentTarget;
  const steps = [...new Set(chart.data.flatMap((trace) => (trace.meta ? trace.x : [])))].sort((a, b) => a - b);
  const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (event.key === "Escape") Plotly.Fx.unhover(chart);
  if (!move || !steps.length) return;
  event.preventDefault();
  const now = chart.at ?? (move > 0 ? -1 : steps.length);
  chart.at = Math.min(steps.length - 1, Math.max(0, now + move));
  Plotly.Fx.hover(chart, { xval: steps[chart.at] });
}

function light(entry) {
  const config = entry?.control.value ?? null;
  if (config === lit) return;
  lit = config;
  clearTimeout(lighting); // who moves over ten entries waits for one drawing
  lighting = setTimeout(draw, 80);
}

// ---- which page this is ---------------------------------------------------------------------------------------------

if (find("#mlflow")) {
  find("[name=to]").value = location.hash;
  find("#mlflow form").submit();
}
if (find("#login")) {
  signIn(find("#login"));
  addEventListener("hashchange", () => signIn(find("#login"))); // the link was opened on this very page
}
if (find("#sweep")) {
  for (const chart of all(".chart")) chart.addEventListener("keydown", readWithKeys);
  const fit = new ResizeObserver((entries) => entries.forEach(({ target }) => target.data && target.clientWidth && Plotly.Plots.resize(target)));
  for (const chart of all(".chart")) fit.observe(chart); // a card gets narrower with a scrollbar, too
  for (const form of all("#stages, #legend")) form.addEventListener("change", draw);
  for (const event of ["pointerover", "focusin"])
    find("#legend").addEventListener(event, ({ target }) => light(target.closest("label")));
  for (const event of ["pointerleave", "focusout"]) find("#legend").addEventListener(event, () => light(null));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}
if (find("main[data-again]")) {
  document.addEventListener("visibilitychange", () => document.hidden || update());
  update();
}
