// The cluster as one picture: its levels nested, a cell a node, the fuller the darker, each gang in its colour.

import { select } from "d3-selection";
import { zoom, zoomIdentity, type ZoomBehavior, zoomTransform } from "d3-zoom";

import { colours, gangColour } from "./colours";
import { type Cluster, type Gang, gangsByNode, keyOf, scarcest, share, taken, titleOf, type Topology, written } from "./data";
import { made } from "./dom";
import { at, type Laid, laid } from "./layout";
import { fill, type Look, Painter, type Scene, type Shown } from "./painting";
import { pathKey, placeAt } from "./tree";

/** What is drawn. `path`: the domain that fills the picture; `resource`: "" for each node's scarcest; `lit`: nodes to be
 * told from the others; `near`: what is to be said of domains, by their paths. */
export interface View {
  cluster: Cluster;
  gangs: Gang[];
  topology: Topology;
  resource: string;
  path: readonly string[];
  lit: ReadonlySet<string>;
  near: ReadonlyMap<string, string>;
  byGang: boolean;
}

const FARTHEST = 40;
const NOTHING: Look = { taken: 0, held: 0, leaving: 0, closed: false, lit: false, gangs: [] };

export class Picture {
  readonly #canvas = made("canvas", { class: "cells" });
  readonly #tip = made("div", { class: "tip", hidden: "" });
  readonly #zoom: ZoomBehavior<HTMLCanvasElement, unknown>;
  #view: View | undefined;
  #scene: Scene | undefined;
  #laid: { root: Laid; topology: Topology; key: string } | undefined;
  #gangsOn: ReadonlyMap<string, Gang[]> = new Map();
  #frame = 0;

  /** `chosen`: told the path of what is clicked; a node's ends with its name. */
  constructor(
    readonly place: HTMLElement,
    chosen: (path: readonly string[]) => void,
  ) {
    place.append(this.#canvas, this.#tip);
    this.#zoom = zoom<HTMLCanvasElement, unknown>()
      .scaleExtent([1, FARTHEST])
      .filter((event: Event) => this.#takes(event))
      .on("zoom", () => this.#changed());
    select(this.#canvas).call(this.#zoom).on("dblclick.zoom", null);
    new ResizeObserver(() => this.#view && this.draw(this.#view)).observe(place);
    this.#canvas.addEventListener("click", (event) => {
      const found = this.#under(event);
      if (found) chosen(found.data.path);
    });
    this.#canvas.addEventListener("pointermove", (event) => this.#tell(event));
    this.#canvas.addEventListener("pointerleave", () => (this.#tip.hidden = true));
  }

  /** One finger scrolls the page as long as the whole picture is seen. */
  #takes(event: Event): boolean {
    if (event instanceof MouseEvent && event.button) return false;
    const alone = "touches" in event && (event as TouchEvent).touches.length < 2;
    return !(alone && zoomTransform(this.#canvas).k === 1);
  }

  draw(view: View): void {
    const [width, height] = [this.place.clientWidth, this.place.clientHeight];
    if (!width || !height) return;
    const key = [pathKey(view.path), width, height].join(" ");
    if (this.#laid?.topology !== view.topology || this.#laid.key !== key) {
      this.#size(width, height);
      this.#tip.hidden = true;
      this.#laid = { root: laid(placeAt(view.topology, view.path), width, height), topology: view.topology, key };
      this.#zoom.extent([[0, 0], [width, height]]).translateExtent([[0, 0], [width, height]]);
      const path = this.#view?.topology.name === view.topology.name ? this.#view.path : undefined;
      if (!path || pathKey(path) !== pathKey(view.path)) select(this.#canvas).call(this.#zoom.transform, zoomIdentity);
    }
    this.#view = view;
    this.#scene = this.#made(view, this.#laid.root);
    this.#changed();
  }

  #size(width: number, height: number): void {
    const ratio = devicePixelRatio || 1;
    this.#canvas.width = Math.round(width * ratio);
    this.#canvas.height = Math.round(height * ratio);
  }

  /** What is to be painted, however it is moved. */
  #made(view: View, root: Laid): Scene {
    this.#gangsOn = gangsByNode(view.gangs);
    const nodes = new Map<string, Shown[]>();
    const told = new Map<Laid, string>();
    const lit: Laid[] = [];
    const style = { colours: colours(), byGang: view.byGang };
    root.each((each) => {
      if (each.children) {
        const text = view.near.get(pathKey(each.data.path));
        if (text !== undefined) told.set(each, text);
        return;
      }
      const look = this.#look(view, each.data.name);
      const color = fill(look, style);
      if (look.lit) lit.push(each);
      const same = nodes.get(color);
      if (same) same.push({ laid: each, look });
      else nodes.set(color, [{ laid: each, look }]);
    });
    return { root, nodes, lit, told, ...style };
  }

  #look({ cluster, resource, lit }: View, name: string): Look {
    const node = cluster.nodes[name];
    if (!node) return { ...NOTHING, taken: 1, closed: true };
    const shown = resource || scarcest(node);
    return {
      taken: taken(node, shown),
      held: share(node, node.held, shown),
      leaving: share(node, node.leaving, shown),
      closed: node.open === false,
      lit: lit.has(name),
      gangs: (this.#gangsOn.get(name) ?? []).map((each) => gangColour(keyOf(each))),
    };
  }

  #changed(): void {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      const context = this.#canvas.getContext("2d", { alpha: false });
      if (context && this.#scene) new Painter(context, this.#scene, zoomTransform(this.#canvas)).paint();
    });
  }

  #under(event: MouseEvent): Laid | undefined {
    const [x, y] = zoomTransform(this.#canvas).invert([event.offsetX, event.offsetY]);
    return this.#laid && at(this.#laid.root, x, y);
  }

  /** Say what is under the pointer, beside it. */
  #tell(event: PointerEvent): void {
    const found = this.#under(event);
    this.#tip.hidden = !found?.depth;
    if (!found?.depth || !this.#view) return;
    this.#tip.textContent = found.children ? `${found.data.path.join(" / ")}: ${found.value ?? 0} nodes` : this.#told(this.#view, found.data.name);
    const left = event.offsetX > this.place.clientWidth / 2;
    this.#tip.style.left = left ? "" : `${event.offsetX + 14}px`;
    this.#tip.style.right = left ? `${this.place.clientWidth - event.offsetX + 14}px` : "";
    this.#tip.style.top = `${Math.min(event.offsetY + 14, this.place.clientHeight - this.#tip.offsetHeight)}px`;
  }

  #told({ cluster, resource }: View, name: string): string {
    const node = cluster.nodes[name];
    if (!node) return name;
    const shown = resource || scarcest(node);
    const amount = (all: number | undefined): string => written(shown, all ?? 0);
    return [
      name,
      `${shown}: ${amount(node.free[shown])} of ${amount(node.allocatable[shown])} free`,
      node.held?.[shown] ? `${amount(node.held[shown])} held for pods to come` : "",
      node.leaving?.[shown] ? `${amount(node.leaving[shown])} of pods on their way out` : "",
      `${node.pods} pods${node.reserved ? `, ${node.reserved} to come` : ""}`,
      node.unschedulable ? "cordoned" : node.open === false ? "closed: tainted or not ready" : "",
      ...(this.#gangsOn.get(name) ?? []).map((gang) => `gang ${titleOf(gang)}`),
    ]
      .filter((line) => line)
      .join("\n");
  }
}
