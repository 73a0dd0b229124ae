// The moment that the pointer is on, shared by everything that is drawn over time.

const listeners = new Set();

export const cursor = {
  /** So many seconds before the last one; null if the pointer is on no chart. */
  ago: null,
  set(ago) {
    if (ago === cursor.ago) return;
    cursor.ago = ago;
    for (const listener of listeners) listener(ago);
  },
  on(listener) { listeners.add(listener); },
};
