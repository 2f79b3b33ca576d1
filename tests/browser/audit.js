// What can be read and reached: returns the faults of a page. Contrast is that of WCAG 2.1, 4.5 (3 for large text).
(() => {
  const faults = [], canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const known = new Map(), backs = new Map();
  const rgba = colour => {
    if (!known.has(colour)) {
      canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
      known.set(colour, [...canvas.getImageData(0, 0, 1, 1).data]);
    }
    return known.get(colour);
  };
  const light = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [.2126, .7152, .0722][at], 0);
  const behind = element => {
    if (!element) return matchMedia("(prefers-color-scheme: dark)").matches ? [0, 0, 0, 255] : [255, 255, 255, 255];
    if (!backs.has(element)) {
      const colour = rgba(getComputedStyle(element).backgroundColor);
      backs.set(element, colour[3] === 255 ? colour : behind(element.parentElement));
    }
    return backs.get(element);
  };
  const about = element => `${element.tagName.toLowerCase()}.${element.className}: ${element.textContent.trim().slice(0, 40)}`;
  const seen = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || seen.has(element) || element.closest(".plot, script, style, template, :disabled")) continue;
    seen.add(element);
    if (!element.checkVisibility()) continue;
    const style = getComputedStyle(element), size = parseFloat(style.fontSize);
    const [one, other] = [light(rgba(style.color)), light(behind(element))];
    const ratio = (Math.max(one, other) + .05) / (Math.min(one, other) + .05);
    const least = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    if (ratio < least) faults.push(`contrast ${ratio.toFixed(2)} of ${about(element)}`);
  }
  document.querySelectorAll("button, input, select, a[href], summary, [tabindex]").forEach(element => {
    if (element.closest(".plot") || !element.checkVisibility()) return;
    if (element.tabIndex < 0) faults.push(`out of the keyboard's reach: ${about(element)}`);
    const name = element.ariaLabel || element.labels?.[0]?.textContent || element.textContent || element.title;
    if (!name.trim()) faults.push(`no name: ${element.outerHTML.slice(0, 80)}`);
  });
  document.querySelectorAll("table").forEach(table => {
    const heads = [...table.tHead?.rows[0]?.cells ?? []];
    if (!heads.length || heads.some(head => head.tagName !== "TH" || head.scope !== "col")) faults.push(`no heads: ${about(table)}`);
    if ([...table.tBodies[0].rows].some(row => row.cells[0].scope !== "row")) faults.push(`no heads of rows: ${about(table)}`);
  });
  const levels = [...document.querySelectorAll("h1, h2, h3, h4")].map(head => +head.tagName[1]);
  if (levels[0] !== 1 || levels.filter(level => level === 1).length !== 1) faults.push(`headings: ${levels}`);
  if (!document.documentElement.lang || !document.title) faults.push("no language or title");
  return [...new Set(faults)];
})()
