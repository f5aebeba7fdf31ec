// Copies the link to what the page shows.

import { signal } from "@preact/signals";

import { link as address } from "./state";

/** Milliseconds for which the button shows that the link was copied. */
const SHOWN = 2_000;

export const copied = signal(false);

export async function link(): Promise<void> {
  try {
    await navigator.clipboard.writeText(address());
    copied.value = true;
    setTimeout(() => (copied.value = false), SHOWN);
  } catch {
    prompt("Link to this view", address());
  }
}
