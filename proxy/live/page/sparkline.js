// Small charts beside a number: the last minutes of it, one pixel for some seconds, and the value under the cursor.
import { colour, element, put, put_style } from "./dom.js";
import { cursor } from "./cursor.js";

export const seconds_shown = 300;

let resized = 0;
addEventListener("resize", () => { ++resized; });

/** Returns the most of each of `count` equal parts of the last `seconds`; null where nothing is known. */
export function parts(values, seconds, count) {
  const result = new Array(count).fill(null);
  const missing = seconds - values.length;
  for (let i = Math.max(0, -missing); i < values.length; ++i) {
    const value = values[i];
    if (value === null) continue;
    const part = Math.min(count - 1, Math.floor(((i + missing) * count) / seconds));
    if (result[part] === null || value > result[part]) result[part] = value;
  }
  return result;
}

export class Sparkline {
  #canvas;
  #line;
  #number;
  #values = [];
  #now = "";
  #format;
  #drawn = "";
  #measured = -1;
  #size = [0, 0];

  constructor(parent, format) {
    this.#format = format;
    parent.classList.add("spark");
    this.#number = element(parent, "b");
    const place = element(parent, "span", "", "chart");
    this.#canvas = element(place, "canvas");
    this.#canvas.setAttribute("aria-hidden", "true");
    this.#line = element(place, "i");
    place.addEventListener("pointermove", (event) => {
      const at = event.offsetX / Math.max(1, place.clientWidth);
      cursor.set(Math.min(seconds_shown - 1, Math.max(0, Math.round((1 - at) * (seconds_shown - 1)))));
    });
    place.addEventListener("pointerleave", () => cursor.set(null));
  }

  /** Shows the number `now`, and draws the values behind it. */
  show(values, now, serial) {
    this.#values = values;
    this.#now = now;
    this.point();
    const key = [serial, values.length, resized, colour("spark")].join();
    if (key !== this.#drawn && this.#draw()) this.#drawn = key;
  }

  /** Shows the value under the cursor, or that of now. */
  point() {
    const ago = cursor.ago;
    this.#number.classList.toggle("past", ago !== null);
    put(this.#number, ago === null ? this.#now : this.#format(this.#values[this.#values.length - 1 - ago] ?? null));
    put_style(this.#line, "display", ago === null ? "none" : "block");
    if (ago !== null) put_style(this.#line, "left", 100 * (1 - ago / (seconds_shown - 1)) + "%");
  }

  /** Returns false if the chart has no size yet. To read a size in each second would cost a layout for each row. */
  #draw() {
    const canvas = this.#canvas, scale = window.devicePixelRatio || 1;
    if (this.#measured !== resized) this.#size = [Math.round(canvas.clientWidth * scale), Math.round(canvas.clientHeight * scale)];
    const [width, height] = this.#size;
    if (!width || !height) return false;
    this.#measured = resized;
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, width, height);
    const columns = parts(this.#values, seconds_shown, Math.min(seconds_shown, Math.floor(width / scale)));
    const most = Math.max(1e-9, ...columns.map((value) => value ?? 0));
    const step = width / columns.length, foot = height - scale;
    context.beginPath();
    columns.forEach((value, i) => {
      if (value === null) return;
      const high = (value / most) * (height - 2 * scale);
      context.rect(i * step, foot - high, step + 0.5, high);
    });
    context.fillStyle = colour("spark");
    context.fill();
    context.fillStyle = colour("line");
    context.fillRect(0, foot, width, scale);
    return true;
  }
}
