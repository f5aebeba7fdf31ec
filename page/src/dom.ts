// Elements, made in a line. Whatever users wrote goes in as text.

export type Child = Node | string;

export function made<K extends keyof HTMLElementTagNameMap>(
  kind: K,
  attributes: Record<string, string> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export function button(text: string, pressed: () => void, attributes: Record<string, string> = {}): HTMLButtonElement {
  const element = made("button", { type: "button", ...attributes }, text);
  element.addEventListener("click", pressed);
  return element;
}

/** A list to choose from. Its values can be told anew; what was chosen stays while it is among them. */
export class Choice {
  readonly #chosen = made("select");
  readonly field: HTMLElement;

  constructor(label: string, changed: () => void) {
    this.field = made("label", {}, `${label} `, this.#chosen);
    this.#chosen.addEventListener("change", changed);
  }

  get value(): string {
    return this.#chosen.value;
  }

  offer(values: string[], any?: string): void {
    const all = [...(any === undefined ? [] : [{ value: "", text: any }]), ...values.map((value) => ({ value, text: value }))];
    const known = [...this.#chosen.options].map((each) => each.value);
    if (known.length === all.length && all.every((each, at) => each.value === known[at])) return;
    const before = this.#chosen.value;
    this.#chosen.replaceChildren(...all.map((each) => made("option", { value: each.value }, each.text)));
    if (all.some((each) => each.value === before)) this.#chosen.value = before;
  }
}

/** A table of texts, the first cell of a row naming it; scrolls by itself where it is too wide. */
export function table(caption: string, titles: string[], rows: Child[][]): HTMLElement {
  const head = made("tr", {}, ...titles.map((title) => made("th", { scope: "col" }, title)));
  const body = rows.map(([first, ...rest]) =>
    made("tr", {}, made("th", { scope: "row" }, first ?? ""), ...rest.map((cell) => made("td", {}, cell))),
  );
  const whole = made("table", {}, made("caption", {}, caption), made("thead", {}, head), made("tbody", {}, ...body));
  return made("div", { class: "wide", role: "region", "aria-label": caption, tabindex: "0" }, whole);
}

/** Names and what is to be said of them; those of which there is nothing are left out. */
export function facts(entries: [string, Child][]): HTMLElement {
  const list = made("dl");
  for (const [name, value] of entries) if (value) list.append(made("dt", {}, name), made("dd", {}, value));
  return list;
}
