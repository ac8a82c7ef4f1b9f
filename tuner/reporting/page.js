"use strict";
(() => {
  const { figures, texts } = JSON.parse(document.getElementById("figures").textContent);
  for (const trace of Object.values(figures).flatMap((figure) => figure.data)) {
    if (trace.customdata) trace.customdata = trace.customdata.map((place) => (place === null ? null : texts[place]));
  }
  const touch = window.matchMedia("(pointer: coarse)").matches;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  /* Replaces "var(--name)" anywhere in a figure by the colour it stands for now. */
  function colored(item, style) {
    if (typeof item === "string") {
      const name = /^var\((--[a-z]+)\)$/.exec(item);
      return name ? style.getPropertyValue(name[1]).trim() : item;
    }
    if (Array.isArray(item)) return item.map((part) => colored(part, style));
    if (item === null || typeof item !== "object") return item;
    return Object.fromEntries(Object.entries(item).map(([key, part]) => [key, colored(part, style)]));
  }

  function themed(layout) {
    const axis = { gridcolor: "var(--grid)", linecolor: "var(--line)", tickcolor: "var(--line)", automargin: true };
    const whole = {
      margin: { l: 64, r: 24, t: 16, b: 48 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif", size: 13, color: "var(--text)" },
      hoverlabel: { bgcolor: "var(--surface)", bordercolor: "var(--line)", font: { color: "var(--text)" }, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: "var(--faint)", activecolor: "var(--text)" },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
      dragmode: touch ? false : "zoom" /* a finger on a figure scrolls the page */,
      ...layout,
    };
    for (const key of Object.keys(whole)) {
      if (/^[xy]axis\d*$/.test(key)) whole[key] = { ...axis, ...whole[key] };
    }
    return whole;
  }

  function draw() {
    const style = getComputedStyle(document.documentElement);
    for (const [name, figure] of Object.entries(figures)) {
      const place = document.getElementById(name);
      if (!place) continue;
      place.style.minWidth = `${figure.layout.meta?.min_width ?? 0}px`;
      const config = { displaylogo: false, modeBarButtons: [["toImage"]] };
      Plotly.react(place, colored(figure.data, style), colored(themed(figure.layout), style), config);
      widths.set(place, place.clientWidth);
      resized.observe(place);
    }
  }

  /* A figure follows the width of its place, whatever changed that: the window, or another part of the page. */
  const widths = new WeakMap();
  const resized = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (widths.get(target) === target.clientWidth || document.documentElement.classList.contains("paper")) continue;
      widths.set(target, target.clientWidth);
      Plotly.Plots.resize(target);
    }
  });

  /* Paper is white, and narrower than most windows. */
  function print(begins) {
    document.documentElement.classList.toggle("paper", begins);
    draw();
    for (const name of Object.keys(figures)) {
      const place = document.getElementById(name);
      if (!place) continue;
      const width = place.closest(".plots") ? 320 : 680;
      Plotly.relayout(place, begins ? { width } : { autosize: true, width: null });
    }
  }

  function sortBy(table, column, descending) {
    const key = (row) => {
      const cell = row.cells[column];
      if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
      return cell.textContent === "" ? null : cell.textContent;
    };
    const compare = (left, right) => {
      const [a, b] = [key(left), key(right)];
      if (a === null || b === null) return (a === null) - (b === null); /* empty cells stay at the end */
      const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
      return descending ? -order : order;
    };
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
    [...table.tHead.rows[0].cells].forEach((head, index) => {
      if (index === column) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const first = table.tBodies[0].rows[0];
      if (first && first.cells[column].classList.contains("number")) head.classList.add("number");
      head.addEventListener("click", () => sortBy(table, column, head.getAttribute("aria-sort") === "ascending"));
    });
  }

  for (const copy of document.querySelectorAll("button.copy")) {
    copy.addEventListener("click", async () => {
      const source = document.getElementById(copy.dataset.target);
      try {
        await navigator.clipboard.writeText(source.textContent);
      } catch {
        /* A page opened from a file may not use the clipboard: select the text and copy the old way. */
        getSelection().selectAllChildren(source);
        document.execCommand("copy");
      }
      copy.textContent = "Copied";
      setTimeout(() => { copy.textContent = "Copy"; }, 1500);
    });
  }

  /* Plotly comes packed; as a script of its own it runs only because the page's policy knows what is in it. */
  async function loadPlotly() {
    const bytes = Uint8Array.from(atob(document.getElementById("plotly").textContent), (one) => one.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
    script.remove();
  }

  function beginDrawing() {
    draw();
    dark.addEventListener("change", draw);
    window.addEventListener("beforeprint", () => print(true));
    window.addEventListener("afterprint", () => print(false));
    document.documentElement.dataset.ready = "true";
  }

  function sayWhy(error) {
    for (const name of Object.keys(figures)) {
      const place = document.getElementById(name);
      if (place) place.textContent = `This figure needs a browser from 2023 or later (${error.message}).`;
    }
    throw error;
  }

  loadPlotly().then(beginDrawing).catch(sayWhy);
})();
