// A section of the runbook, which weir serves beside the page.
import { element } from "./dom.js";

/** Returns the lines of the section whose heading has this anchor; an empty list if there is none. */
export function section(markdown, anchor) {
  const lines = markdown.split("\n");
  const slug = (heading) => heading.toLowerCase().replace(/[^\w\- ]/g, "").trim().replaceAll(" ", "-");
  const begin = lines.findIndex((line) => /^#+ /.test(line) && slug(line.replace(/^#+ /, "")) === anchor.toLowerCase());
  if (begin < 0) return [];
  const depth = lines[begin].match(/^#+/)[0].length;
  const length = lines.slice(begin + 1).findIndex((line) => /^#+ /.test(line) && line.match(/^#+/)[0].length <= depth);
  return lines.slice(begin, length < 0 ? undefined : begin + 1 + length);
}

/** Adds a line of text, in which `code` is code and a link its words. */
function inline(parent, text) {
  const plain = text.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replaceAll("**", "");
  plain.split("`").forEach((part, i) => { if (part) i % 2 ? element(parent, "code", part) : parent.append(part); });
}

/** Shows headings, paragraphs, lists and blocks of code. Tables stay as they are written. */
export function show_markdown(parent, lines) {
  let place = null, kind = "";
  for (const line of lines) {
    if (line.startsWith("```")) {
      kind = kind === "code" ? "" : "code";
      place = kind ? element(parent, "pre") : null;
    } else if (kind === "code") {
      place.append(line + "\n");
    } else if (!line.trim()) {
      place = null;
      kind = "";
    } else if (/^#+ /.test(line)) {
      inline(element(parent, "h3"), line.replace(/^#+ /, ""));
    } else if (line.startsWith("|")) {
      if (kind !== "table") place = element(parent, "pre");
      kind = "table";
      place.append(line + "\n");
    } else if (/^(- |\d+\. )/.test(line)) {
      if (kind !== "list") element(parent, "ul", "", "prose");
      kind = "list";
      place = element(parent.lastElementChild, "li");
      inline(place, line.replace(/^(- |\d+\. )/, ""));
    } else {
      if (!place) place = element(parent, "p");
      inline(place, (place.childNodes.length ? " " : "") + line.trim());
    }
  }
}
