// What the webhook says of the cluster (webhook/live_view/data.py), and what follows from it for the picture.

export interface Member {
  namespace: string;
  pod: string;
  node: string | null;
  nominatedNode: string | null;
}

export interface Gang {
  namespace: string;
  name: string;
  dialect: string;
  phase: string;
  message: string;
  members: Member[];
  /** There already where the page was recorded. */
  story?: Story;
  /** Of a plan that was tried: the cluster on which it was made, if that was another one. */
  asIf?: Cluster;
}

export interface Goal {
  goal: string;
  value: number;
  bound: number | null;
  parts?: Record<string, number>;
}

/** A domain that nearly holds a gang, and what keeps its other nodes out. */
export interface Near {
  path: string[];
  fits: number;
  needed: number;
  nodes: number;
  excluded?: Record<string, number>;
}

export interface Victim {
  namespace: string;
  pod: string;
  node?: string;
  priority?: number;
  gang?: string | null;
}

export interface Step {
  at: string;
  after: number;
  what: string;
  note: string;
  warning: boolean;
  times: number;
  of: string;
}

/** What `/v1/story` tells (webhook/live_view/gang_stories.py). */
export interface Story {
  phase: string | null;
  reason: string | null;
  message: string | null;
  proof: string | null;
  objective: Goal[] | null;
  victims: Victim[] | null;
  explanation: { nearest?: Near[]; wouldFitIf?: string[]; whyHere?: string } | null;
  askedBy: string;
  wants: string;
  presence: string;
  since: string;
  place: { told: string } | null;
  members: { pod: string; state: string; node: string }[];
  heldBack: string[];
  steps: Step[];
  withoutEvents: string;
}

export type Amounts = Record<string, number>;

/** What is not said is not so: there is nothing held or leaving, and the node is open. */
export interface ClusterNode {
  allocatable: Amounts;
  /** What is neither used nor held; the room of pods on their way out is in it. */
  free: Amounts;
  /** By pods that are to come, of gangs that have their place. */
  held?: Amounts;
  /** By pods on their way out. */
  leaving?: Amounts;
  unschedulable?: boolean;
  /** Whether a pod that says nothing about nodes can use it: not cordoned, tainted or not ready. */
  open?: boolean;
  /** How many have their place there, and how many are to come. */
  pods: number;
  reserved: number;
}

export interface Topology {
  name: string;
  kind: string;
  levels: { name: string }[];
  nodes: Record<string, string[]>;
}

export interface Cluster {
  topologies: Topology[];
  nodes: Record<string, ClusterNode>;
}

/** The resources that nodes have, the scarcest in the whole cluster first. */
export function resources(cluster: Cluster): string[] {
  const all: Amounts = {};
  const free: Amounts = {};
  for (const node of Object.values(cluster.nodes)) {
    for (const [name, amount] of Object.entries(node.allocatable)) {
      all[name] = (all[name] ?? 0) + amount;
      free[name] = (free[name] ?? 0) + (node.free[name] ?? 0);
    }
  }
  const left = (name: string) => (free[name] ?? 0) / (all[name] ?? 1);
  return Object.keys(all)
    .filter((name) => (all[name] ?? 0) > 0 && name !== "pods")
    .sort((one, other) => left(one) - left(other) || one.localeCompare(other));
}

const BULK = /^(cpu|memory|ephemeral-storage|hugepages-.*)$/;

/** The resource by which pods are counted: what nodes have few pieces of, such as GPUs; else cpu. */
export function countable(cluster: Cluster): string {
  return resources(cluster).find((name) => !BULK.test(name)) ?? "cpu";
}

/** The share of a resource that is used or held on a node, 0 to 1; 1 where it has none. */
export function taken(node: ClusterNode | undefined, resource: string): number {
  const all = node?.allocatable[resource] ?? 0;
  return all ? 1 - (node?.free[resource] ?? 0) / all : 1;
}

/** A part of what a node has of a resource, 0 to 1. */
export function share(node: ClusterNode, part: Amounts | undefined, resource: string): number {
  const all = node.allocatable[resource] ?? 0;
  return all ? (part?.[resource] ?? 0) / all : 0;
}

/** The resource of which the least is left on a node, of its whole. */
export function scarcest(node: ClusterNode): string {
  let [found, most] = ["cpu", -1];
  for (const name in node.allocatable) {
    if (name === "pods" || !node.allocatable[name]) continue;
    const part = taken(node, name);
    if (part > most) [found, most] = [name, part];
  }
  return found;
}

/** Where a gang is, or is to be. */
export function nodesOf(gang: Gang): Set<string> {
  const names = gang.members.map((member) => member.node || member.nominatedNode || "");
  return new Set(names.filter((name) => name));
}

/** The gangs on each node, or that are to come there. */
export function gangsByNode(gangs: Gang[]): Map<string, Gang[]> {
  const found = new Map<string, Gang[]>();
  for (const gang of gangs)
    for (const node of nodesOf(gang)) {
      const there = found.get(node);
      if (there) there.push(gang);
      else found.set(node, [gang]);
    }
  return found;
}

/** One gang from all others. */
export function keyOf(gang: Gang): string {
  return `${gang.dialect}/${gang.namespace}/${gang.name}`;
}

export function titleOf(gang: Gang): string {
  return `${gang.namespace}/${gang.name}`;
}

/** An amount as people write it: cores, GiB, pieces. */
export function written(resource: string, amount: number): string {
  if (resource === "cpu") return (amount / 1000).toLocaleString("en", { maximumFractionDigits: 1 });
  if (resource === "memory" || resource === "ephemeral-storage" || resource.startsWith("hugepages-"))
    return `${(amount / 2 ** 30).toLocaleString("en", { maximumFractionDigits: 1 })} GiB`;
  return amount.toLocaleString("en");
}
