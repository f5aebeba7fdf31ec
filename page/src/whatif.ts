// The cluster as it would be, for the picture of a plan that was made on it (planning/what_if.py). What DaemonSets take on
// nodes that are added or drained is left out: the plan knows it, the picture need not.

import type { Cluster, ClusterNode } from "./data";

/** What was asked: by option, its values as they were written. */
export type WhatIf = ReadonlyMap<string, readonly string[]>;

function emptied({ allocatable }: ClusterNode): ClusterNode {
  return { allocatable, free: allocatable, pods: 0, reserved: 0 };
}

/** The cluster with nodes added, cordoned and drained; the same where nothing is. */
export function asIf(cluster: Cluster, asked: WhatIf): Cluster {
  const [added, drained, cordoned] = ["add-nodes", "drain", "cordon"].map((option) => asked.get(option) ?? []);
  if (!added?.length && !drained?.length && !cordoned?.length) return cluster;
  const nodes = { ...cluster.nodes };
  for (const name of drained ?? []) if (nodes[name]) nodes[name] = { ...emptied(nodes[name]), unschedulable: true, open: false };
  for (const name of cordoned ?? []) if (nodes[name]) nodes[name] = { ...nodes[name], unschedulable: true, open: false };
  const topologies = cluster.topologies.map((each) => ({ ...each, nodes: { ...each.nodes } }));
  for (const value of added ?? []) {
    const [count = "", like = ""] = value.split("=");
    const node = cluster.nodes[like];
    if (!node) continue;
    for (let [number, left] = [1, Number(count)]; left > 0; number += 1) {
      const name = `${like}-more-${number}`;
      if (nodes[name]) continue;
      nodes[name] = emptied(node);
      left -= 1;
      for (const { nodes: paths } of topologies) if (paths[like]) paths[name] = paths[like];
    }
  }
  return { topologies, nodes };
}
