// Questions to whoever sits before the page: the token, whether something is really to be done, and help.
import { by_id, element } from "./dom.js";

/** Opens the dialog with what `fill(dialog, close)` puts there. Returns what close was called with; null after Esc. */
function ask(title, fill) {
  const dialog = by_id("dialog");
  if (dialog.open) dialog.close();
  dialog.replaceChildren();
  element(dialog, "h2", title).id = "dialog-title";
  return new Promise((answer) => {
    let given = null;
    fill(dialog, (value) => {
      given = value;
      dialog.close();
    });
    // The event comes after the call, so that of a question that this one has replaced is among those that come here.
    const closed = () => {
      if (dialog.open) return;
      dialog.removeEventListener("close", closed);
      answer(given);
    };
    dialog.addEventListener("close", closed);
    dialog.showModal();
  });
}

function button(parent, text, action) {
  const made = element(parent, "button", text);
  made.type = "button";
  made.addEventListener("click", action);
  return made;
}

/** Asks for the admin listener's token. */
export function ask_token(why) {
  return ask("weir's token", (dialog, close) => {
    element(dialog, "p", why);
    const form = element(dialog, "form");
    const label = element(form, "label", "Token ");
    const field = element(label, "input");
    field.type = "password";
    field.autocomplete = "off";
    field.required = true;
    element(form, "p", "This tab keeps it until it is closed, and sends it to this weir alone.", "quiet");
    element(element(form, "div", "", "buttons"), "button", "Show weir").type = "submit";
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      close(field.value.trim());
    });
  });
}

/** Says what is about to be done, and asks whether it is to be. */
export function confirm_act(title, sentences, word) {
  return ask(title, (dialog, close) => {
    for (const sentence of sentences) element(dialog, "p", sentence);
    const row = element(dialog, "div", "", "buttons");
    button(row, word, () => close(true)).classList.add("act");
    button(row, "Leave it as it is", () => close(null)).autofocus = true;
  });
}

export function tell(title, sentences) {
  return ask(title, (dialog, close) => {
    for (const sentence of sentences) element(dialog, "p", sentence);
    button(element(dialog, "div", "", "buttons"), "Close", () => close(null)).autofocus = true;
  });
}

const keys = [
  ["/", "filter the rows: words that must be there, -word that must not"],
  ["s", "sort by the next column; the worst row is first again at the end"],
  ["↓ ↑", "next row, row before"], ["Home End", "first row, last row"], ["Enter", "open the row"], ["Esc", "back, or no filter"],
  ["p r k e", "go to pools, replicas, clients' keys, events"],
  ["w", "weir itself"], ["d", "drain the replica"], ["u", "undrain it"], ["?", "this help"],
];
const signs = [
  ["up", "up: takes requests"], ["warn", "a finding is about it; in a pool, a replica is out, or requests wait or fail"], ["starting", "starting: takes some requests"],
  ["draining", "draining: takes no more"], ["ejected", "ejected for a while, for failing"], ["down", "down: does not answer"],
];

export function show_help() {
  return ask("Keys and signs", (dialog, close) => {
    const list = element(dialog, "dl", "", "keys");
    for (const [key, says] of keys) {
      element(element(list, "dt"), "kbd", key);
      element(list, "dd", says);
    }
    const legend = element(dialog, "ul", "", "signs");
    for (const [state, says] of signs) {
      const item = element(legend, "li");
      element(item, "span", "", "sign " + state);
      item.append(says);
    }
    element(dialog, "p", "“-” is unknown. Small charts are of the last five minutes, and “peak” is the most in them or in weir's window of 15 minutes. Figures fade when they are old.", "quiet");
    element(dialog, "p", "The same as JSON: /api/live, /api/live/window, /api/events.", "quiet");
    button(element(dialog, "div", "", "buttons"), "Close", () => close(null)).autofocus = true;
  });
}
