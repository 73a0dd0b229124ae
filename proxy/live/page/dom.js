// Elements. Whatever comes from weir is shown as text, never as markup.

/** Makes an element with text in it. `parent` may be null. */
export function element(parent, tag, text = "", name = "") {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  if (name) made.className = name;
  parent?.append(made);
  return made;
}

export function svg(parent, tag, attributes = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text) made.textContent = text;
  parent?.append(made);
  return made;
}

/** Sets text, a class or an attribute only where it is another: an element that stays as it is costs no layout. */
export function put(node, text) {
  if (node.shown === text) return;
  node.shown = text;
  node.textContent = text;
}

export function put_class(node, name) {
  if (node.className !== name) node.className = name;
}

export function put_hidden(node, hidden) {
  if (node.hidden !== hidden) node.hidden = hidden;
}

/** Sets a property of CSS. (The page's policy allows no style in markup; this is none.) */
export function put_style(node, name, value) {
  const shown = (node.styles ??= {});
  if (shown[name] === value) return;
  shown[name] = value;
  node.style.setProperty(name, value);
}

export const by_id = (id) => document.getElementById(id);

let colours = new Map();
/** Returns a colour of the theme in use. */
export function colour(name) {
  if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim());
  return colours.get(name);
}
export function forget_colours() { colours = new Map(); }
