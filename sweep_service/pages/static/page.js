"use strict";
// The status page's only script: signs in by the link's key, keeps the list and a sweep's page up to date, draws curves.
// What it inserts as HTML was rendered and escaped by the server; everything else is set as text.

const find = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

function html(text) {
  const template = document.createElement("template");
  template.innerHTML = text;
  return template.content;
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function svg(name, attributes = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

// ---- signing in -----------------------------------------------------------------------------------------------------

async function signIn(main) {
  const key = decodeURIComponent(location.hash.slice(1));
  if (key) {
    history.replaceState(null, "", location.pathname + location.search); // out of sight, and out of the history
    find("#token").value = key;
    find("form", main).submit();
    return;
  }
  // A link from another site comes without our cookie, although it is there.
  const answer = await fetch("/session", { cache: "no-store" }).catch(() => null);
  if (answer?.ok && (await answer.json()).signed_in) location.replace(main.dataset.next);
}

const toSignIn = () => location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);

// ---- the list of sweeps ---------------------------------------------------------------------------------------------

function keepList() {
  setInterval(async () => {
    if (document.hidden) return;
    const answer = await fetch(location.href, { cache: "no-store" }).catch(() => null);
    if (!answer?.ok) return;
    if (answer.redirected) return toSignIn();
    const [old, fresh] = [find("#list"), find("#list", html(await answer.text()))];
    if (!old || !fresh) return fresh && location.reload();
    if (old.innerHTML !== fresh.innerHTML) keepFocus(old, () => old.replaceChildren(...fresh.childNodes));
  }, 4000);
}

function keepFocus(place, change) {
  const focused = place.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  change();
  if (focused) find(`[href="${CSS.escape(focused)}"]`, place)?.focus({ preventScroll: true });
}

// ---- one sweep ------------------------------------------------------------------------------------------------------

class SweepPage {
  constructor(main) {
    this.main = main;
    this.base = `/sweeps/${main.dataset.id}`;
    this.seq = Number(main.dataset.seq);
    this.cursor = "";
    this.curves = new Curves(find(".curves", main), Number(main.dataset.steps));
    this.nextS = 2;
    this.asking = false;
    this.failures = 0;
    for (const button of all("[data-all]", main)) button.addEventListener("click", () => this.showAll(button));
    document.addEventListener("visibilitychange", () => this.listen());
    this.countRows();
    this.listen();
  }

  // Events tell that something has happened; what it means is asked for. They stop while nobody looks.
  listen() {
    this.source?.close();
    this.source = null;
    clearTimeout(this.reopening);
    this.ask();
    if (document.hidden || this.ended) return;
    this.source = new EventSource(`${this.base}/events?after=${this.seq}`);
    this.source.onopen = () => this.ask();
    this.source.onmessage = (event) => {
      this.seq = Number(event.lastEventId);
      this.askSoon(150);
    };
    this.source.addEventListener("end", () => {
      this.ended = true;
      this.source.close();
      this.askSoon(150);
    });
    this.source.onerror = () => {
      this.connection("lost", "Connection lost; trying again. Nothing will be missing");
      if (this.source?.readyState === EventSource.CLOSED) this.reopening = setTimeout(() => this.listen(), 5000);
    };
  }

  askSoon(ms) {
    const at = performance.now() + ms;
    if (this.timer && this.dueAt <= at) return;
    clearTimeout(this.timer);
    this.dueAt = at;
    this.timer = setTimeout(() => this.ask(), ms);
  }

  async ask() {
    if (this.asking) return void (this.again = true);
    clearTimeout(this.timer);
    this.timer = null;
    this.asking = true;
    this.again = false;
    try {
      const answer = await fetch(`${this.base}/live?after=${this.cursor}`, { cache: "no-store" });
      if (answer.status === 401) return toSignIn();
      if (!answer.ok) throw new Error(answer.statusText);
      this.show(await answer.json());
      this.failures = 0;
    } catch {
      this.failures += 1;
      this.connection("lost", "The server does not answer; trying again. Nothing will be missing");
    }
    this.asking = false;
    if (this.again) return this.ask();
    const waitS = this.failures ? Math.min(15, 2 ** this.failures) : this.nextS;
    if (waitS !== null) this.askSoon(1000 * (document.hidden ? Math.max(15, waitS) : waitS));
  }

  show(news) {
    this.cursor = news.cursor;
    this.nextS = news.next_s;
    for (const [name, text] of Object.entries(news.parts)) this.fill(find(`[data-part=${name}]`, this.main), text);
    for (const row of news.rows) this.place(...row);
    if (news.rows.length) this.countRows();
    this.curves.take(news);
    const over = ["SUCCEEDED", "FAILED", "CANCELLED"].includes(news.state);
    const cancel = find(".cancel", this.main);
    if (cancel && (over || news.cancelling)) cancel.remove();
    document.title = `${over ? news.state : `${Math.floor(100 * news.share)} %`} · ${this.main.dataset.name}`;
    if (over) this.connection("", "It has ended; this is how it stands");
    else if (!this.source || this.source.readyState !== EventSource.CONNECTING) this.connection("live", "Live");
  }

  connection(state, text) {
    const place = find("#connection");
    if (place.className !== `soft ${state}`) place.className = `soft ${state}`;
    if (place.textContent !== text) place.textContent = text;
  }

  fill(place, text) {
    if (place.shown === text) return;
    place.shown = text;
    keepFocus(place, () => place.replaceChildren(html(text)));
  }

  place(id, group, order, text) {
    const fresh = find("tr", html(text));
    const old = document.getElementById(id);
    const body = document.getElementById(group);
    if (old && old.parentNode === body && Number(old.dataset.order) === order) {
      if (old.outerHTML !== fresh.outerHTML) keepFocus(old, () => old.replaceChildren(...fresh.childNodes));
      return;
    }
    old?.remove();
    const after = all("tr[id]", body).find((row) => Number(row.dataset.order) > order);
    body.insertBefore(fresh, after ?? null);
  }

  countRows() {
    for (const body of all(".trials tbody", this.main)) {
      const count = all("tr[id]", body).length;
      body.hidden = count === 0;
      find("[data-count]", body).textContent = count;
      find("[data-all]", body).hidden = count <= (innerWidth > 760 ? 30 : 10);
    }
  }

  showAll(button) {
    const open = button.closest("tbody").classList.toggle("all");
    button.textContent = open ? "Show fewer" : "Show all";
  }
}

// ---- curves ---------------------------------------------------------------------------------------------------------

class Curves {
  constructor(section, steps) {
    this.section = section;
    this.steps = steps;
    this.lines = new Map(); // by metric, stage, config: {config, stage, key, points: Map from number to point}
    this.configs = new Map(); // id: {label, style}, in their order
    this.hidden = new Set();
    this.stage = null;
    this.lit = null;
    this.charts = all("figure", section).map((figure) => new Chart(figure, this));
  }

  // Each point has a number, and one that comes again replaces the one that is there: nothing is ever drawn twice.
  take(news) {
    if (news.full) {
      this.lines.clear();
      this.configs.clear();
    }
    for (const [id, label, style] of news.configs) this.configs.set(id, { label, style });
    for (const [config, stage, key, points] of news.lines) {
      const name = JSON.stringify([key, stage, config]);
      if (!this.lines.has(name)) this.lines.set(name, { config, stage, key, points: new Map() });
      const known = this.lines.get(name).points;
      for (const [number, ...point] of points) known.set(number, point);
    }
    if (news.lines.length || news.configs.length) this.draw();
  }

  stages() {
    return ["tune", "confirm"].filter((stage) => [...this.lines.values()].some((line) => line.stage === stage));
  }

  shown(key) {
    const order = [...this.configs.keys()];
    return [...this.lines.values()]
      .filter((line) => line.key === key && line.stage === this.stage && !this.hidden.has(line.config))
      .filter((line) => this.configs.has(line.config))
      .sort((a, b) => order.indexOf(a.config) - order.indexOf(b.config))
      .map((line) => ({ ...line, ...this.configs.get(line.config), sorted: [...line.points].sort((a, b) => a[0] - b[0]).map((p) => p[1]) }));
  }

  draw() {
    const stages = this.stages();
    this.section.hidden = stages.length === 0;
    if (!stages.includes(this.stage)) this.stage = stages[0] ?? null;
    this.drawStages(stages);
    this.drawLegend();
    for (const chart of this.charts) chart.draw();
  }

  drawStages(stages) {
    const place = find("#stages", this.section);
    place.hidden = stages.length < 2;
    if (all("button", place).map((button) => button.value).join() !== stages.join()) {
      place.replaceChildren(...stages.map((stage) => element("button", { value: stage }, stage)));
      for (const button of all("button", place))
        button.addEventListener("click", () => {
          this.stage = button.value;
          this.draw();
        });
    }
    for (const button of all("button", place)) button.setAttribute("aria-pressed", button.value === this.stage);
  }

  drawLegend() {
    const place = find("#legend", this.section);
    const recorded = new Set([...this.lines.values()].filter((line) => line.stage === this.stage).map((line) => line.config));
    const entries = [...this.configs].filter(([id]) => recorded.has(id));
    const wanted = JSON.stringify(entries);
    if (place.shown !== wanted) {
      place.shown = wanted;
      const focused = document.activeElement?.value;
      place.replaceChildren(...entries.map(([id, look]) => this.legendEntry(id, look)));
      all("button", place).find((button) => button.value === focused)?.focus({ preventScroll: true });
    }
    for (const button of all("button", place)) button.setAttribute("aria-pressed", !this.hidden.has(button.value));
  }

  legendEntry(id, look) {
    const button = element("button", { value: id }, swatch(look.style), look.label);
    button.addEventListener("click", () => {
      if (!this.hidden.delete(id)) this.hidden.add(id);
      this.draw();
    });
    for (const [event, config] of [["pointerenter", id], ["focus", id], ["pointerleave", null], ["blur", null]])
      button.addEventListener(event, () => this.light(config));
    return button;
  }

  light(config) {
    if (this.lit === config) return;
    this.lit = config;
    for (const chart of this.charts) chart.draw();
  }
}

function swatch(style) {
  const made = svg("svg", { class: "swatch", viewBox: "0 0 26 8", "aria-hidden": "true" });
  made.append(svg("line", { class: `line ${style}`, x1: 1, y1: 4, x2: 25, y2: 4 }));
  return made;
}

class Chart {
  constructor(figure, curves) {
    this.figure = figure;
    this.curves = curves;
    this.key = figure.dataset.key;
    this.title = find("figcaption", figure).textContent;
    this.svg = svg("svg", { role: "img", tabindex: "0" });
    this.tooltip = element("div", { class: "tooltip", "aria-live": "polite" });
    this.tooltip.hidden = true;
    figure.append(this.svg, this.tooltip);
    new ResizeObserver(() => this.draw()).observe(this.svg);
    this.svg.addEventListener("pointermove", (event) => this.point(event.offsetX));
    for (const event of ["pointerleave", "blur"]) this.svg.addEventListener(event, () => this.unpoint());
    this.svg.addEventListener("keydown", (event) => this.walk(event));
  }

  draw() {
    const { width, height } = this.svg.getBoundingClientRect();
    if (!width) return;
    const lines = this.curves.shown(this.key).filter((line) => line.sorted.length);
    this.lines = lines;
    this.area = { left: 48, right: width - 10, top: 8, bottom: height - 24 };
    const last = Math.max(this.curves.steps, ...lines.flatMap((line) => line.sorted.at(-1)[0]));
    const bounds = range(lines, this.curves.lit);
    const { left, right, top, bottom } = this.area;
    this.x = (value) => left + ((right - left) * value) / last;
    this.y = (value) => bottom - ((bottom - top) * (value - bounds[0])) / (bounds[1] - bounds[0]);
    const lit = lines.find((line) => line.config === this.curves.lit);
    this.svg.setAttribute("class", lit ? "lit" : "");
    this.svg.setAttribute("aria-label", `${this.title}: ${lines.length} lines. Arrow keys read values.`);
    this.svg.replaceChildren(this.axes(bounds, last), ...lines.map((line) => this.path(line, line === lit)), ...this.tips(lines, lit, last));
    if (lit) this.svg.insertBefore(this.band(lit), this.svg.children[1]);
    if (!lines.length) this.svg.append(svg("text", { class: "none", x: (left + right) / 2, y: (top + bottom) / 2, "text-anchor": "middle" }, "nothing recorded yet"));
    if (this.at !== undefined) this.mark(this.at);
  }

  axes(bounds, last) {
    const { left, right, bottom } = this.area;
    const group = svg("g", { class: "axis" });
    for (const value of ticks(...bounds, 5)) {
      group.append(svg("line", { x1: left, x2: right, y1: this.y(value), y2: this.y(value) }));
      group.append(svg("text", { x: left - 7, y: this.y(value) + 4, "text-anchor": "end" }, figureOf(value)));
    }
    for (const value of ticks(0, last, Math.max(2, (right - left) / 90)))
      group.append(svg("text", { x: this.x(value), y: bottom + 18, "text-anchor": this.x(value) > right - 20 ? "end" : "middle" }, value === 0 ? "step 0" : figureOf(value)));
    return group;
  }

  path(line, on) {
    const d = line.sorted.map(([x, mean], index) => `${index ? "L" : "M"}${this.x(x).toFixed(1)} ${this.y(mean).toFixed(1)}`);
    const made = svg("path", { class: `line ${line.style}${on ? " on" : ""}`, d: d.join("") + (d.length === 1 ? "h.01" : "") });
    Object.assign(made.dataset, { config: line.config, stage: line.stage, points: line.sorted.length });
    made.points = line.sorted;
    return made;
  }

  band({ sorted, style }) {
    const up = sorted.map(([x, , , high]) => `${this.x(x).toFixed(1)} ${this.y(high).toFixed(1)}`);
    const down = sorted.map(([x, , low]) => `${this.x(x).toFixed(1)} ${this.y(low).toFixed(1)}`).reverse();
    return svg("path", { class: `band ${style}`, d: `M${[...up, ...down].join("L")}Z` });
  }

  // A dot where a line that still grows ends.
  tips(lines, lit, last) {
    return lines
      .filter((line) => line.sorted.at(-1)[0] < last * 0.995)
      .map((line) => {
        const [x, mean] = line.sorted.at(-1);
        return svg("circle", { class: `tip ${line.style}${line === lit ? " on" : ""}`, r: 3.2, cx: this.x(x), cy: this.y(mean) });
      });
  }

  point(offset) {
    const { left, right } = this.area ?? {};
    if (!this.lines?.length || offset < left || offset > right + 8) return this.unpoint();
    const steps = this.lines.flatMap((line) => line.sorted.map((p) => p[0]));
    this.mark(steps.reduce((best, step) => (Math.abs(this.x(step) - offset) < Math.abs(this.x(best) - offset) ? step : best)));
  }

  walk(event) {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") this.unpoint();
    if (!move || !this.lines?.length) return;
    event.preventDefault();
    const steps = [...new Set(this.lines.flatMap((line) => line.sorted.map((p) => p[0])))].sort((a, b) => a - b);
    const now = this.at === undefined ? (move > 0 ? -1 : steps.length) : steps.findLastIndex((step) => step <= this.at);
    this.mark(steps[Math.min(steps.length - 1, Math.max(0, now + move))]);
  }

  mark(step) {
    this.at = step;
    find(".rule", this.svg)?.remove();
    const { top, bottom, right } = this.area;
    this.svg.append(svg("line", { class: "rule", x1: this.x(step), x2: this.x(step), y1: top, y2: bottom }));
    const values = this.lines.map((line) => ({ line, at: nearest(line.sorted, step) })).filter(({ at }) => at);
    values.sort((a, b) => b.at[1] - a.at[1]);
    const rows = values.slice(0, 10).map(({ line, at }) => {
      const label = element("span", { class: "label" }, line.label);
      return element("div", {}, swatch(line.style), label, element("b", {}, figureOf(at[1])), element("span", { class: "soft" }, `n=${at[4]}`));
    });
    const rest = values.length > 10 ? [element("div", { class: "soft" }, `and ${values.length - 10} more below`)] : [];
    this.tooltip.replaceChildren(element("div", { class: "soft" }, `step ${Math.round(step)}`), ...rows, ...rest);
    this.tooltip.hidden = false;
    const middle = this.x(step) - this.tooltip.offsetWidth / 2; // below the chart, where it hides no line
    this.tooltip.style.left = `${Math.max(0, Math.min(middle, right - this.tooltip.offsetWidth))}px`;
  }

  unpoint() {
    this.at = undefined;
    this.tooltip.hidden = true;
    find(".rule", this.svg)?.remove();
  }
}

function nearest(sorted, step) {
  const close = sorted.filter(([x]) => x <= step).at(-1);
  return close && (close === sorted.at(-1) && step > close[0] * 1.02 + 1 ? null : close);
}

function range(lines, lit) {
  let [low, high] = [Infinity, -Infinity];
  for (const { sorted, config } of lines)
    for (const [, mean, least, most] of sorted) {
      low = Math.min(low, config === lit ? least : mean);
      high = Math.max(high, config === lit ? most : mean);
    }
  if (low > high) return [0, 1];
  if (low >= 0 && low < 0.5 * high) low = 0;
  const room = 0.06 * (high - low) || 0.1 * Math.abs(high) || 1;
  return [low === 0 ? 0 : low - room, high + room];
}

function ticks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => power * factor >= rough);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, index) => (first + index) * step);
}

const figureOf = (value) => (value === 0 ? "0" : Math.abs(value) >= 1e4 || Math.abs(value) < 1e-3 ? value.toExponential(1) : String(Number(value.toPrecision(3))));

// ---- which page this is ---------------------------------------------------------------------------------------------

if (find("#login")) {
  signIn(find("#login"));
  addEventListener("hashchange", () => signIn(find("#login"))); // the link was opened on this very page
}
if (find("#sweeps")) keepList();
if (find("#sweep")) new SweepPage(find("#sweep"));
