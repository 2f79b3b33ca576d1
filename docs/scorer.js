// Of pages that match alike, those that people learn from come first.
var Scorer = {
  score: ([page, , , , points]) => points + (/guides|getting_started|contributing/.test(page) ? 1 : 0),
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 15, 1: 5, 2: -5}, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
