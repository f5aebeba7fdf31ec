// The cluster as one picture: its levels nested, a cell a node, the fuller the darker; a gang's nodes lit.

import { TreemapChart } from "echarts/charts";
import { AriaComponent, TooltipComponent } from "echarts/components";
import { type EChartsType, init, use } from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";

import { type Cluster, type Topology, taken, written } from "./data";

use([TreemapChart, TooltipComponent, AriaComponent, CanvasRenderer]);

interface Cell {
  name: string;
  value: number;
  children?: Cell[];
  itemStyle?: { color: string; borderColor?: string; borderWidth?: number };
  label?: { show: boolean };
}

/** A colour of the page's style sheet. */
function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

const STEPS = 5;

export class Picture {
  readonly #chart: EChartsType;

  constructor(
    place: HTMLElement,
    readonly cluster: Cluster,
  ) {
    this.#chart = init(place, null, { renderer: "canvas" });
    addEventListener("resize", () => this.#chart.resize());
  }

  /** Draw a topology by how much of a resource is taken; `lit`: nodes to be told from the others. */
  draw(topology: Topology, resource: string, lit: ReadonlySet<string>): void {
    const fills = Array.from({ length: STEPS + 1 }, (_, step) => colour(`fill-${step}`));
    const [glow, edge, text] = [colour("lit"), colour("edge"), colour("text")];
    const cell = (name: string): Cell => {
      const fill = fills[Math.round(taken(this.cluster.nodes[name], resource) * STEPS)] ?? "";
      return { name, value: 1, itemStyle: { color: lit.has(name) ? glow : fill } };
    };
    const nested = (): { upperLabel: object; itemStyle: object } => ({
      upperLabel: { show: true, height: 20, color: text },
      itemStyle: { borderColor: edge, borderWidth: 3, gapWidth: 2 },
    });
    this.#chart.setOption(
      {
        aria: { enabled: true, label: { description: "The tables below say the same in words." } },
        animation: !matchMedia("(prefers-reduced-motion: reduce)").matches,
        tooltip: {
          renderMode: "richText",
          formatter: (one: { name: string }) => this.#told(one.name, resource),
        },
        series: [
          {
            type: "treemap",
            name: topology.name || "all nodes",
            data: tree(topology, cell),
            left: 0,
            right: 0,
            top: 4,
            bottom: 34,
            sort: false,
            roam: true,
            nodeClick: "zoomToNode",
            visibleMin: 0,
            breadcrumb: { itemStyle: { color: edge, textStyle: { color: text } }, emphasis: { itemStyle: { color: glow } } },
            label: { show: true, color: text, overflow: "truncate" },
            levels: [
              { itemStyle: { borderColor: edge, borderWidth: 0, gapWidth: 4 } },
              ...topology.levels.slice(0, -1).map(nested),
              { itemStyle: { gapWidth: 1 } },
            ],
          },
        ],
      },
      true,
    );
  }

  /** Zoom to a domain or a node of that name. */
  zoomTo(name: string): void {
    const series = (this.#chart as unknown as { getModel(): { getSeriesByIndex(at: number): Series } })
      .getModel()
      .getSeriesByIndex(0);
    const found = series.getData().tree.root.children.length
      ? first(series.getData().tree.root, name)
      : undefined;
    if (found) this.#chart.dispatchAction({ type: "treemapZoomToNode", seriesIndex: 0, targetNode: found });
  }

  #told(name: string, resource: string): string {
    const node = this.cluster.nodes[name];
    if (!node) return name;
    const free = written(resource, node.free[resource] ?? 0);
    const all = written(resource, node.allocatable[resource] ?? 0);
    const held = node.reserved.length ? `, ${node.reserved.length} to come` : "";
    const closed = node.unschedulable ? "\ncordoned" : "";
    return `${name}\n${resource}: ${free} of ${all} free\n${node.pods.length} pods${held}${closed}`;
  }
}

interface Series {
  getData(): { tree: { root: TreeNode } };
}
interface TreeNode {
  name: string;
  children: TreeNode[];
}

function first(node: TreeNode, name: string): TreeNode | undefined {
  if (node.name === name) return node;
  for (const child of node.children) {
    const found = first(child, name);
    if (found) return found;
  }
  return undefined;
}

/** The domains with the nodes in them, in the order in which they come: the tree's own. */
function tree(topology: Topology, cell: (name: string) => Cell): Cell[] {
  const top: Cell[] = [];
  const byPath = new Map<string, Cell>();
  for (const [name, path] of Object.entries(topology.nodes)) {
    let siblings = top;
    let key = "";
    const above: Cell[] = [];
    for (const part of path) {
      key += `\u0000${part}`;
      let domain = byPath.get(key);
      if (!domain) {
        domain = { name: part, value: 0, children: [] };
        byPath.set(key, domain);
        siblings.push(domain);
      }
      above.push(domain);
      siblings = domain.children ?? [];
    }
    siblings.push(cell(name));
    for (const domain of above) domain.value += 1;
  }
  return top;
}
