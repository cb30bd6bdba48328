"use strict";
(() => {
  const figures = new Map(JSON.parse(document.getElementById("figures").textContent).map((f) => [f.id, f]));
  const buttons = [...document.querySelectorAll("[data-config]")];
  const seedsButton = document.querySelector("[data-seeds]");
  const pressed = (button) => button.getAttribute("aria-pressed") === "true";
  const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

  // Colours are written as @name; each is a variable of the style sheet, so that light and dark share one file.
  const coloured = (value, key = "") => {
    if (typeof value === "string") return /color$/.test(key) && value[0] === "@" ? variable(value.slice(1)) : value;
    if (value === null || typeof value !== "object") return value;
    if (Array.isArray(value)) return typeof value[0] === "object" ? value.map((item) => coloured(item)) : value;
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, coloured(item, name)]));
  };

  const axis = (given, narrow) => ({
    gridcolor: variable("grid"), linecolor: variable("line"), zerolinecolor: variable("line"), automargin: true,
    ...given, title: { ...given.title, standoff: 8, font: { size: narrow ? 11 : 12 } },
  });

  const draw = (element) => {
    if (element.closest("details:not([open])")) return;
    const figure = figures.get(element.dataset.figure);
    const hidden = new Set(buttons.filter((button) => !pressed(button)).map((button) => button.dataset.config));
    const narrow = element.clientWidth < 480;
    const shown = ({ meta }) => !(meta && (hidden.has(meta.config) || (meta.seed && !pressed(seedsButton))));
    const data = coloured(figure.data.filter(shown)).map((trace) => ({ ...trace, showlegend: false }));
    const ink = variable("ink"), paper = variable("card");
    const layout = {
      ...coloured(figure.layout),
      xaxis: axis(figure.layout.xaxis, narrow), yaxis: axis(figure.layout.yaxis, narrow),
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: variable("font"), size: narrow ? 11 : 12.5, color: ink },
      hoverlabel: { bgcolor: paper, bordercolor: variable("line"), font: { color: ink } },
      margin: { l: 52, r: 12, t: 10, b: 44 }, dragmode: narrow ? false : "zoom",
    };
    for (const shape of layout.shapes ?? []) if (shape.label) shape.label.font = { size: 11, color: variable("muted") };
    Plotly.react(element, data, layout, { responsive: true, displaylogo: false, displayModeBar: false });
  };

  const plots = [...document.querySelectorAll("[data-figure]")];
  const drawAll = () => plots.forEach(draw);
  for (const button of [...buttons, ...(seedsButton ? [seedsButton] : [])]) {
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(!pressed(button)));
      drawAll();
    });
  }
  for (const details of document.querySelectorAll("details")) {
    details.addEventListener("toggle", () => details.querySelectorAll("[data-figure]").forEach(draw));
  }
  const openTarget = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const details = target && target.closest("details");
    if (details) { details.open = true; target.scrollIntoView({ block: "center" }); }
  };
  addEventListener("hashchange", openTarget);
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.copy);
      getSelection().selectAllChildren(source);
      try { await navigator.clipboard.writeText(source.textContent); } catch { document.execCommand("copy"); }
      const label = button.textContent;
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = label; getSelection().removeAllRanges(); }, 1200);
    });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  drawAll();
  openTarget();
})();
