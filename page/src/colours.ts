// Colours of the page's style sheet, and which of them a gang has: always the same, on every page.

/** How many steps there are from free to full. */
export const STEPS = 5;
/** How many colours gangs have: no more can be told from one another by everybody. Then they come again. */
export const GANG_COLOURS = 8;

/** A colour of the page's style sheet, as it is now, in light or dark. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export interface Colours {
  fills: string[];
  gangs: string[];
  lit: string;
  near: string;
  text: string;
  page: string;
  edge: string;
  band: string;
  onGangs: string;
}

export function colours(): Colours {
  return {
    fills: Array.from({ length: STEPS + 1 }, (_, step) => colour(`fill-${step}`)),
    gangs: Array.from({ length: GANG_COLOURS }, (_, each) => colour(`gang-${each}`)),
    lit: colour("lit"),
    near: colour("near"),
    text: colour("text"),
    page: colour("page"),
    edge: colour("edge"),
    band: colour("band"),
    onGangs: colour("on-gangs"),
  };
}

/** Which colour a gang has, from its key alone (FNV-1a). */
export function gangColour(key: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < key.length; at += 1) hash = Math.imul(hash ^ key.charCodeAt(at), 0x01000193);
  return ((hash ^ (hash >>> 15)) >>> 0) % GANG_COLOURS;
}
