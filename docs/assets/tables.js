// Tables of many columns: small letters, and on a phone the cells of a row below each other, each with the name of its column.
(() => {
  for (const table of document.querySelectorAll(".md-typeset table:not(#operators)")) {
    const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
    if (heads.length < 3) continue;
    if (heads.length > 8) table.dataset.many = "";
    table.dataset.stacked = "";
    for (const row of table.tBodies[0]?.rows || []) {
      [...row.cells].forEach((cell, k) => { if (heads[k]) cell.dataset.label = heads[k]; });
    }
  }
})();
