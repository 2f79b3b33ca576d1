// Of pages that match alike, those that people learn from come first; of a finding's code the page of findings.
const coded = /^\s*\[?[a-z0-9]+(-[a-z0-9]+)+\]?\s*$/.test(new URLSearchParams(location.search).get("q") ?? "");
var Scorer = {
  score: ([page, , , , points]) => points + (/guides|getting_started|contributing/.test(page) ? 1 : 0)
    + (coded && /findings/.test(page) ? 50 : 0),
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 15, 1: 5, 2: -5}, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
