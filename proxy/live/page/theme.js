"use strict";
// Before anything is drawn: the theme that was chosen on this page, so that it does not flash in the other one.
try {
  const theme = localStorage.getItem("weir-theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
} catch { /* A browser that keeps nothing has the system's theme. */ }
