// Draws plots[i] into #plot-i with text in the page's colour, and again when the reader's setting changes. Where the points
// of a figure are the rows of a table, a click on one finds the other.
const ink = () => getComputedStyle(document.body).color;
const config = {responsive: true, displaylogo: false, displayModeBar: "hover",
  modeBarButtonsToRemove: ["select2d", "lasso2d"]};
async function unpacked(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), sign => sign.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

// On a telephone a legend leaves a figure no room beside it: there it goes beneath, and rows of buttons become a list.
const PAPER = 1000;  // pixels of a figure on a sheet, onto which wide tables are shrunk too

// Puts panels that stand side by side one below the other, each with its title.
function stacked(data, layout) {
  const names = [...new Set(data.map(trace => (trace.xaxis ?? "x").replace("x", "xaxis")))].filter(name => layout[name]);
  const panels = names.map(name => [layout[name], layout[name.replace("x", "y")]]).filter(([x, y]) => x.domain && y?.domain);
  const count = places => new Set(places).size, rows = count(panels.map(([, y]) => y.domain[0]));
  if (panels.length < names.length || count(panels.map(([x]) => x.domain[0])) < 2) return;
  panels.sort(([x, y], [otherX, otherY]) => otherY.domain[0] - y.domain[0] || x.domain[0] - otherX.domain[0]);
  const outside = (layout.margin?.t ?? 80) + (layout.margin?.b ?? 80);
  layout.height = (layout.height - outside) * panels.length / rows + outside;
  const title = ([x, y]) => layout.annotations?.find(one => one.xref === "paper" && one.x > x.domain[0] && one.x < x.domain[1]
    && Math.abs(one.y - y.domain[1]) < 1e-6);
  const titles = panels.map(title);
  panels.forEach(([x, y], at) => {
    x.domain = [0, 1];
    y.domain = [1 - (at + 0.78) / panels.length, 1 - (at + 0.08) / panels.length];
    if (titles[at]) Object.assign(titles[at], {x: 0.5, y: y.domain[1]});
  });
}

// Adds pixels to a margin, which leaves the panels as high as they are.
function widened(layout, side, pixels) {
  layout.margin = {...layout.margin, [side]: (layout.margin?.[side] ?? 80) + pixels};
  layout.height += pixels;
}

// Breaks a title where a telephone has no room for it in one line.
const LINE = 38;
function broken(axis) {
  const lines = [""];
  for (const word of (axis.title?.text ?? "").split(" ")) {
    if (lines.at(-1) && lines.at(-1).length + word.length > LINE) lines.push("");
    lines.push(`${lines.pop()} ${word}`.trim());
  }
  if (lines.length > 1) axis.title = {...axis.title, text: lines.join("<br>")};
  return lines.length - 1;
}

function narrowed({data, layout}) {
  stacked(data, layout);
  const more = Object.keys(layout).filter(name => name.startsWith("xaxis")).map(name => broken(layout[name]));
  widened(layout, "b", 18 * Math.max(0, ...more));
  const entries = new Set(data.filter(trace => trace.showlegend !== false && trace.visible !== false && trace.name)
    .map(trace => trace.name)).size;
  layout.updatemenus?.forEach(menu => menu.type = "dropdown");
  if (layout.annotations) layout.annotations = layout.annotations.filter(one => one.name !== "farthest");
  const slanted = Object.keys(layout).filter(name => name.startsWith("xaxis") && layout[name].dtick === "D2");
  slanted.forEach(name => Object.assign(layout[name], {tickangle: -45, title: {...layout[name].title, standoff: 4}}));
  if (slanted.length) widened(layout, "b", 36);
  const titled = layout.annotations?.some(one => one.xref === "paper" && !one.showarrow && one.y > 0.99);
  if (titled) widened(layout, "t", Math.max(0, 64 - layout.margin.t));  // beneath the buttons of the figure
  if (layout.showlegend === false || !entries) return;
  layout.legend = {...layout.legend, orientation: "h", x: 0, xanchor: "left", yref: "container", y: 0, yanchor: "bottom",
    title: {...layout.legend?.title, side: "top"}};
  const lines = Math.min(entries, 12) + (layout.legend.title?.text ? 1 : 0);
  widened(layout, "b", 24 * lines);
}

// Shows points as if the pointer were on them; of those drawn by WebGL, which know no numbers, the one at the first's place.
function pointed(figure, points) {
  const [first] = points.filter(point => figure._fullData[point.curveNumber].type === "scattergl");
  if (!first) return Plotly.Fx.hover(figure, points, Object.keys(figure._fullLayout._plots));
  const trace = figure._fullData[first.curveNumber];
  Plotly.Fx.hover(figure, {xval: trace.x[first.pointNumber], yval: trace.y[first.pointNumber]}, trace.xaxis + trace.yaxis);
}

function draw(plot, i) {
  plot.layout.font.color = ink();
  plot.data.forEach(trace => ["text", "customdata"].forEach(name => { if (trace[name]) trace[name] = whole(trace[name]); }));
  const place = document.getElementById("plot-" + i), grid = tables[place.dataset.of];
  if (place.clientWidth < 560) {
    narrowed(plot);
    place.style.minHeight = plot.layout.height + "px";  // which is what a resized figure goes by
  }
  Plotly.newPlot(place, plot.data, plot.layout, config);
  if (!grid) return;
  const named = plot.data.some(trace => trace.ids);  // then a point without an id is no row
  place.on("plotly_click", ({points: [point]}) => grid.show(named ? point.id : point.pointNumber));
  (grid.figures ??= []).push(place);
  if (grid.figures.length > 1) return;
  const points = (figure, row) => figure.data.flatMap((trace, curveNumber) => {
    const pointNumber = trace.ids ? [...trace.ids].indexOf(row.at) : named ? -1 : row.at;
    return trace.visible === false || trace.mode === "lines" || pointNumber < 0 ? [] : [{curveNumber, pointNumber}];
  });
  grid.dress = (line, row) => {
    line.tabIndex = 0;
    line.onclick = event => {
      if (event.type === "keydown" && event.key !== "Enter") return;
      grid.mark(line);
      place.scrollIntoView({block: "nearest"});
      grid.figures.forEach(figure => figure.querySelector(".cartesianlayer") && pointed(figure, points(figure, row)));
    };
    line.onkeydown = line.onclick;
    return line;
  };
  grid.rows.forEach(row => row.shown && grid.dress(row.shown, row));
}

// Draws what can be seen; what lies folded has no width before it is opened.
function drawOnceSeen(plot, i) {
  const fold = document.getElementById("plot-" + i).closest("details:not([open])");
  if (fold) fold.addEventListener("toggle", () => draw(plot, i), {once: true});
  else draw(plot, i);
}

unpacked("plotly").then(text => {
  document.head.append(make("script", {textContent: text}));
  plots.forEach(drawOnceSeen);
  const places = () => [...document.querySelectorAll(".plot")].filter(place => place.data);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    places().forEach(place => Plotly.relayout(place, {"font.color": ink()})));
  const sized = width => places().forEach(place => Plotly.relayout(place, {width, autosize: !width}));
  addEventListener("beforeprint", () => sized(PAPER));
  addEventListener("afterprint", () => sized(null));
}).catch(() => { document.getElementById("old").hidden = false; });
