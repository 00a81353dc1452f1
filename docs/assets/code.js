// What is copied from a console is its commands, without prompt and output.
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-clipboard-target]");
  const code = button?.closest(".language-console")?.querySelector("pre > code");
  const commands = (code?.textContent || "").split("\n").filter((line) => line.startsWith("$ "));
  if (commands.length) button.dataset.clipboardText = commands.map((line) => line.slice(2)).join("\n");
}, true);

// Options are not broken at their hyphens, and short words in tables nowhere: columns are as wide as these.
for (const code of document.querySelectorAll(".md-typeset code")) {
  const narrow = code.closest("td") && !code.closest("pre");
  const isWhole = (word) => (narrow && word.length <= 20) || (word.includes("-") && word.length <= 28);
  const texts = document.createTreeWalker(code, NodeFilter.SHOW_TEXT), held = [];
  while (texts.nextNode()) if (narrow || texts.currentNode.data.includes("-")) held.push(texts.currentNode);
  for (const text of held) {
    text.replaceWith(...text.data.split(/([^\s|]+\|?)/).map((word, place) => {
      if (place % 2 === 0 || !isWhole(word)) return word;
      const whole = document.createElement("span");
      whole.className = "whole";
      whole.textContent = word;
      return whole;
    }));
  }
}
