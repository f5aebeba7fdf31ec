// What the picture shows of each node: one mark for each piece of the counted resource, such as a GPU.

import { type Cluster, type ClusterNode, type Gang, requestOf, scarcest, titleOf } from "./data";

/** The most marks of a node. A resource with more pieces, such as cpu, is shown as shares of the node. */
const MOST_MARKS = 16;

/** A state of pieces. `lit`: of the selected gang; `found`: of a gang that the search finds, with its colour. */
export interface Mark {
  kind: "used" | "reserved" | "terminating" | "fits" | "free";
  lit?: boolean;
  found?: number;
  /** Pieces, or the share of the node (0 to 1). */
  count: number;
}

export interface Look {
  /** The number of marks; 0: the marks' counts are shares. */
  pieces: number;
  marks: Mark[];
  closed: boolean;
  /** Whether the selected plan puts pods there, or the user has selected the node. */
  planned: boolean;
  framed: boolean;
  /** The share that is used or reserved. */
  taken: number;
  /** Equal looks have equal signatures. */
  signature: string;
}

export interface LookInput {
  cluster: Cluster;
  /** The counted resource; "": the scarcest of each node. */
  resource: string;
  selected: Gang | undefined;
  found: readonly Gang[];
  /** Nodes whose free capacity the selected gang could use, with the request of one of its pods; see `fitting`. */
  fits: ReadonlySet<string>;
  request: number;
  framed: string;
  hovered: Gang | undefined;
}

export function unitOf(resource: string): number {
  return resource === "cpu" ? 1000 : 1;
}

interface Amount {
  used: number;
  reserved: number;
  unknown: boolean;
}

/** By node, the amount of a resource that a gang's pods use or have reserved. */
function amounts(gang: Gang, resource: (node: string) => string): Map<string, Amount> {
  const byNode = new Map<string, Amount>();
  for (const member of gang.members) {
    const node = member.node || member.nominatedNode;
    if (!node) continue;
    const amount = byNode.get(node) ?? { used: 0, reserved: 0, unknown: false };
    const request = requestOf(member, resource(node));
    if (request === undefined) amount.unknown = true;
    else if (member.node) amount.used += request;
    else amount.reserved += request;
    byNode.set(node, amount);
  }
  return byNode;
}

/** Return a function that computes the look of a node by its name. */
export function looks(input: LookInput): (name: string) => Look {
  const { cluster, selected, found, hovered } = input;
  const resourceOn = (name: string): string => input.resource || scarcest(cluster.nodes[name] ?? NO_NODE);
  const lit = selected ?? hovered;
  const ofLit = lit ? amounts(lit, resourceOn) : new Map<string, Amount>();
  const ofFound = found.map((gang) => amounts(gang, resourceOn));
  const planned = selected?.planned === true;
  return (name) => {
    const node = cluster.nodes[name];
    if (!node) return { pieces: 0, marks: [], closed: true, planned: false, framed: false, taken: 1, signature: "gone" };
    const resource = resourceOn(name);
    const unit = unitOf(resource);
    const all = (node.allocatable[resource] ?? 0) / unit;
    const whole = Number.isInteger(all) && all > 0 && all <= MOST_MARKS;
    const scale = whole ? 1 : 1 / (all || 1);
    const [free, reserved, leaving] = [node.free[resource] ?? 0, node.held?.[resource] ?? 0, node.leaving?.[resource] ?? 0].map(
      (amount) => (amount / unit) * scale,
    ) as [number, number, number];
    const total = whole ? all : 1;
    const left = {
      used: Math.max(0, total - free - reserved),
      reserved: Math.max(0, reserved - Math.max(0, leaving - free)),
      terminating: leaving,
      free: Math.max(0, free - leaving),
    };
    const taken = total ? (left.used + left.reserved) / total : 1;
    const marks: Mark[] = [];
    const take = (amount: Amount | undefined, mark: { lit?: boolean; found?: number }): void => {
      for (const kind of ["used", "reserved"] as const) {
        const wanted = ((amount?.[kind] ?? 0) / unit) * scale;
        const known = amount?.unknown ? (planned ? 0 : left[kind]) : Math.min(left[kind], wanted);
        if (known <= 0) continue;
        left[kind] -= known;
        marks.push({ kind, count: known, ...mark });
      }
    };
    take(ofLit.get(name), { lit: true });
    if (!lit) ofFound.forEach((each, at) => take(each.get(name), { found: at }));
    for (const kind of ["used", "reserved", "terminating"] as const) if (left[kind] > 0) marks.push({ kind, count: left[kind] });
    const request = (input.request / unit) * scale;
    const fits = input.fits.has(name) && node.open !== false && request > 0 ? Math.floor((left.free + 1e-9) / request) * request : 0;
    if (fits) marks.push({ kind: "fits", count: fits });
    if (left.free - fits > 0) marks.push({ kind: "free", count: left.free - fits });
    const look = {
      pieces: whole ? all : 0,
      marks,
      closed: node.open === false,
      planned: planned && ofLit.has(name),
      framed: input.framed === name || (ofLit.get(name)?.unknown ?? false),
      taken,
    };
    const text = marks.map((mark) => `${mark.kind}${mark.lit ? "!" : ""}${mark.found ?? ""}:${mark.count.toFixed(2)}`).join();
    return { ...look, signature: `${look.pieces}|${text}|${look.closed}|${look.planned}|${look.framed}` };
  };
}

const NO_NODE: ClusterNode = { allocatable: {}, free: {}, pods: 0, reserved: 0 };

/** What the tooltip of a node says, one fact a line. */
export function toldOf(cluster: Cluster, name: string, resource: string, here: readonly Gang[], written: (resource: string, amount: number) => string): string {
  const node = cluster.nodes[name];
  if (!node) return `${name}\nThe node no longer exists.`;
  const shown = resource || scarcest(node);
  const state = node.unschedulable ? "cordoned" : node.open === false ? "closed: tainted or not ready" : "";
  const leaving = node.leaving?.[shown] ?? 0;
  const parts = [
    `${written(shown, Math.max(0, (node.free[shown] ?? 0) - leaving))} of ${written(shown, node.allocatable[shown] ?? 0)} free`,
    node.held?.[shown] ? `${written(shown, node.held[shown])} reserved` : "",
    leaving ? `${written(shown, leaving)} terminating` : "",
  ];
  const pods = `${node.pods} pods${node.reserved ? `, ${node.reserved} expected` : ""}`;
  return [name, `${shown}: ${parts.filter((part) => part).join(", ")}`, pods, state, ...here.map((gang) => `gang ${titleOf(gang)}`)].filter((line) => line).join("\n");
}
