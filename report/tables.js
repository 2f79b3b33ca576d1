// Gives every table of the page sorting, search, filters, pages, copy and CSV. Texts of the data enter as text, never as
// markup. A table that is `data-name`d by a figure is bound to its points in page.js; without scripts all stays readable.
const PAGE = 25, UNITS = {ns: 1e-3, "µs": 1, ms: 1e3, s: 1e6};
const collator = new Intl.Collator("en", {numeric: true}), tables = {};
const whole = list => list && list.words ? list.at.map(at => list.words[at]) : list;
const make = (tag, attributes, ...inside) => {
  const element = Object.assign(document.createElement(tag), attributes);
  element.append(...inside);
  return element;
};

// A figure as it is written, in the unit of its kind: "1,235 ms" is 1.235e6 µs, "9.1 %" is 9.1; NaN where there is none.
function figure(text) {
  const found = /([-+−]?[\d.][\d.,]*(?:e[-+]?\d+)?)\s*(\S*)/.exec(text);
  return found ? parseFloat(found[1].replaceAll(",", "").replace("−", "-")) * (UNITS[found[2]] ?? 1) : NaN;
}

// Names of kernels differ at their ends: one that is too long is cut in the middle. The text stays whole.
const KEPT = 14;
function keepEnd(cell) {
  const text = cell.textContent;
  if (text.length <= 2 * KEPT || cell.firstElementChild) return;
  cell.replaceChildren(make("span", {className: "ends"}, make("span", {}, text.slice(0, -KEPT)), make("span", {}, text.slice(-KEPT))));
}

class Grid {
  constructor(table) {
    this.table = table;
    this.body = table.tBodies[0];
    this.heads = [...table.tHead.rows[0].cells];
    this.titled = !!this.body.querySelector("tr.title");  // rows that head others stay where they are
    const given = [...this.body.rows], packed = table.parentElement.querySelector("script");
    const texts = packed ? JSON.parse(packed.textContent).map(whole) : null;
    this.rows = texts ? texts[0].map((_, at) => ({at, cells: texts.map(column => column[at]), shown: given[at]}))
      : given.map((shown, at) => ({at, cells: [...shown.cells].map(cell => cell.textContent), shown}));
    this.words = this.heads.map(head => head.className !== "");
    this.first = 0; this.size = PAGE; this.query = []; this.chosen = new Map(); this.order = [-1, 0];
    if (this.rows.length > 1 && !this.titled) this.heads.forEach((head, column) => this.sortable(head, column));
    this.tools();
    this.find();
  }

  sortable(head, column) {
    head.ariaSort = "none";
    const sort = () => {
      const [last, way] = this.order;
      this.order = [column, last === column ? -way : this.words[column] ? 1 : -1];
      this.heads.forEach(other => other.ariaSort = "none");
      head.ariaSort = this.order[1] > 0 ? "ascending" : "descending";
      this.find();
    };
    head.replaceChildren(make("button", {type: "button", onclick: sort, title: "Sort by this column"}, head.textContent));
  }

  tools() {
    const tools = make("div", {className: "tools"}), many = this.rows.length > 10 && !this.titled;
    const label = this.table.caption?.textContent ?? this.heads[0].textContent;
    this.said = make("span", {className: "said", role: "status"});
    if (many) {
      this.search = make("input", {type: "search", placeholder: "Search", ariaLabel: `Search: ${label}`,
        oninput: () => { this.query = this.search.value.toLowerCase().split(/\s+/).filter(Boolean); this.find(); }});
      tools.append(this.search, ...this.heads.map((head, column) => this.filter(head, column)).filter(Boolean));
      this.pages = [["‹", "Previous page", -1], ["›", "Next page", 1]].map(([sign, name, way]) =>
        make("button", {type: "button", ariaLabel: name, onclick: () => this.turn(this.first + way * this.size)}, sign));
      tools.append(this.pages[0], this.said, this.pages[1]);
    }
    const copy = make("button", {type: "button"}, "Copy"), save = make("button", {type: "button"}, "CSV");
    copy.onclick = () => put(this.text("\t")).then(done => { copy.textContent = done ? "Copied" : "Not copied"; });
    save.onclick = () => {
      const url = URL.createObjectURL(new Blob(["\ufeff" + this.text(",")], {type: "text/csv"}));
      make("a", {href: url, download: (this.table.dataset.name || "table") + ".csv"}).click();
      setTimeout(() => URL.revokeObjectURL(url), 1000);
    };
    [copy, save].forEach(button => button.title = "All rows that are found, not this page alone");
    tools.append(copy, save);
    (many ? this.table.parentElement.before(tools) : this.table.parentElement.after(tools));
  }

  // A choice among the few words of a column.
  filter(head, column) {
    const found = new Set(this.words[column] ? this.rows.map(row => row.cells[column]) : []);
    if (found.size < 2 || found.size > 30 || found.size > this.rows.length / 2) return null;
    const options = ["", ...[...found].sort(collator.compare)].map(value =>
      make("option", {value}, value || `${head.textContent}: all`));
    return make("select", {ariaLabel: `Only ${head.textContent}`, onchange: event => {
      event.target.selectedIndex ? this.chosen.set(column, event.target.value) : this.chosen.delete(column);
      this.find();
    }}, ...options);
  }

  find() {
    const [column, way] = this.order, chosen = [...this.chosen];
    this.found = this.rows.filter(row => chosen.every(([at, value]) => row.cells[at] === value) &&
      (!this.query.length || this.query.every(word => row.cells.some(cell => cell.toLowerCase().includes(word)))));
    if (way && this.words[column])
      this.found.sort((a, b) => way * collator.compare(a.cells[column], b.cells[column]) || a.at - b.at);
    else if (way) {
      const key = this.rows.map(row => figure(row.cells[column]));  // what is no figure comes last, whichever way
      this.found.sort((a, b) => isNaN(key[a.at]) - isNaN(key[b.at]) || way * (key[a.at] - key[b.at]) || a.at - b.at);
    }
    this.turn(0);
  }

  turn(first) {
    const count = this.found.length, size = this.pages ? this.size : count;
    this.first = first = Math.max(0, Math.min(first, count - 1 - (count - 1) % (size || 1)));
    this.body.replaceChildren(...this.found.slice(first, first + size).map(row => row.shown ??= this.drawn(row)));
    this.body.querySelectorAll(".cut").forEach(keepEnd);
    const last = Math.min(first + size, count), [some, all] = [count, this.rows.length].map(n => n.toLocaleString("en"));
    this.said.textContent = `${count ? first + 1 : 0}–${last} of ${some}${some === all ? "" : ` found of ${all}`}`;
    this.pages?.forEach((button, at) => button.disabled = at ? last >= count : first <= 0);
  }

  drawn(row) {
    const line = make("tr", {}, ...row.cells.map((text, at) => {
      const title = text.length > 40 ? text : "", cell = make(at ? "td" : "th", {className: this.heads[at].className, title}, text);
      if (!at) cell.scope = "row";
      return cell;
    }));
    return this.dress ? this.dress(line, row) : line;
  }

  // Turns to the page of a row and marks it; true where the table has it.
  show(at) {
    if (!this.found.some(row => row.at === at)) {
      this.query = []; this.chosen.clear(); if (this.search) this.search.value = "";
      this.table.parentElement.previousElementSibling?.querySelectorAll("select").forEach(one => one.selectedIndex = 0);
      this.find();
    }
    const place = this.found.findIndex(row => row.at === at);
    if (place < 0) return false;
    this.turn(place - place % this.size);
    this.table.closest("details")?.setAttribute("open", "");
    this.mark(this.found[place].shown).scrollIntoView({block: "center"});
    return true;
  }

  mark(line) {
    this.body.querySelector(".found")?.classList.remove("found");
    line.classList.add("found");
    return line;
  }

  // The rows that are found as plain text; figures without separators, in the one unit that their head then names.
  text(separator) {
    const units = this.heads.map((_, at) => this.words[at] ? "" : this.unit(at));
    const quoted = (text, at) => {
      if (separator === "\t") return text.replace(/[\t\r\n]+/g, " ");
      if (this.words[at] && /^[=+\-@]/.test(text)) text = "'" + text;  // no formula where it is opened as a spreadsheet
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    const plain = (text, at) => this.words[at] || units[at] === null ? text
      : isNaN(figure(text)) ? "" : String(+figure(text).toPrecision(12));
    const lines = [this.heads.map((head, at) => head.textContent + (units[at] ? ` ${units[at]}` : "")),
      ...this.found.map(row => row.cells.map(plain))];
    return lines.map(line => line.map(quoted).join(separator)).join("\n") + "\n";
  }

  // The unit of a column's cells: "" where they name none, null where they are no single figures (such as 9/58).
  unit(column) {
    const cells = this.rows.map(row => row.cells[column] ?? "").filter(text => /\d/.test(text));
    const after = cells.map(text => /^\s*[^\d\s]?\s*[-+−]?[\d.,]+(?:e[-+]?\d+)?\s*(ns|µs|ms|s|%|)$/.exec(text)?.[1] ?? null);
    return after.every(unit => unit === "") ? "" : after.every(unit => unit in UNITS) ? "µs"
      : after.every(unit => unit === "%") ? "%" : null;
  }
}

async function put(text) {
  try { await navigator.clipboard.writeText(text); return true; } catch {  // a page opened as a file may not
    const area = make("textarea", {value: text});
    document.body.append(area); area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

document.querySelectorAll("table").forEach((table, at) => tables[table.dataset.name || at] = new Grid(table));
addEventListener("beforeprint", () => Object.values(tables).forEach(grid => { grid.size = 500; grid.turn(0); }));
addEventListener("afterprint", () => Object.values(tables).forEach(grid => { grid.size = PAGE; grid.turn(0); }));
