// Draws plots[i] into #plot-i with text in the page's colour, and again when the reader's setting changes.
const ink = () => getComputedStyle(document.body).color;
const config = {responsive: true, displaylogo: false, displayModeBar: "hover",
  modeBarButtonsToRemove: ["select2d", "lasso2d"]};
plots.forEach((plot, i) => {
  plot.layout.font.color = ink();
  Plotly.newPlot("plot-" + i, plot.data, plot.layout, config);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
  plots.forEach((_, i) => Plotly.relayout("plot-" + i, {"font.color": ink()})));
