// Search that works from the file system, too, and takes whole error messages: every word counts, none must occur.
(() => {
  const dialog = document.querySelector(".site-search__dialog");
  if (!dialog) return;
  const input = dialog.querySelector("input");
  const found = dialog.querySelector(".site-search__found");
  const base = dialog.dataset.base.replace(/\/?$/, "/");
  const errors = "tasks/errors.html"; // what people paste is answered there
  let entries, rarity;

  const words = (text) => text.toLowerCase().match(/[a-z][a-z_]*|\d+/g) || [];
  // LayerNormalization is found by "layer norm", too
  const split = (text) => words(text.replace(/([a-z])([A-Z])/g, "$1 $2"));

  function load() {
    if (entries) return Promise.resolve();
    return new Promise((done, failed) => {
      const script = document.createElement("script");
      script.src = base + "search-index.js";
      script.onload = () => { prepare(); done(); };
      script.onerror = failed;
      document.head.append(script);
    });
  }

  function prepare() {
    const held = new Map();
    entries = window.searchIndex.map(([place, title, page, text]) => {
      const count = new Map();
      const titled = new Set([...words(title), ...split(title), ...words(page)]);
      for (const word of words(text)) count.set(word, (count.get(word) || 0) + 1);
      for (const word of new Set([...count.keys(), ...titled])) held.set(word, (held.get(word) || 0) + 1);
      return { place, title, page, text, count, titled, length: text.length };
    });
    rarity = new Map([...held].map(([word, n]) => [word, Math.log(1 + entries.length / n)]));
  }

  function score(entry, asked, phrase) {
    let sum = 0, matched = 0;
    for (const word of asked) {
      let best = 0;
      if (entry.titled.has(word)) best = 3;
      else if (word.length > 2) for (const known of entry.titled) if (known.startsWith(word)) best = 2;
      const n = entry.count.get(word) || 0;
      best += (2.2 * n) / (n + 1 + entry.length / 1500);
      if (best) matched += 1;
      sum += best * (rarity.get(word) || 1);
    }
    if (!matched) return 0;
    sum *= (matched / asked.length) ** 2;
    if (phrase === entry.title.toLowerCase()) sum *= 4;
    if (entry.place === entry.place.split("#")[0]) sum *= 1.3;
    if (entry.place.startsWith(errors) && asked.length > 2) sum *= 2.5;
    else if (entry.place.startsWith(errors)) sum *= 1.3;
    return sum;
  }

  function excerpt(entry, asked) {
    const low = entry.text.toLowerCase();
    const places = asked.map((word) => low.indexOf(word)).filter((place) => place >= 0);
    const from = Math.max(0, (places.length ? Math.min(...places) : 0) - 40);
    return (from ? "… " : "") + entry.text.slice(from, from + 180);
  }

  function marked(text, asked) {
    const span = document.createElement("span");
    // a word where one begins; a short one or a number only where it ends, too
    const whole = asked.map((word) => (/^[a-z_]{3}/.test(word) ? word : `${word}(?![a-z\\d])`));
    const parts = asked.length ? text.split(new RegExp(`(?<![a-z\\d])(${whole.join("|")})`, "gi")) : [text];
    parts.forEach((part, k) => span.append(k % 2 ? Object.assign(document.createElement("mark"), { textContent: part }) : part));
    return span;
  }

  function show() {
    const phrase = input.value.trim().toLowerCase();
    const asked = [...new Set(words(phrase))].slice(0, 40);
    found.replaceChildren();
    if (!asked.length) return;
    const ranked = entries.map((entry) => [score(entry, asked, phrase), entry]).filter(([sum]) => sum > 0);
    ranked.sort((a, b) => b[0] - a[0]);
    for (const [, entry] of ranked.slice(0, 20)) {
      const link = Object.assign(document.createElement("a"), { href: base + entry.place });
      const title = document.createElement("strong");
      const home = document.createElement("small");
      title.append(marked(entry.title, asked));
      home.textContent = entry.page === entry.title ? "" : entry.page;
      link.append(title, home, marked(excerpt(entry, asked), asked));
      link.addEventListener("click", () => dialog.close());
      found.append(link);
    }
    if (!ranked.length) found.textContent = "Nothing found.";
  }

  function open() {
    dialog.showModal();
    input.select();
    load().then(show, () => { found.textContent = "The index of the search is missing."; });
  }

  document.querySelector(".site-search__open").addEventListener("click", open);
  input.addEventListener("input", () => entries && show());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (!dialog.open && !typing && (event.key === "/" || (event.key === "k" && (event.ctrlKey || event.metaKey)))) {
      event.preventDefault();
      open();
    } else if (dialog.open && event.key === "Escape") { // which would empty the field first
      event.preventDefault();
      dialog.close();
    } else if (dialog.open && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      const links = [input, ...found.querySelectorAll("a")];
      const next = links.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
      links[Math.max(0, Math.min(next, links.length - 1))].focus();
      event.preventDefault();
    } else if (dialog.open && event.key === "Enter" && document.activeElement === input) {
      found.querySelector("a")?.click();
    }
  });
})();
