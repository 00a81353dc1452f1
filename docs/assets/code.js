// What is copied from a console is its commands, without prompt and output.
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-clipboard-target]");
  const code = button?.closest(".language-console")?.querySelector("pre > code");
  const commands = (code?.textContent || "").split("\n").filter((line) => line.startsWith("$ "));
  if (commands.length) button.dataset.clipboardText = commands.map((line) => line.slice(2)).join("\n");
}, true);
