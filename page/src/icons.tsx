// Icons of phases and controls. They take the colour of the text around them.

import type { ComponentChild } from "preact";

/** By name: the view box and the drawing. */
const ICONS: Record<string, [string, () => ComponentChild]> = {
  placed: ["0 0 16 16", () => <><circle cx="8" cy="8" r="7" fill="currentColor"/><path d="m4.9 8.3 2.1 2.1 4.1-4.5" fill="none" stroke="var(--surface)" stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round"/></>],
  partly: ["0 0 16 16", () => <><circle cx="8" cy="8" r="6.2" fill="none" stroke="currentColor" stroke-width="1.6"/><path d="M8 8V3.6a4.4 4.4 0 1 1-3.1 7.5z" fill="currentColor"/></>],
  releasing: ["0 0 16 16", () => <><rect x="1" y="1" width="14" height="14" rx="4" fill="currentColor"/><path d="M4.6 8h6.4M8.4 5.2 11.2 8l-2.8 2.8" fill="none" stroke="var(--surface)" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round"/></>],
  evicting: ["0 0 16 16", () => <><path d="M8 .6 15.4 8 8 15.4.6 8z" fill="currentColor" stroke="currentColor" stroke-width="1" stroke-linejoin="round"/><path d="M6 10l4-4M6.6 6H10v3.4" fill="none" stroke="var(--surface)" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round"/></>],
  evicted: ["0 0 16 16", () => <><path d="M8 1.4 14.6 8 8 14.6 1.4 8z" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linejoin="round"/><path d="M10 9.8V8.6a1.4 1.4 0 0 0-1.4-1.4H6M7.3 5.7 5.8 7.2l1.5 1.5" fill="none" stroke="currentColor" stroke-width="1.3" stroke-linecap="round" stroke-linejoin="round"/></>],
  room: ["0 0 16 16", () => <><circle cx="8" cy="8" r="6.4" fill="none" stroke="currentColor" stroke-width="1.6"/><path d="M8 4.6V8l2.3 1.6" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round"/></>],
  quota: ["0 0 16 16", () => <><path d="M2 11.5a6.2 6.2 0 1 1 12 0" fill="none" stroke="currentColor" stroke-width="1.7" stroke-linecap="round"/><path d="M8 10.4 11 6.4" stroke="currentColor" stroke-width="1.7" stroke-linecap="round"/><circle cx="8" cy="10.6" r="1.5" fill="currentColor"/></>],
  never: ["0 0 16 16", () => <><path d="M5 1h6l4 4v6l-4 4H5l-4-4V5z" fill="currentColor"/><path d="m5.7 5.7 4.6 4.6m0-4.6-4.6 4.6" stroke="var(--surface)" stroke-width="1.7" stroke-linecap="round"/></>],
  finished: ["0 0 16 16", () => <><rect x="1.8" y="1.8" width="12.4" height="12.4" rx="3" fill="none" stroke="currentColor" stroke-width="1.5"/><path d="m5.2 8.2 2 2 3.7-4.1" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round"/></>],
  find: ["0 0 16 16", () => <><circle cx="7" cy="7" r="4.6" fill="none" stroke="currentColor" stroke-width="1.5"/><path d="m10.5 10.5 3.4 3.4" stroke="currentColor" stroke-width="1.5" stroke-linecap="round"/></>],
  down: ["0 0 12 12", () => <path d="m3 4.5 3 3 3-3" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round"/>],
  x: ["0 0 16 16", () => <path d="m4 4 8 8m0-8-8 8" stroke="currentColor" stroke-width="1.5" stroke-linecap="round"/>],
  link: ["0 0 16 16", () => <path d="M6.6 9.4 9.4 6.6M7 4.6l1.3-1.3a3 3 0 0 1 4.3 4.3L11.3 9M9 11.4l-1.3 1.3a3 3 0 0 1-4.3-4.3L4.7 7" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round"/>],
  back: ["0 0 16 16", () => <path d="M9.8 3.6 5.4 8l4.4 4.4" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round"/>],
  try: ["0 0 16 16", () => <path d="M6.2 1.8h3.6M7 1.8v4.4L3 12.6a1.1 1.1 0 0 0 1 1.6h8a1.1 1.1 0 0 0 1-1.6L9 6.2V1.8M4.9 9.8h6.2" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round"/>],
  theme: ["0 0 16 16", () => <><circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="1.5"/><path d="M8 2a6 6 0 0 1 0 12z" fill="currentColor"/></>],
  more: ["0 0 16 16", () => <g fill="currentColor"><circle cx="3.5" cy="8" r="1.4"/><circle cx="8" cy="8" r="1.4"/><circle cx="12.5" cy="8" r="1.4"/></g>],
  warn: ["0 0 16 16", () => <><path d="M8 1.8 15 14H1z" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round"/><path d="M8 6.2v3.4M8 11.6v.4" stroke="currentColor" stroke-width="1.6" stroke-linecap="round"/></>],
  list: ["0 0 20 20", () => <path d="M3 5h2m3 0h9M3 10h2m3 0h9M3 15h2m3 0h9" stroke="currentColor" stroke-width="1.7" stroke-linecap="round"/>],
  grid: ["0 0 20 20", () => <g fill="none" stroke="currentColor" stroke-width="1.6"><rect x="2.8" y="2.8" width="5.8" height="5.8" rx="1.2"/><rect x="11.4" y="2.8" width="5.8" height="5.8" rx="1.2"/><rect x="2.8" y="11.4" width="5.8" height="5.8" rx="1.2"/><rect x="11.4" y="11.4" width="5.8" height="5.8" rx="1.2"/></g>],
  queue: ["0 0 20 20", () => <path d="M3 5h14M3 10h9M3 15h5" stroke="currentColor" stroke-width="1.8" stroke-linecap="round"/>],
  hist: ["0 0 20 20", () => <path d="M3.2 10a6.8 6.8 0 1 0 2.2-5M3 3v3.4h3.4M10 6.4V10l2.6 1.7" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round"/>],
};

export function Icon({ name, tone = "", size = 16 }: { name: string; tone?: string; size?: number }) {
  const [box, drawing] = ICONS[name] ?? ["0 0 16 16", () => null];
  return (
    <svg class={tone ? `i c-${tone}` : "i"} width={size} height={size} viewBox={box} aria-hidden="true">
      {drawing()}
    </svg>
  );
}

export function Logo() {
  return (
    <svg class="logo" viewBox="0 0 22 22" aria-hidden="true"><g fill="var(--accent)"><rect x="1" y="1" width="5.6" height="5.6" rx="1.4"/><rect x="8.2" y="1" width="5.6" height="5.6" rx="1.4"/><rect x="15.4" y="1" width="5.6" height="5.6" rx="1.4"/><rect x="1" y="8.2" width="5.6" height="5.6" rx="1.4"/><rect x="8.2" y="8.2" width="5.6" height="5.6" rx="1.4"/><rect x="1" y="15.4" width="5.6" height="5.6" rx="1.4"/></g><path d="m13 19 6.6-6.6M19.8 18v-5.8H14" fill="none" stroke="var(--accent)" stroke-width="2" stroke-linecap="round" stroke-linejoin="round"/></svg>
  );
}
