// Filters the ledger's page: rows and folded systems that hold every typed word stay, e.g. "pav undecided".
document.addEventListener("DOMContentLoaded", () => {
  const place = document.querySelector(".ledger-filter");
  if (!place) return;
  const box = document.createElement("input");
  box.type = "search";
  box.placeholder = "filter: a system, a verdict, a word of a claim";
  box.style.cssText = "width: 100%; padding: 0.4em; border: 1px solid currentColor; color: inherit; background: transparent";
  place.append(box);
  const page = place.parentElement;
  const main = [...page.querySelectorAll("table")].find((table) => !table.closest("details"));
  const parts = [...main.querySelectorAll("tbody tr"), ...page.querySelectorAll("details")];
  box.addEventListener("input", () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const part of parts) {
      const text = part.textContent.toLowerCase();
      part.hidden = !words.every((word) => text.includes(word));
    }
  });
});
