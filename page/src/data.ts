// What the webhook says of the cluster (webhook/live_view/data.py), and what follows from it for the picture.

export interface Member {
  namespace: string;
  pod: string;
  node: string | null;
  nominatedNode: string | null;
  /** What the pod requests, by resource; absent in plans, which do not report it. */
  requests?: Amounts;
}

/** What identifies a gang among all dialects. */
export interface GangId {
  namespace: string;
  name: string;
  dialect: string;
}

export interface Gang extends GangId {
  phase: string;
  /** `status.reason` of the Gang object. */
  reason?: string;
  message: string;
  /** The time of the latest condition change, RFC 3339. */
  since?: string;
  queue?: string;
  /** The queue with the quota that the gang is charged to. */
  clusterQueue?: string | null;
  priority?: number;
  /** The number of pods that there should be. */
  expected?: number;
  members: Member[];
  /** Present if the gang was planned by a dry run, which reports all facts at once. */
  story?: Story;
  /** Whether the gang is a plan of a dry run: its members do not run on the nodes. */
  planned?: boolean;
}

/** One quota of a queue, in base units (planning/queue_report.py). A limit of null: none. */
export interface QuotaFigures {
  flavor: string;
  resource: string;
  nominal: number;
  used: number;
  borrowed: number;
  lent: number;
  /** What a gang may still take, by borrowing included. */
  free: number;
  borrowingLimit: number | null;
  lendingLimit: number | null;
}

export interface QueuedGang extends GangId {
  localQueue: string;
  amounts: Amounts;
  /** Of a gang that uses quota: its expected end. RFC 3339. */
  expectedEnd?: string | null;
  /** Of a waiting gang: when its quota is free, by the expected ends of the gangs that use it. RFC 3339. */
  estimatedStart?: string | null;
  /** The gang whose end decides that time. */
  startAfter?: GangId | null;
}

/** A queue of `/v1/queues`. `waiting` is in planning order. */
export interface QueueReport {
  name: string;
  cohort: string;
  quotas: QuotaFigures[];
  using: QueuedGang[];
  waiting: QueuedGang[];
}

/** A gang of `/v1/history` (webhook/live_view/history.py). Times are RFC 3339; `started` of null: never. */
export interface EndedGang extends GangId {
  outcome: "Succeeded" | "Failed" | "Deleted" | "Ended";
  queue: string;
  pods: number;
  domain: string;
  submitted: string;
  started: string | null;
  finished: string;
  waitedSeconds: number;
  ranSeconds: number;
  /** The longest wait first. */
  waitedFor: { reason: string; seconds: number }[];
  /** Cores or pieces times hours, by resource. */
  hours: Amounts;
  evictions: number;
  restarts: number;
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
  /** After all evictions that the gang may cause. */
  fits: number;
  /** Absent: not known, or the gang may evict no pod. */
  fitsWithoutEvictions?: number;
  needed: number;
  nodes: number;
  excluded?: Record<string, number>;
  /** By kind; absent: no member has claims. */
  devices?: DeviceNumbers[];
}

/** Devices of one kind in a domain (planning/devices/counts.py). `devices`: "devices of", and the DeviceClass. */
export interface DeviceNumbers {
  devices: string;
  requests?: string[];
  /** Such as "equal gpu.nvidia.com/nvlinkDomain". */
  constraints?: string[];
  matching: number;
  free: number;
  needed: number;
}

/** The devices of one kind in a domain: "5 of 8 devices of gpu.nvidia.com free, 8 needed, 3 missing". */
export function devicesOf({ devices, constraints = [], matching, free, needed }: DeviceNumbers): string {
  const tied = constraints.map((each) => ` (${each})`).join("");
  const missing = needed > free ? `, ${needed - free} missing` : "";
  return `${free} of ${matching} ${devices}${tied} free, ${needed} needed${missing}`;
}

/** How many of the needed pods a domain holds: "3 of 4 pods", or "13 of 60 pods now, 42 after evictions". */
export function fittingOf({ fits, needed, fitsWithoutEvictions: now = fits }: Near): string {
  return now < fits ? `${now} of ${needed} pods now, ${fits} after evictions` : `${fits} of ${needed} pods`;
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
  /** `onlyIn`: the few domains to which a node selector or node affinity confines the gang. */
  explanation: { nearest?: Near[]; wouldFitIf?: string[]; whyHere?: string; onlyIn?: string } | null;
  askedBy: string;
  wants: string;
  presence: string;
  /** The claims that have devices before the release, such as "3 of 4 claims, 6 devices"; "": none. Absent in a dry run. */
  devicesHeld?: string;
  since: string;
  /** From its creation to its last placement; null: it is not placed. Absent in a dry run, as the next two. */
  waitedSeconds?: number | null;
  restarts?: number;
  /** The last restart in one line; "": none. */
  restarted?: string;
  /** Its last evictions, since the webhook started. `by`: the gang that took its place; "": unknown. */
  displaced?: { at: string; by: string }[];
  place: { told: string } | null;
  /** `devices`: by request, such as "gpu: gpu-0..1"; absent: none. */
  members: { pod: string; state: string; node: string; devices?: string }[];
  heldBack: string[];
  steps: Step[];
  withoutEvents: string;
}

export type Amounts = Record<string, number>;

/** A node with its amounts by resource. Absent: nothing is reserved or terminating, and the node is open. */
export interface ClusterNode {
  allocatable: Amounts;
  /** Neither used nor reserved. The capacity of terminating pods is part of it. */
  free: Amounts;
  /** Reserved for expected pods of planned gangs. */
  held?: Amounts;
  /** Used by terminating pods. */
  leaving?: Amounts;
  unschedulable?: boolean;
  /** Whether a pod that says nothing about nodes can use it: not cordoned, tainted or not ready. */
  open?: boolean;
  /** The numbers of pods on the node and of expected pods. */
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

/** The resource with the smallest free share on a node. */
export function scarcest(node: ClusterNode): string {
  let [found, most] = ["cpu", -1];
  for (const name in node.allocatable) {
    if (name === "pods" || !node.allocatable[name]) continue;
    const part = taken(node, name);
    if (part > most) [found, most] = [name, part];
  }
  return found;
}

/** The nodes that a gang's pods run on or are planned for. */
export function nodesOf(gang: Gang): Set<string> {
  const names = gang.members.map((member) => member.node || member.nominatedNode || "");
  return new Set(names.filter((name) => name));
}

/** By node, the gangs with pods that run there or are planned for it. */
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

/** What a member requests of a resource, in base units; undefined: not reported. */
export function requestOf(member: Member, resource: string): number | undefined {
  return member.requests && (member.requests[resource] ?? 0);
}

/** The largest request of a gang's members for a resource; 0: unknown or none. */
export function largestRequest(gang: Gang, resource: string): number {
  return Math.max(0, ...gang.members.map((member) => requestOf(member, resource) ?? 0));
}

/** The identity of a gang among all dialects. */
export function keyOf(gang: GangId): string {
  return `${gang.dialect}/${gang.namespace}/${gang.name}`;
}

export function titleOf(gang: Pick<GangId, "namespace" | "name">): string {
  return `${gang.namespace}/${gang.name}`;
}

/** The name of a resource's unit on the page. */
export function unitName(resource: string): string {
  if (resource === "cpu") return "cores";
  if (resource === "memory" || resource === "ephemeral-storage") return resource;
  return /gpu$/i.test(resource) ? "GPUs" : (resource.split("/").at(-1) ?? resource);
}

/** A count with its unit, such as "1 GPU" and "8 GPUs". */
export function counted(count: number, unit: string): string {
  return `${count} ${count === 1 && unit.endsWith("s") ? unit.slice(0, -1) : unit}`;
}

/** An amount in the unit of the page: cores, GiB, pieces. */
export function written(resource: string, amount: number): string {
  if (resource === "cpu") return (amount / 1000).toLocaleString("en", { maximumFractionDigits: 1 });
  if (resource === "memory" || resource === "ephemeral-storage" || resource.startsWith("hugepages-"))
    return `${(amount / 2 ** 30).toLocaleString("en", { maximumFractionDigits: 1 })} GiB`;
  return amount.toLocaleString("en");
}
