"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const packed = JSON.parse(document.getElementById("figures").textContent);
  const unpacked = (value) => { // {"$": n} stands for the n-th shared value
    if (value === null || typeof value !== "object" || typeof value[0] === "number") return value;
    if (typeof value.$ === "number") return packed.shared[value.$];
    for (const key of Object.keys(value)) value[key] = unpacked(value[key]);
    return value;
  };
  packed.shared.forEach((value, place) => { packed.shared[place] = unpacked(value); });
  const figures = new Map(packed.figures.map((figure) => [figure.id, unpacked(figure)]));
  const configs = all("[data-config]"), seedsButton = document.querySelector("[data-seeds]");
  const pressed = (button) => button.getAttribute("aria-pressed") === "true";
  const press = (button, on) => button.setAttribute("aria-pressed", String(on));

  // ---- Colours are written as @name; each is a variable of the style sheet, so that light and dark share one file.
  let style = getComputedStyle(document.documentElement), variables = new Map();
  const variable = (name) => {
    if (!variables.has(name)) variables.set(name, style.getPropertyValue("--" + name).trim());
    return variables.get(name);
  };
  const printed = () => document.documentElement.classList.contains("printed");
  const isColour = (key) => /color(scale|way)?$/.test(key);
  const coloured = (value, inside = false) => {
    if (typeof value === "string") return inside && value[0] === "@" ? variable(value.slice(1)) : value;
    if (value === null || typeof value !== "object") return value;
    if (Array.isArray(value)) {
      const plain = !inside && (value.length === 0 || typeof value[0] !== "object" || value[0] === null);
      return plain ? value : value.map((item) => coloured(item, inside));
    }
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, coloured(item, isColour(key))]));
  };

  // ---- The look that all figures share; what a figure says itself comes first.
  const themedBar = (bar) => ({ ...bar, tickfont: { size: 11, color: variable("muted") } });
  const themedAxis = (axis, narrow) => ({
    gridcolor: variable("grid"), linecolor: variable("line"), zerolinecolor: variable("line"), automargin: true,
    ...axis, title: { standoff: 8, ...axis.title, font: { size: narrow ? 11 : 12, ...axis.title?.font } },
  });
  const themedTrace = (trace) => ({ ...trace, showlegend: trace.showlegend ?? false });
  const themedLayout = (written, narrow) => {
    const layout = coloured(written);
    for (const [key, value] of Object.entries(layout)) {
      if (/^[xy]axis\d*$/.test(key)) layout[key] = themedAxis(value, narrow);
      if (/^coloraxis\d*$/.test(key)) layout[key] = { ...value, colorbar: themedBar(value.colorbar) };
    }
    const small = { size: narrow ? 10.5 : 11.5, color: variable("muted") };
    for (const mark of layout.annotations ?? []) mark.font = { ...small, ...mark.font };
    for (const shape of layout.shapes ?? []) if (shape.label) shape.label.font = { ...small, ...shape.label.font };
    return {
      xaxis: themedAxis({}, narrow), yaxis: themedAxis({}, narrow), ...layout,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: variable("font"), size: narrow ? 11 : 12.5, color: variable("ink") },
      hoverlabel: { bgcolor: variable("card"), bordercolor: variable("line"), font: { color: variable("ink") } },
      margin: { l: 52, r: 12, t: 10, b: 44 }, dragmode: innerWidth > 860 ? "zoom" : false,
    };
  };

  // ---- Drawing: a figure is drawn when it comes near the screen, and again there if something changed meanwhile.
  const PANEL = 190; // pixels below which a panel is not readable: the figure then scrolls in its own box
  const columns = (layout) => {
    const starts = Object.entries(layout).filter(([key]) => /^xaxis\d*$/.test(key)).map(([, axis]) => axis.domain?.[0] ?? 0);
    return new Set(starts).size || 1;
  };
  const draw = (element) => {
    const written = figures.get(element.dataset.figure);
    const room = element.parentElement.clientWidth, narrow = room < 480;
    const tight = narrow || columns(written.layout) * PANEL > room;
    const figure = tight ? { ...written, ...written.narrow } : written, panels = tight && written.narrow ? 1 : columns(figure.layout);
    if (written.narrow) element.style.height = figure.height + "px";
    element.style.minWidth = panels > 1 && !printed() ? Math.min(panels * PANEL, 900) + "px" : "";
    const hidden = new Set(configs.filter((button) => !pressed(button)).map((button) => button.dataset.config));
    const seeds = !seedsButton || pressed(seedsButton);
    const shown = ({ meta }) => !(meta && (hidden.has(meta.config) || (meta.seed && !seeds)));
    const data = figure.data.filter(shown).map((trace) => themedTrace(coloured(trace)));
    Plotly.react(element, data, themedLayout(figure.layout, narrow), { responsive: true, displaylogo: false, displayModeBar: false });
  };
  const plots = all("[data-figure]"), near = new Set(), stale = new Set(plots);
  const drawStale = () => near.forEach((element) => { if (stale.delete(element)) draw(element); });
  const redraw = () => { plots.forEach((element) => stale.add(element)); drawStale(); };
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) near[isIntersecting ? "add" : "delete"](target);
    drawStale();
  }, { rootMargin: "500px 0px" });
  plots.forEach((element) => watcher.observe(element));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { variables = new Map(); redraw(); });
  matchMedia("(max-width: 860px)").addEventListener("change", redraw);
  const print = (on) => { // paper has a width and colours of its own, and figures that were never near the screen
    document.documentElement.classList.toggle("printed", on);
    variables = new Map();
    plots.forEach((element) => { Plotly.purge(element); stale.add(element); }); // what is drawn anew keeps its width
    if (on) plots.filter((element) => element.checkVisibility({ contentVisibilityAuto: true }) && stale.delete(element)).forEach(draw);
    else drawStale();
  };
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));

  // ---- Which configs and seeds are shown
  for (const button of [...configs, ...(seedsButton ? [seedsButton] : [])]) {
    button.addEventListener("click", () => { press(button, !pressed(button)); redraw(); });
  }
  for (const button of configs) {
    button.addEventListener("dblclick", () => { configs.forEach((other) => press(other, other === button)); redraw(); });
  }
  for (const button of all("[data-show]")) {
    button.addEventListener("click", () => { configs.forEach((other) => press(other, button.dataset.show === "all")); redraw(); });
  }

  // ---- Tables: on a phone and on paper a cell names its column
  for (const table of all(".data:has(thead)")) {
    const names = [...table.tHead.rows[0].cells].map((head) => {
      const title = head.matches(".bars") ? null : (head.querySelector("button") ?? head).firstChild;
      return title?.textContent.trim().toLowerCase();
    });
    for (const cell of all("tbody td", table)) {
      if (names[cell.cellIndex]) cell.dataset.label = names[cell.cellIndex];
      cell.classList.toggle("missing", cell.textContent.trim() === "–");
    }
  }

  // ---- Tables: a click on a head sorts by its column, largest first, and what is missing stays last
  const sortValue = (row, column) => {
    const cell = row.cells[column], text = (cell?.dataset.v ?? cell?.textContent ?? "").trim();
    if (text === "" || text === "–") return null;
    return Number.isNaN(Number(text)) ? text : Number(text);
  };
  const compared = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en");
  const sortBy = (head) => {
    const table = head.closest("table"), column = head.cellIndex, body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [sortValue(row, column), row]);
    const numeric = rows.some(([value]) => typeof value === "number");
    const before = head.getAttribute("aria-sort");
    const direction = before ? (before === "descending" ? "ascending" : "descending") : (numeric ? "descending" : "ascending");
    const sign = direction === "descending" ? -1 : 1;
    rows.sort(([a], [b]) => (a === null || b === null ? (a === null) - (b === null) : sign * compared(a, b)));
    all("[aria-sort]", table).forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", direction);
    body.append(...rows.map(([, row]) => row));
  };
  all("[data-sort]").forEach((head) => head.firstElementChild.addEventListener("click", () => sortBy(head)));
  const showAll = (part) => {
    all(".short", part).forEach((table) => table.classList.remove("short"));
    all("[data-all]", part).forEach((button) => button.remove());
  };
  all("[data-all]").forEach((button) => button.addEventListener("click", () => showAll(button.closest("details, section"))));

  // ---- Links into folded parts, and where in the page we are
  const openTarget = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let part = target.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
    if (target.matches(".short tr")) showAll(target.closest("details, section"));
    if (target.matches("tr")) target.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", openTarget);
  const links = new Map(all(".bar-top a:not(.top)").map((link) => [link.hash.slice(1), link]));
  const parts = [...links.keys()].map((id) => document.getElementById(id));
  let waiting = false;
  const mark = () => {
    waiting = false;
    const passed = parts.filter((part) => part.getBoundingClientRect().top < innerHeight / 3);
    links.forEach((link) => link.removeAttribute("aria-current"));
    const link = links.get(passed.at(-1)?.id);
    if (!link) return;
    link.setAttribute("aria-current", "true");
    const box = link.parentElement;
    if (link.offsetLeft < box.scrollLeft || link.offsetLeft + link.offsetWidth > box.scrollLeft + box.clientWidth) {
      box.scrollLeft = link.offsetLeft - box.clientWidth / 3;
    }
  };
  addEventListener("scroll", () => { if (!waiting) { waiting = true; requestAnimationFrame(mark); } }, { passive: true });

  // ---- Copying
  for (const button of all("[data-copy]")) {
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.copy);
      getSelection().selectAllChildren(source);
      try { await navigator.clipboard.writeText(source.textContent); } catch { document.execCommand("copy"); }
      const label = button.textContent;
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = label; getSelection().removeAllRanges(); }, 1200);
    });
  }
  openTarget();
  mark();
})();
