// What forms and links do better with JavaScript; every page works without it.
"use strict";

// The bill that a link leads to is opened.
function openTarget() {
  const id = decodeURIComponent(location.hash.slice(1));
  const found = id && document.getElementById(id);
  if (found instanceof HTMLDetailsElement) found.open = true;
}
addEventListener("hashchange", openTarget);
openTarget();

// A slider shows its value while it moves, and asks when it is let go.
for (const slider of document.querySelectorAll("input[type=range]")) {
  const shown = slider.form && slider.form.querySelector("output");
  slider.addEventListener("input", () => {
    if (shown) shown.textContent = slider.value;
  });
  slider.addEventListener("change", () => slider.form && slider.form.requestSubmit());
}
