// The figures of domains: what is free, how many pods could start together, and how scattered the free capacity is.

import { unitOf } from "./looks";
import { type Cluster, unitName, written } from "./data";
import { nodesIn, pathKey, type Place } from "./tree";

export interface Sums {
  nodes: number;
  closedNodes: number;
  /** Amounts in base units of one resource. Closed nodes count as closed only. */
  all: number;
  used: number;
  /** Without capacity that terminating pods still hold. */
  reserved: number;
  terminating: number;
  free: number;
  closed: number;
}

const NONE: Sums = { nodes: 0, closedNodes: 0, all: 0, used: 0, reserved: 0, terminating: 0, free: 0, closed: 0 };

/** The sums of each domain by its path, computed in one pass over the nodes. */
export function sumsOf(root: Place, cluster: Cluster, resource: string): Map<string, Sums> {
  const sums = new Map<string, Sums>();
  const visit = (place: Place): Sums => {
    const sum = { ...NONE };
    if (!place.inside) {
      const node = cluster.nodes[place.name];
      sum.nodes = 1;
      if (!node) return sum;
      const [all, free, held, leaving] = [node.allocatable, node.free, node.held, node.leaving].map((each) => each?.[resource] ?? 0) as [number, number, number, number];
      sum.all = all;
      sum.used = Math.max(0, all - free - held);
      sum.reserved = Math.max(0, held - Math.max(0, leaving - free));
      sum.terminating = leaving;
      const rest = Math.max(0, free - leaving);
      if (node.open === false) [sum.closedNodes, sum.closed] = [1, rest];
      else sum.free = rest;
      return sum;
    }
    for (const each of place.inside) {
      const inner = visit(each);
      for (const key of Object.keys(NONE) as (keyof Sums)[]) sum[key] += inner[key];
    }
    sums.set(pathKey(place.path), sum);
    return sum;
  };
  visit(root);
  return sums;
}

/** The capacity of a node that a pod could use now, in base units; 0 on a closed node. */
function usable(cluster: Cluster, name: string, resource: string): number {
  const node = cluster.nodes[name];
  return !node || node.open === false ? 0 : Math.max(0, (node.free[resource] ?? 0) - (node.leaving?.[resource] ?? 0));
}

export interface Best {
  count: number;
  path: readonly string[];
}

/** On each level of a domain, the inner domain that holds the most pods of a size; the first entry is the domain itself. */
export function largest(domain: Place, cluster: Cluster, resource: string, size: number): Best[] {
  const best: Best[] = [];
  const count = (each: Place, depth: number): number => {
    if (!each.inside) return Math.floor(usable(cluster, each.name, resource) / size);
    let sum = 0;
    for (const inner of each.inside) sum += count(inner, depth + 1);
    const known = best[depth];
    if (!known || sum > known.count) best[depth] = { count: sum, path: each.path };
    return sum;
  };
  count(domain, 0);
  return best;
}

/** The sizes of pods that the page offers, in the unit of the resource: powers of two up to a whole node. */
export function sizesOf(domain: Place, cluster: Cluster, resource: string): number[] {
  let whole = 0;
  for (const { name } of nodesIn(domain)) whole = Math.max(whole, cluster.nodes[name]?.allocatable[resource] ?? 0);
  whole = Math.floor(whole / unitOf(resource));
  if (whole > 4096) return [];
  const sizes: number[] = [];
  for (let size = 1; size < whole; size *= 2) sizes.push(size);
  return whole >= 1 ? [...sizes, whole] : sizes;
}

/** The part of the usable capacity on nodes that cannot take a pod of a size; both in base units. */
export function scattered(domain: Place, cluster: Cluster, resource: string, size: number): { scattered: number; free: number } {
  let [free, fit] = [0, 0];
  for (const { name } of nodesIn(domain)) {
    const left = usable(cluster, name, resource);
    free += left;
    fit += Math.floor(left / size) * size;
  }
  return { scattered: free - fit, free };
}

/** An amount with the unit of the page, such as "47 GPUs". */
export function amount(resource: string, base: number): string {
  const text = written(resource, base);
  return text.endsWith("GiB") ? text : `${text} ${unitName(resource)}`;
}

/** The domain that holds the most pods: its level and its name, such as "rack r3" or "rack-03". */
export function domainOf(level: string, path: readonly string[]): string {
  const name = path.at(-1) ?? "";
  return name.includes(level) ? name : `${level} ${name}`.trim();
}
