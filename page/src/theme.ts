// Light and dark mode: by the system, until the user switches.

import { dark } from "./state";

const KEY = "phalanx-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function chosen(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // A file may not store anything.
  }
}

function apply(theme: string | null): void {
  if (theme) document.documentElement.dataset["theme"] = theme;
  else delete document.documentElement.dataset["theme"];
  dark.value = theme ? theme === "dark" : system.matches;
}

/** Switch to the other mode. The mode of the system needs no entry: the page follows it again. */
export function switchTheme(): void {
  const wanted = dark.value ? "light" : "dark";
  const same = system.matches === (wanted === "dark");
  try {
    if (same) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, wanted);
  } catch {
    // The choice lasts until the page is closed.
  }
  apply(same ? null : wanted);
}

export function startTheme(): void {
  apply(chosen());
  system.addEventListener("change", () => apply(chosen()));
}
