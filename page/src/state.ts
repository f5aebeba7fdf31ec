// The state of the page: the cluster, what the user has selected, and the address that links to it.

import { batch, computed, effect, signal, untracked } from "@preact/signals";

import { type Cluster, countable, type EndedGang, type Gang, keyOf, type QueueReport, resources, type Story, titleOf, type Topology } from "./data";
import { type Sums, sumsOf } from "./figures";
import { finds, type Group, phaseOf } from "./phases";
import { type Place, placeAt, treeOf } from "./tree";

/** The connection to the webhook. `at`: the time of the last answer; 0: there was none. */
export type Connection =
  | { kind: "loading" }
  | { kind: "live"; at: number }
  | { kind: "lost"; at: number; next: number; why: string }
  | { kind: "refused"; why: string }
  | { kind: "recorded" };

export type Selection = { kind: "gang"; key: string } | { kind: "domain"; path: readonly string[] } | undefined;
export type Screen = "cluster" | "queues" | "history";
/** The part of the cluster view that a phone shows. */
export type Tab = "gangs" | "cluster" | "try";

export const SCARCEST = "scarcest";

export const gangs = signal<Gang[]>([]);
export const liveCluster = signal<Cluster>({ topologies: [], nodes: {} });
export const connection = signal<Connection>({ kind: "loading" });
/** Whether the page has no cluster to show yet. */
export const reading = computed(() => connection.value.kind === "loading" || (connection.value.kind === "lost" && !connection.value.at));
export const now = signal(Date.now());

export const screen = signal<Screen>("cluster");
export const tab = signal<Tab>("gangs");
export const selection = signal<Selection>(undefined);
/** The domain that the picture shows, and the node that is framed in it. */
export const path = signal<readonly string[]>([]);
export const framed = signal("");
export const words = signal("");
export const filter = signal<Group | "">("");
export const namespace = signal("");
export const system = signal("");
export const queue = signal("");
export const size = signal(0);
export const trying = signal(false);
export const hovered = signal("");
export const topologyName = signal("");
/** The resource that the user has chosen; "": the one by which pods are counted. */
export const chosenResource = signal("");
export const dark = signal(false);

/** A plan of a dry run, on the cluster as it is or as it would be. */
export interface Trial {
  label: string;
  gangs: Gang[];
  cluster: Cluster;
  warnings: string;
  share: () => void;
}
export const trials = signal<Trial[]>([]);
export const trial = signal(0);
export const trialGang = signal(0);

export const shownTrial = computed(() => (trying.value ? trials.value[trial.value] : undefined));
export const cluster = computed(() => shownTrial.value?.cluster ?? liveCluster.value);

/** A topology without levels: the picture of a cluster that has no topology. */
const flat = computed<Topology>(() => ({
  name: "all nodes",
  kind: "",
  levels: [{ name: "node" }],
  nodes: Object.fromEntries(Object.keys(cluster.value.nodes).map((name) => [name, []])),
}));
export const topology = computed<Topology>(() => {
  const known = cluster.value.topologies;
  return known.find((each) => each.name === topologyName.value) ?? known[0] ?? flat.value;
});
export const resource = computed(() => {
  const chosen = chosenResource.value;
  return chosen && chosen !== SCARCEST && resources(cluster.value).includes(chosen) ? chosen : countable(cluster.value);
});
export const root = computed<Place>(() => treeOf(topology.value));
export const place = computed<Place>(() => placeAt(topology.value, path.value));

/** The sums of every domain by its path. */
export const domainSums = computed<Map<string, Sums>>(() => sumsOf(root.value, cluster.value, resource.value));

export const selectedGang = computed<Gang | undefined>(() => {
  const shown = shownTrial.value;
  if (shown) return shown.gangs[trialGang.value];
  const chosen = selection.value;
  return chosen?.kind === "gang" ? gangs.value.find((each) => keyOf(each) === chosen.key) : undefined;
});
export const hoveredGang = computed(() => (hovered.value ? gangs.value.find((each) => keyOf(each) === hovered.value) : undefined));

/** The gangs that the search and the menus of namespace, system and queue keep. */
export const searched = computed(() =>
  gangs.value.filter(
    (gang) =>
      (!namespace.value || gang.namespace === namespace.value) &&
      (!system.value || gang.dialect === system.value) &&
      (!queue.value || gang.queue === queue.value || gang.clusterQueue === queue.value) &&
      (!words.value || finds(gang, words.value)),
  ),
);
export const listed = computed(() => searched.value.filter((gang) => !filter.value || phaseOf(gang).group === filter.value));

/** The gangs that the search colours: those with nodes, in the order of the list. */
export const found = computed(() => {
  if (!words.value && !queue.value) return [];
  return searched.value.filter((gang) => gang.members.some((member) => member.node || member.nominatedNode)).slice(0, 6);
});

/** The queues with quotas; undefined: not known yet. They are requested while the page shows them. */
export const queueReports = signal<QueueReport[] | undefined>(undefined);
/** Why the queues cannot be shown; "": they can. */
export const queuesError = signal("");

/** The gangs that have ended, the last one first; undefined: not known yet. They are requested while the page shows them. */
export const ended = signal<EndedGang[] | undefined>(undefined);
/** Why the ended gangs cannot be shown; "": they can. */
export const endedError = signal("");

/** The story of the selected gang, by the gang's key; a text: why it cannot be shown. */
export const story = signal<{ key: string; story?: Story; error?: string } | undefined>(undefined);
export const selectedStory = computed<Story | undefined>(() => {
  const gang = selectedGang.value;
  if (!gang) return undefined;
  return gang.story ?? (story.value?.key === keyOf(gang) ? story.value.story : undefined);
});

function toPhonePart(part: Tab): void {
  tab.value = part;
}

export function openGang(gang: Gang): void {
  batch(() => {
    selection.value = { kind: "gang", key: keyOf(gang) };
    path.value = [];
    framed.value = "";
    screen.value = "cluster";
    trying.value = false;
  });
  remember();
}

/** Show a domain in the picture with its facts; of a node, its rack with the node framed. */
export function openDomain(to: readonly string[]): void {
  const depth = topology.value.levels.length - 1;
  batch(() => {
    path.value = to.slice(0, depth);
    framed.value = to[depth] ?? "";
    if (!trying.value) selection.value = { kind: "domain", path: path.value };
    screen.value = "cluster";
    toPhonePart(trying.value ? "try" : "cluster");
  });
  remember();
}

/** Close the detail, the drawer and the domain. */
export function close(): void {
  batch(() => {
    selection.value = undefined;
    path.value = [];
    framed.value = "";
    if (trying.value && tab.value === "try") tab.value = "gangs";
    trying.value = false;
  });
  remember();
}

export function openTrying(): void {
  batch(() => {
    trying.value = true;
    selection.value = undefined;
    path.value = [];
    framed.value = "";
    screen.value = "cluster";
    toPhonePart("try");
  });
  remember();
}

export function show(to: Screen): void {
  batch(() => {
    screen.value = to;
    trying.value = false;
    if (to !== "cluster") selection.value = undefined;
  });
  remember();
}

/** The path of the first domain or node of this name, else of the first whose name begins with it. */
export function placesNamed(name: string, most: number): readonly (readonly string[])[] {
  const [exact, begun]: [Map<string, readonly string[]>, Map<string, readonly string[]>] = [new Map(), new Map()];
  if (!name) return [];
  for (const [node, domains] of Object.entries(topology.value.nodes)) {
    const full = [...domains, node];
    for (let at = 0; at < full.length; at += 1) {
      const part = full[at] ?? "";
      if (!part.startsWith(name)) continue;
      const to = full.slice(0, at + 1);
      if (part === name) exact.set(to.join("/"), to);
      else if (begun.size < most) begun.set(to.join("/"), to);
    }
  }
  return [...exact.values(), ...begun.values()].slice(0, most);
}

/** The address of the page as it is: what is selected, searched and shown. */
function address(): string {
  const query = new URLSearchParams();
  const chosen = selection.value;
  if (screen.value !== "cluster") query.set("view", screen.value);
  if (trying.value) query.set("view", "try");
  if (chosen?.kind === "gang") {
    const gang = selectedGang.value;
    query.set("gang", gang ? titleOf(gang) : chosen.key.split("/").slice(1).join("/"));
  }
  if (chosen?.kind === "domain") query.set("domain", [...path.value, ...(framed.value ? [framed.value] : [])].join("/"));
  if (topologyName.value && topologyName.value !== liveCluster.value.topologies[0]?.name) query.set("topology", topologyName.value);
  if (queue.value) query.set("queue", queue.value);
  if (words.value) query.set("q", words.value);
  const text = query.toString().replaceAll("%2F", "/");
  return text ? `?${text}` : location.pathname;
}

export function link(): string {
  return new URL(address(), location.href).href;
}

function remember(): void {
  const to = address();
  if (new URL(to, location.href).href === location.href) return;
  try {
    history.pushState(null, "", to);
  } catch {
    // A file of another origin has no history of its own.
  }
}

/** Take over what the address links to. */
export function follow(): void {
  const query = new URLSearchParams(location.search);
  const [named, domain, view] = [query.get("gang"), query.get("domain"), query.get("view")];
  batch(() => {
    topologyName.value = query.get("topology") ?? "";
    words.value = query.get("q") ?? "";
    queue.value = query.get("queue") ?? "";
    screen.value = view === "queues" || view === "history" ? view : "cluster";
    trying.value = view === "try";
    if (trying.value) tab.value = "try";
    const gang = named === null ? undefined : gangs.value.find((each) => titleOf(each) === named);
    selection.value = gang && { kind: "gang", key: keyOf(gang) };
    path.value = [];
    framed.value = "";
    if (domain !== null) {
      const to = domain.split("/").filter((part) => part);
      const depth = topology.value.levels.length - 1;
      [path.value, framed.value] = [to.slice(0, depth), to[depth] ?? ""];
      selection.value = { kind: "domain", path: path.value };
      tab.value = "cluster";
    }
  });
}

/** Keep the search in the address, without a step of the history for each letter. */
export function startLinking(): void {
  addEventListener("popstate", follow);
  effect(() => {
    void [words.value, queue.value, topologyName.value];
    // The address depends on the selection, too. `remember` keeps that as a step of the history.
    const to = untracked(address);
    try {
      history.replaceState(null, "", to);
    } catch {
      // See `remember`.
    }
  });
}
