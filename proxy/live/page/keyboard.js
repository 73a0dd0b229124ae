// The keys of the page: those of `weir top`, too.

/** `page` has grids(), filter, sort(), back(), go_to(section), detail, actions, help(), chosen_replica(). */
export function listen(page) {
  const move = (by) => {
    const grids = page.grids().filter((grid) => grid.count > 0);
    if (!grids.length) return;
    const at = grids.findIndex((grid) => grid.element.contains(document.activeElement));
    if (at < 0) {
      const first = grids.find((grid) => grid === page.main_grid) ?? grids[0];
      if (first.chosen === null) first.choose_end(false);
      else first.choose(first.chosen);
      return;
    }
    if (grids[at].move(by)) return;
    grids[at + by]?.choose_end(by < 0);
  };
  const focused = () => page.grids().find((grid) => grid.element.contains(document.activeElement));
  const with_replica = (act) => {
    const name = page.chosen_replica();
    if (name !== null) act(name);
  };
  const acts = {
    "/": () => page.filter.focus(),
    s: () => page.sort(),
    ArrowDown: () => move(1), ArrowUp: () => move(-1),
    Home: () => focused()?.choose_end(false), End: () => focused()?.choose_end(true),
    p: () => page.go_to("pools"), r: () => page.go_to("replicas"), k: () => page.go_to("keys"), e: () => page.go_to("events"),
    w: () => page.open("weir", ""),
    d: () => with_replica((name) => page.actions.drain(name)), u: () => with_replica((name) => page.actions.undrain(name)),
    "?": () => page.help(),
    Escape: () => page.back(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target === page.filter) {
      if (event.key === "Escape") page.clear_filter();
      else if (event.key === "Enter" || event.key === "ArrowDown") page.go_to("replicas");
      else return;
      event.preventDefault();
      return;
    }
    if (event.target.matches("input, select, textarea")) return;
    if (event.key === "Enter") {
      if (event.target.matches("button, a")) return;
      focused()?.open_chosen();
      return;
    }
    if ((event.key === "Home" || event.key === "End") && !focused()) return;
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}
