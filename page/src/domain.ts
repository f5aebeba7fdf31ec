// A domain in words: what is free, how many pods of n pieces fit now, how large a gang could start on each level.

import { type Amounts, type Cluster, type Gang, scarcest, taken, titleOf, type Topology, written } from "./data";
import { button, made, table } from "./dom";
import { nodesIn, type Place, placeAt } from "./tree";

const MOST_ROWS = 500;

function sizes(largest: number): number[] {
  const found: number[] = [];
  for (let size = 1; size < largest; size *= 2) found.push(size);
  return largest >= 1 ? [...found, largest] : found;
}

interface Best {
  count: number;
  where: string;
}

/** On each level above the nodes, the domain that holds the most pods of a size; the first entry is the domain itself. */
function largest(domain: Place, slots: (node: string) => number): Best[] {
  const best: Best[] = [];
  const count = (each: Place, depth: number): number => {
    if (!each.inside) return slots(each.name);
    let sum = 0;
    for (const inner of each.inside) sum += count(inner, depth + 1);
    const known = best[depth];
    if (!known || sum > known.count) best[depth] = { count: sum, where: sum ? each.path.join(" / ") : "" };
    return sum;
  };
  count(domain, 0);
  return best;
}

/** What fits into a domain by one resource; taints and what pods ask of nodes are not looked at. */
export function described(cluster: Cluster, topology: Topology, path: readonly string[], resource: string): HTMLElement[] {
  const domain = placeAt(topology, path);
  const inside = [...nodesIn(domain)].map((each) => each.name);
  const isOpen = (name: string): boolean => cluster.nodes[name] !== undefined && cluster.nodes[name].open !== false;
  const open = inside.filter(isOpen);
  const unit = resource === "cpu" ? 1000 : 1;
  const free = (name: string): number => (cluster.nodes[name]?.free[resource] ?? 0) / unit;
  const total = open.reduce((sum, name) => sum + free(name), 0);
  const sumOf = (part: "allocatable" | "held" | "leaving"): number =>
    inside.reduce((sum, name) => sum + (cluster.nodes[name]?.[part]?.[resource] ?? 0), 0);
  const [all, held, leaving] = [sumOf("allocatable"), sumOf("held"), sumOf("leaving")];
  const whole = Math.floor(open.reduce((most, name) => Math.max(most, (cluster.nodes[name]?.allocatable[resource] ?? 0) / unit), 0));
  const closed = inside.length - open.length;
  const apart = [held ? `, ${written(resource, held)} held for pods to come` : "", leaving ? `; ${written(resource, leaving)} of what is free is of pods on their way out` : ""];
  const shown: HTMLElement[] = [
    made("h3", {}, path.join(" / ") || topology.name || "The whole cluster"),
    made(
      "p",
      {},
      `${inside.length.toLocaleString("en")} nodes${closed ? `, ${closed} of them closed` : ""}. Free: ` +
        `${written(resource, total * unit)} of ${written(resource, all)} ${resource}${apart.join("")}.`,
    ),
  ];
  if (!whole || resource === "memory" || resource === "ephemeral-storage") return shown;
  const levels = topology.levels.slice(Math.max(0, path.length - 1), -1).map((each) => each.name);
  const titles = [`${resource} a pod`, ...(path.length ? [] : ["Everywhere"]), ...levels.map((name) => `One ${name}`)];
  const rows = sizes(whole).map((size) => {
    const best = largest(domain, (name) => (isOpen(name) ? Math.floor(free(name) / size) : 0));
    return [String(size), ...best.map(({ count, where }, at) => (at && count ? `${count} in ${where}` : String(count)))];
  });
  const fit = open.reduce((sum, name) => sum + Math.floor(free(name) / whole) * whole, 0);
  const scattered = total ? Math.round((1 - fit / total) * 100) : 0;
  shown.push(
    table("How many pods could start together now, nobody evicted", titles, rows),
    made("p", {}, `Fragmentation: ${scattered} % of what is free lies on nodes that cannot take a pod of ${whole}.`),
  );
  return shown;
}

/** The domains next below, as a table, each with a way into it; nothing where there are none. */
export function inside(
  cluster: Cluster,
  topology: Topology,
  path: readonly string[],
  resource: string,
  zoom: (path: readonly string[]) => void,
): HTMLElement[] {
  const domains = (placeAt(topology, path).inside ?? []).filter((each) => each.inside);
  if (!domains.length) return [];
  const rows = domains.slice(0, MOST_ROWS).map((domain) => {
    const nodes = [...nodesIn(domain)].map((each) => cluster.nodes[each.name]);
    const sum = (part: "allocatable" | "free" | "held" | "leaving"): number =>
      nodes.reduce((total, node) => total + (node?.[part]?.[resource] ?? 0), 0);
    const said = (amount: number): string => (amount ? written(resource, amount) : "");
    const free = `${written(resource, sum("free"))} of ${written(resource, sum("allocatable"))} ${resource}`;
    const closed = nodes.filter((node) => node?.open === false).length;
    const name = button(domain.name, () => zoom(domain.path), { class: "link" });
    return [name, String(nodes.length), free, said(sum("held")), said(sum("leaving")), closed ? String(closed) : ""];
  });
  const level = topology.levels[path.length]?.name ?? "domain";
  const rest = domains.length - rows.length;
  const caption = `Each ${level}${rest > 0 ? `; ${rest} more are not listed` : ""}`;
  return [table(caption, [level, "Nodes", "Free", "Held", "Leaving", "Closed nodes"], rows)];
}

/** The nodes that the picture shows, as a table. */
export function listed(
  cluster: Cluster,
  topology: Topology,
  path: readonly string[],
  resource: string,
  gangs: ReadonlyMap<string, Gang[]>,
  shows: (name: string) => boolean,
): HTMLElement {
  const inside = [...nodesIn(placeAt(topology, path))].filter((each) => shows(each.name));
  const rows = inside.slice(0, MOST_ROWS).map(({ name, path: own }) => {
    const node = cluster.nodes[name];
    const shown = resource || (node ? scarcest(node) : "");
    const share = Math.round((1 - taken(node, shown)) * 100);
    const part = (amounts: Amounts | undefined): string => (amounts?.[shown] ? written(shown, amounts[shown]) : "");
    const free = `${written(shown, node?.free[shown] ?? 0)} ${shown} (${share} %)`;
    const state = !node ? "gone" : node.unschedulable ? "cordoned" : node.open === false ? "closed" : "open";
    const there = (gangs.get(name) ?? []).map(titleOf).join(", ");
    const pods = `${node?.pods ?? 0}${node?.reserved ? ` and ${node.reserved} to come` : ""}`;
    return [name, own.slice(0, -1).join(" / "), free, part(node?.held), part(node?.leaving), state, pods, there];
  });
  const rest = inside.length - rows.length;
  const caption = `Nodes, as the picture shows them${rest > 0 ? `; ${rest} more are not listed: choose a domain` : ""}`;
  return table(caption, ["Node", "Domain", "Free", "Held", "Leaving", "State", "Pods", "Gangs"], rows);
}
