// Before the page is drawn: the colours that the reader chose with the switch.
"use strict";
try {
  const chosen = localStorage.getItem("digestif-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch { /* storage is switched off: the system decides */ }
