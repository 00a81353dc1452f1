// What is copied from a console is its commands, without prompt and output.
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-clipboard-target]");
  const code = button?.closest(".language-console")?.querySelector("pre > code");
  const commands = (code?.textContent || "").split("\n").filter((line) => line.startsWith("$ "));
  if (commands.length) button.dataset.clipboardText = commands.map((line) => line.slice(2)).join("\n");
}, true);

// Options and names are not broken at their hyphens.
for (const code of document.querySelectorAll(".md-typeset code")) {
  const texts = document.createTreeWalker(code, NodeFilter.SHOW_TEXT), hyphenated = [];
  while (texts.nextNode()) if (texts.currentNode.data.includes("-")) hyphenated.push(texts.currentNode);
  for (const text of hyphenated) {
    text.replaceWith(...text.data.split(/(\S*-\S*)/).map((part) => {
      if (!part.includes("-") || part.length > 28) return part;
      const whole = document.createElement("span");
      whole.className = "whole";
      whole.textContent = part;
      return whole;
    }));
  }
}
