// The page's script: puts the picture above the tables that the server has written, and ties the two together.

import { asked, Refused } from "./asking";
import { STEPS } from "./colours";
import { type Cluster, countable, type Gang, gangsByNode, keyOf, type Near, nodesOf, resources, type Story, titleOf, type Topology } from "./data";
import { described, inside, listed } from "./domain";
import { button, Choice, made } from "./dom";
import { GangList } from "./gangs";
import { Live, type State } from "./live";
import { Picture } from "./picture";
import { asGang, type Decision, Trying } from "./solving";
import { told } from "./story";
import { pathKey } from "./tree";

/** After a drawing the browser is left so many times as long to itself. */
const REST = 4;
/** Milliseconds until the story of a gang that changes is asked for again: it is read from the API server. */
const STORY_PAUSE = 5_000;

const FULLNESS = "how full, gangs at the lower edge";
const GANGS = "gangs";
const MARKS = [
  ["held", "held for pods to come"],
  ["leaving", "of pods on their way out"],
  ["closed", "closed"],
  ["lit", "the gang that is chosen"],
  ["near", "where it nearly fits"],
];

class Page {
  readonly #canvas = made("div", { class: "picture", role: "img", "aria-label": "The cluster's domains and nodes" });
  readonly #said = made("p", { "aria-live": "polite" });
  readonly #story = made("section", { class: "story", "aria-label": "The gang that is chosen" });
  readonly #domain = made("section", { class: "domain", "aria-label": "The domain that is shown" });
  readonly #crumbs = made("ol");
  readonly #nodes = made("div", { class: "nodes" });
  readonly #tables = made("details", {}, made("summary", {}, "The same in tables"), this.#nodes);
  readonly #search = made("input", { type: "search" });
  readonly #topology = new Choice("Topology", () => this.goTo([]));
  readonly #resource = new Choice("Fuller by", () => this.draw());
  readonly #show = new Choice("Cells show", () => this.draw());
  readonly #list = new GangList((gang) => this.light(gang));
  readonly #picture: Picture;
  #path: string[] = [];
  #found = "";
  #lit: Gang | undefined;
  #near: Near[] = [];
  #waiting: number | undefined;
  #next = 0;
  #telling: number | undefined;
  #tellable = 0;

  constructor(
    main: HTMLElement,
    public gangs: Gang[],
    public cluster: Cluster,
    readonly recorded = false,
  ) {
    this.#search.addEventListener("change", () => this.find(this.#search.value.trim()));
    this.#search.addEventListener("keydown", ({ key }) => key === "Enter" && this.find(this.#search.value.trim()));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.#place(main);
    this.#show.offer([FULLNESS, GANGS]);
    this.#tables.addEventListener("toggle", () => this.#listNodes());
    this.#picture = new Picture(this.#canvas, (path) => this.goTo([...path]));
    this.refresh();
  }

  #place(main: HTMLElement): void {
    const search = made("label", {}, "Find a domain or node ", this.#search);
    const section = made(
      "section",
      { "aria-labelledby": "picture" },
      made("h2", { id: "picture", tabindex: "-1" }, "Picture"),
      made("div", { class: "controls" }, this.#topology.field, this.#resource.field, this.#show.field, search),
      made("nav", { "aria-label": "Domains from the whole to what is shown", class: "crumbs" }, this.#crumbs),
      made("div", { class: "beside" }, made("div", {}, this.#canvas, legend()), this.#list.field),
      this.#said,
      this.#story,
      this.#domain,
      ...(this.recorded ? [] : [new Trying((gang) => this.light(gang), () => this.cluster).field]),
      this.#tables,
    );
    main.prepend(section);
  }

  /** What is there has changed. */
  refresh(): void {
    this.#topology.offer(this.cluster.topologies.map((each) => each.name));
    this.#resource.offer(resources(this.cluster), "each node's scarcest resource");
    if (this.#lit && (this.recorded || !this.#lit.story)) this.#lit = this.gangs.find((each) => this.#lit && keyOf(each) === keyOf(this.#lit));
    this.#list.show(this.gangs, this.#lit);
    this.draw();
  }

  /** Something has changed: drawn at once, or as soon as the last drawing has left the browser enough time. */
  update({ gangs, cluster }: State): void {
    this.gangs = gangs;
    this.cluster = cluster;
    if (this.#waiting === undefined) {
      const rest = Math.max(0, this.#next - performance.now());
      this.#waiting = window.setTimeout(() => {
        this.#waiting = undefined;
        const [begun, before] = [performance.now(), this.#lit];
        this.refresh();
        this.#next = performance.now() + REST * (performance.now() - begun);
        if (this.#lit && this.#lit !== before) this.#tellAgain();
      }, rest);
    }
  }

  draw(): void {
    const topology = this.topology;
    if (!topology) return;
    const resource = this.#resource.value;
    const lit = this.#lit ? nodesOf(this.#lit) : new Set<string>();
    if (this.#found) lit.add(this.#found);
    const near = new Map(this.#near.map((each) => [pathKey(each.path), `${each.fits} of ${each.needed}`]));
    const { shown: cluster, gangs } = this;
    this.#picture.draw({ cluster, gangs, topology, resource, path: this.#path, lit, near, byGang: this.#show.value === GANGS });
    this.#crumbs.replaceChildren(...this.#trail(topology));
    const counted = resource || countable(cluster);
    this.#domain.replaceChildren(...described(cluster, topology, this.#path, counted));
    this.#listNodes();
  }

  /** What the picture shows, in words: the nodes of the chosen gang, else of the domain. Worked out while it is open. */
  #listNodes(): void {
    const topology = this.topology;
    if (!topology || !this.#tables.open) return;
    const lit = this.#lit ? nodesOf(this.#lit) : new Set<string>();
    const path = lit.size ? [] : this.#path;
    const shows = (name: string): boolean => !lit.size || lit.has(name);
    const { shown: cluster } = this;
    const resource = this.#resource.value;
    const domains = inside(cluster, topology, path, resource || countable(cluster), (to) => this.goTo([...to]));
    this.#nodes.replaceChildren(...domains, listed(cluster, topology, path, resource, gangsByNode(this.gangs), shows));
  }

  /** The cluster that is shown: as it is, or as it would be for the plan that is chosen. */
  get shown(): Cluster {
    return this.#lit?.asIf ?? this.cluster;
  }

  get topology(): Topology | undefined {
    return this.shown.topologies.find((each) => each.name === this.#topology.value);
  }

  #trail(topology: Topology): HTMLElement[] {
    const names = [topology.name || "all nodes", ...this.#path];
    return names.map((name, at) => {
      const here = at === names.length - 1;
      const mark: Record<string, string> = here ? { class: "link", "aria-current": "location" } : { class: "link" };
      return made("li", {}, button(name, () => this.goTo(this.#path.slice(0, at)), mark));
    });
  }

  /** Let a domain fill the picture; a path that ends with a node shows the domain around it, the node lit. */
  goTo(path: string[]): void {
    const depth = (this.topology?.levels.length ?? 1) - 1;
    this.#path = path.slice(0, depth);
    this.#found = path[depth] ?? "";
    this.draw();
  }

  /** Show a domain or node of that name, else the first whose name begins so. */
  find(name: string): void {
    const topology = this.topology;
    if (!topology || !name) return this.goTo([]);
    const fits: ((text: string) => boolean)[] = [(text) => text === name, (text) => text.startsWith(name)];
    for (const fit of fits) {
      for (const [node, path] of Object.entries(topology.nodes)) {
        const at = path.findIndex(fit);
        if (at >= 0) return this.goTo(path.slice(0, at + 1));
        if (fit(node)) return this.goTo([...path, node]);
      }
    }
    this.#said.textContent = `No domain or node is called ${name}.`;
  }

  light(gang: Gang): void {
    const same = this.#lit !== undefined && keyOf(gang) === keyOf(this.#lit) && gang.story === this.#lit.story;
    this.#lit = same ? undefined : gang;
    this.#near = [];
    const names = this.#lit ? [...nodesOf(this.#lit)].sort((a, b) => a.localeCompare(b, "en", { numeric: true })) : [];
    const where = names.length ? ` Its nodes: ${names.join(", ")}.` : " It has no node yet.";
    this.#said.textContent = this.#lit ? `${titleOf(gang)}: ${gang.message || gang.phase || "new"}.${where}` : "";
    this.#story.replaceChildren();
    this.#list.show(this.gangs, this.#lit);
    this.draw();
    if (this.#lit) void this.tell(this.#lit);
  }

  /** The story of the chosen gang as it is by now: at once, or as soon as it may be asked for again. */
  #tellAgain(): void {
    if (this.#telling !== undefined) return;
    this.#telling = window.setTimeout(
      () => {
        this.#telling = undefined;
        if (this.#lit) void this.tell(this.#lit);
      },
      Math.max(0, this.#tellable - performance.now()),
    );
  }

  /** Put the story of the chosen gang below the picture. */
  async tell(gang: Gang): Promise<void> {
    this.#tellable = performance.now() + STORY_PAUSE;
    const query = new URLSearchParams({ namespace: gang.namespace, name: gang.name, dialect: gang.dialect });
    let shown: HTMLElement[];
    let near: Near[] = [];
    try {
      const story = gang.story ?? (await asked<Story>(`/v1/story?${query.toString()}`));
      near = story.explanation?.nearest ?? [];
      shown = told(gang, story, (path) => this.goTo(path));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      shown = [made("p", {}, `Its story is not told: ${error.message}.`)];
    }
    if (!this.#lit || keyOf(gang) !== keyOf(this.#lit)) return;
    this.#near = near;
    this.#story.replaceChildren(...shown);
    this.draw();
  }
}

/** What the colours and lines of the picture mean. The colours of gangs stand beside their names. */
function legend(): HTMLElement {
  const steps = Array.from({ length: STEPS + 1 }, (_, step) => made("span", { class: `swatch fill-${step}` }));
  const line = made("p", { class: "legend" }, made("span", {}, "free ", ...steps, " full"));
  for (const [mark, text] of MARKS) line.append(made("span", {}, made("span", { class: `swatch ${mark}` }), ` ${text}`));
  line.append(made("span", {}, "each gang in the colour beside its name"));
  return line;
}

/** Say how fresh the page is where the server has said when it was made. */
function status(): (text: string) => void {
  const line = made("p", { class: "live", role: "status" });
  document.querySelector("header p")?.replaceWith(line);
  return (text) => {
    if (line.textContent !== text) line.textContent = text;
  };
}

/** What the server has written is of one moment: it goes below what is live, folded. */
function fold(main: HTMLElement): void {
  const summary = made("summary", {}, `Everything in tables, as it was at ${new Date().toLocaleTimeString()}`);
  const folded = made("details", { class: "tables" }, summary, ...main.children);
  main.append(folded);
}

async function begin(): Promise<void> {
  const main = document.querySelector("main");
  if (!main) return;
  const recorded = document.getElementById("recorded")?.textContent;
  if (recorded) {
    const { decisions, cluster } = JSON.parse(recorded) as { decisions: Decision[]; cluster: Cluster };
    new Page(main, decisions.map(asGang), cluster, true);
    return;
  }
  const live = new Live();
  try {
    const { gangs, cluster } = await live.begin();
    if (!cluster.topologies.length) return;
    fold(main);
    const page = new Page(main, gangs, cluster);
    await live.follow((state) => page.update(state), status());
  } catch (error) {
    main.prepend(made("p", { role: "alert" }, `No picture: ${String(error)}. The tables below say what was so.`));
  }
}

void begin();
