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
}

export type Amounts = Record<string, number>;

export interface ClusterNode {
  allocatable: Amounts;
  free: Amounts;
  unschedulable: boolean;
  pods: string[];
  reserved: string[];
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

/** The share of a resource that is used or held on a node, 0 to 1; 1 where it has none. */
export function taken(node: ClusterNode | undefined, resource: string): number {
  const all = node?.allocatable[resource] ?? 0;
  return all ? 1 - (node?.free[resource] ?? 0) / all : 1;
}

/** Where a gang is, or is to be. */
export function nodesOf(gang: Gang): Set<string> {
  const names = gang.members.map((member) => member.node || member.nominatedNode || "");
  return new Set(names.filter((name) => name));
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
