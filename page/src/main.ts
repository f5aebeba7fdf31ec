// The page's script: puts the picture above the tables that the server has written, and ties the two together.

import { type Cluster, type Gang, nodesOf, resources, taken, titleOf, written } from "./data";
import { Picture } from "./picture";

const MOST_ROWS = 500;

async function asked<T>(path: string): Promise<T> {
  const answer = await fetch(path, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(`${path} answers ${answer.status}`);
  return (await answer.json()) as T;
}

function made<K extends keyof HTMLElementTagNameMap>(
  kind: K,
  attributes: Record<string, string> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function choice(label: string, values: string[], changed: () => void): { field: HTMLElement; chosen: HTMLSelectElement } {
  const chosen = made("select", {}, ...values.map((value) => made("option", { value }, value)));
  chosen.addEventListener("change", changed);
  return { field: made("label", {}, `${label} `, chosen), chosen };
}

class Page {
  readonly #canvas = made("div", { class: "picture", role: "img", "aria-label": "The cluster's domains and nodes" });
  readonly #said = made("p", { "aria-live": "polite" });
  readonly #list = made("ul", { class: "gangs" });
  readonly #rows = made("tbody");
  readonly #search = made("input", { type: "search", list: "places" });
  readonly #filter = made("input", { type: "search" });
  readonly #topology: ReturnType<typeof choice>;
  readonly #resource: ReturnType<typeof choice>;
  #picture: Picture | undefined;
  #lit: Gang | undefined;

  constructor(
    readonly gangs: Gang[],
    readonly cluster: Cluster,
  ) {
    const draw = () => this.draw();
    this.#topology = choice("Topology", cluster.topologies.map((each) => each.name), draw);
    this.#resource = choice("Fuller by", resources(cluster), draw);
    this.#search.addEventListener("change", () => this.#picture?.zoomTo(this.#search.value));
    this.#search.addEventListener("input", () => this.table());
    this.#filter.addEventListener("input", () => this.listGangs());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  }

  show(main: HTMLElement): void {
    const controls = made(
      "p",
      { class: "controls" },
      this.#topology.field,
      this.#resource.field,
      made("label", {}, "Find a domain or node ", this.#search),
    );
    const legend = made("p", { class: "legend" }, "free ");
    for (let step = 0; step <= 5; step += 1) legend.append(made("span", { class: `swatch fill-${step}` }));
    legend.append(" full   ", made("span", { class: "swatch lit" }), " the gang that is chosen");
    const head = made("tr", {}, ...["Node", "Domain", "Free", "Pods"].map((title) => made("th", { scope: "col" }, title)));
    const caption = made("caption", {}, "Nodes, as the picture shows them");
    const nodes = made("table", {}, caption, made("thead", {}, head), this.#rows);
    const region = made("div", { class: "wide", role: "region", "aria-label": "Nodes", tabindex: "0" }, nodes);
    const chosen = made("aside", { "aria-label": "Gangs to be shown" }, made("label", {}, "Gangs with ", this.#filter), this.#list);
    const section = made(
      "section",
      { "aria-labelledby": "picture" },
      made("h2", { id: "picture", tabindex: "-1" }, "Picture"),
      controls,
      made("div", { class: "beside" }, made("div", {}, this.#canvas, legend), chosen),
      this.#said,
      made("details", {}, made("summary", {}, "The nodes as a table"), region),
    );
    main.prepend(section);
    this.#picture = new Picture(this.#canvas, this.cluster);
    this.listGangs();
    this.draw();
  }

  draw(): void {
    const topology = this.cluster.topologies.find((each) => each.name === this.#topology.chosen.value);
    const lit = this.#lit ? nodesOf(this.#lit) : new Set<string>();
    if (topology) this.#picture?.draw(topology, this.#resource.chosen.value, lit);
    this.table();
  }

  listGangs(): void {
    const wanted = this.#filter.value.toLowerCase();
    const found = this.gangs.filter((gang) =>
      `${titleOf(gang)} ${gang.phase} ${gang.dialect}`.toLowerCase().includes(wanted),
    );
    const items = found.slice(0, MOST_ROWS).map((gang) => {
      const pressed = String(gang === this.#lit);
      const button = made("button", { type: "button", "aria-pressed": pressed }, titleOf(gang), made("small", {}, ` ${gang.phase || "new"}`));
      button.addEventListener("click", () => this.light(gang));
      return made("li", {}, button);
    });
    this.#list.replaceChildren(...items);
  }

  light(gang: Gang): void {
    this.#lit = gang === this.#lit ? undefined : gang;
    const names = this.#lit ? [...nodesOf(this.#lit)].sort((a, b) => a.localeCompare(b, "en", { numeric: true })) : [];
    const where = names.length ? ` Its nodes: ${names.join(", ")}.` : " It has no node yet.";
    this.#said.textContent = this.#lit ? `${titleOf(gang)}: ${gang.message || gang.phase || "new"}.${where}` : "";
    for (const button of this.#list.querySelectorAll("button"))
      button.setAttribute("aria-pressed", String(this.#lit !== undefined && button.firstChild?.textContent === titleOf(gang)));
    this.draw();
  }

  table(): void {
    const topology = this.cluster.topologies.find((each) => each.name === this.#topology.chosen.value);
    const resource = this.#resource.chosen.value;
    const wanted = this.#search.value;
    const lit = this.#lit ? nodesOf(this.#lit) : undefined;
    const rows: HTMLElement[] = [];
    for (const [name, path] of Object.entries(topology?.nodes ?? {})) {
      if ((wanted && ![...path, name].some((part) => part.startsWith(wanted))) || (lit && !lit.has(name))) continue;
      if (rows.length === MOST_ROWS) break;
      const node = this.cluster.nodes[name];
      const share = Math.round((1 - taken(node, resource)) * 100);
      const free = `${written(resource, node?.free[resource] ?? 0)} ${resource} (${share} %)`;
      const cells = [path.join(" / "), free, String(node?.pods.length ?? 0)].map((text) => made("td", {}, text));
      rows.push(made("tr", {}, made("th", { scope: "row" }, name), ...cells));
    }
    this.#rows.replaceChildren(...rows);
  }
}

async function begin(): Promise<void> {
  const main = document.querySelector("main");
  if (!main) return;
  try {
    const [{ gangs }, cluster] = await Promise.all([asked<{ gangs: Gang[] }>("/v1/gangs"), asked<Cluster>("/v1/topology")]);
    if (cluster.topologies.length) new Page(gangs, cluster).show(main);
  } catch (error) {
    main.prepend(made("p", { role: "alert" }, `No picture: ${String(error)}. The tables below say what was so.`));
  }
}

void begin();
