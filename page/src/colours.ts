// The colours of the style sheet as the canvas needs them: resolved for the light or the dark mode.

/** The number of colours for found gangs. More could not be told apart. */
export const FOUND_COLOURS = 6;
/** The number of fills between a free and a full node, for nodes that are too small for marks. */
export const STEPS = 5;

const TOKENS = [
  ...["surface", "sunk", "line", "line-strong", "text", "muted", "accent", "accent-soft", "go", "out", "wait", "wait-fill", "wait-soft"],
  ...["used", "used-far", "free"],
] as const;
export type Token = (typeof TOKENS)[number];

export type Colours = Record<Token, string> & { found: string[]; fills: string[] };

/** Read the colours of the style sheet. `light-dark()` is resolved only in the value of a property, hence the probe. */
export function colours(): Colours {
  const probe = document.createElement("i");
  probe.hidden = true;
  document.body.append(probe);
  const read = (name: string): string => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const tokens = Object.fromEntries(TOKENS.map((name) => [name, read(name)])) as Record<Token, string>;
  const found = Array.from({ length: FOUND_COLOURS }, (_, at) => read(`g${at}`));
  const fills = Array.from({ length: STEPS + 1 }, (_, step) => read(`fill-${step}`));
  probe.remove();
  return { ...tokens, found, fills };
}
