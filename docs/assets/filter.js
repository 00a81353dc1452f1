// Rows of a table that hold every word typed, in their text or in what else they are found by.
(() => {
  for (const field of document.querySelectorAll("input[data-filter]")) {
    const rows = [...document.querySelectorAll(`${field.dataset.filter} tbody tr`)];
    const texts = rows.map((row) => `${row.textContent} ${row.dataset.words || ""}`.toLowerCase());
    const nothing = document.querySelector(`${field.dataset.filter} ~ .nothing, .nothing`);
    const narrow = () => {
      const asked = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      rows.forEach((row, k) => { row.hidden = !asked.every((word) => texts[k].includes(word)); });
      if (nothing) nothing.hidden = rows.some((row) => !row.hidden);
    };
    field.addEventListener("input", narrow);
    narrow();
  }
})();
