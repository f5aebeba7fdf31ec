// The list of gangs: filtered by phase, namespace, system and words; a click chooses one.

import { gangColour } from "./colours";
import { type Gang, keyOf, titleOf } from "./data";
import { Choice, made } from "./dom";

const MOST = 500;

function values(gangs: Gang[], of: (gang: Gang) => string): string[] {
  return [...new Set(gangs.map(of))].sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
}

export function phaseOf(gang: Gang): string {
  return gang.phase || "new";
}

export class GangList {
  readonly field: HTMLElement;
  readonly #list = made("ul", { class: "gangs" });
  readonly #count = made("p", { class: "count" });
  readonly #words = made("input", { type: "search" });
  readonly #phase: Choice;
  readonly #namespace: Choice;
  readonly #system: Choice;
  #gangs: Gang[] = [];
  #chosen = "";

  constructor(readonly choose: (gang: Gang) => void) {
    const changed = (): void => this.#draw();
    this.#phase = new Choice("Phase", changed);
    this.#namespace = new Choice("Namespace", changed);
    this.#system = new Choice("System", changed);
    this.#words.addEventListener("input", changed);
    this.field = made(
      "aside",
      { "aria-label": "Gangs to be shown" },
      made("div", { class: "filters" }, this.#phase.field, this.#namespace.field, this.#system.field, made("label", {}, "Gangs with ", this.#words)),
      this.#count,
      this.#list,
    );
  }

  show(gangs: Gang[], chosen: Gang | undefined): void {
    this.#gangs = gangs;
    this.#chosen = chosen ? keyOf(chosen) : "";
    this.#phase.offer(values(gangs, phaseOf), "all");
    this.#namespace.offer(values(gangs, (each) => each.namespace), "all");
    this.#system.offer(values(gangs, (each) => each.dialect), "all");
    this.#draw();
  }

  #draw(): void {
    const words = this.#words.value.toLowerCase();
    const wanted = (value: string, choice: Choice): boolean => !choice.value || choice.value === value;
    const found = this.#gangs.filter(
      (gang) =>
        wanted(phaseOf(gang), this.#phase) &&
        wanted(gang.namespace, this.#namespace) &&
        wanted(gang.dialect, this.#system) &&
        `${titleOf(gang)} ${gang.phase} ${gang.dialect} ${gang.message}`.toLowerCase().includes(words),
    );
    const focused = (document.activeElement as HTMLElement | null)?.dataset["gang"];
    const items = found.slice(0, MOST).map((gang) => {
      const pressed = String(keyOf(gang) === this.#chosen);
      const button = made("button", { type: "button", "aria-pressed": pressed, "data-gang": keyOf(gang) });
      button.append(made("span", { class: `swatch gang-${gangColour(keyOf(gang))}` }), titleOf(gang), made("small", {}, ` ${phaseOf(gang)}`));
      button.addEventListener("click", () => this.choose(gang));
      return made("li", {}, button);
    });
    const rest = found.length - items.length;
    this.#count.textContent = `${found.length} of ${this.#gangs.length} gangs${rest ? `, the first ${MOST} listed` : ""}`;
    this.#list.replaceChildren(...items);
    if (focused !== undefined)
      [...this.#list.querySelectorAll("button")].find((each) => each.dataset["gang"] === focused)?.focus();
  }
}
