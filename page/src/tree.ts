// A topology as a tree: domains within domains, the nodes at the ends, in the order in which the cluster tells them.

import type { Topology } from "./data";

/** A domain, or a node where nothing is inside. `path`: from the whole cluster down, its own name last. */
export interface Place {
  name: string;
  path: readonly string[];
  inside?: Place[];
}

const trees = new WeakMap<Topology, Place>();

/** The whole topology; made once, as its paths never change. */
export function treeOf(topology: Topology): Place {
  let root = trees.get(topology);
  if (!root) trees.set(topology, (root = grown(topology)));
  return root;
}

function grown(topology: Topology): Place {
  const root: Place = { name: topology.name, path: [], inside: [] };
  const domains = new Map<string, Place>();
  for (const [name, path] of Object.entries(topology.nodes)) {
    let [above, key] = [root, ""];
    for (let depth = 0; depth < path.length; depth += 1) {
      const part = path[depth] ?? "";
      key += `\u0000${part}`;
      let domain = domains.get(key);
      if (!domain) {
        domain = { name: part, path: path.slice(0, depth + 1), inside: [] };
        domains.set(key, domain);
        above.inside?.push(domain);
      }
      above = domain;
    }
    above.inside?.push({ name, path: [...path, name] });
  }
  return root;
}

/** The domain at a path; the whole where there is none. */
export function placeAt(topology: Topology, path: readonly string[]): Place {
  const root = treeOf(topology);
  let found: Place | undefined = root;
  for (const part of path) found = found?.inside?.find((each) => each.name === part);
  return found ?? root;
}

/** The nodes within a domain. */
export function* nodesIn(place: Place): Generator<Place> {
  if (!place.inside) yield place;
  else for (const each of place.inside) yield* nodesIn(each);
}

/** A path as a key of maps. */
export function pathKey(path: readonly string[]): string {
  return path.join("\u0000");
}
