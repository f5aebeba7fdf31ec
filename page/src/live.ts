// What the cluster is, and what changes in it: asked again and again, each answer waits for something to change.

import { asked, Refused } from "./asking";
import { type Cluster, type ClusterNode, type Gang, titleOf, type Topology } from "./data";

export interface State {
  gangs: Gang[];
  cluster: Cluster;
}

interface News {
  stamp: string;
  whole: boolean;
  gangs: Record<string, Gang>;
  nodes: Record<string, ClusterNode>;
  topologies?: Topology[];
  goneGangs?: string[];
  goneNodes?: string[];
}

/** What `/v1/topology` says: as here, with the names of pods. */
interface Whole {
  topologies: Topology[];
  nodes: Record<string, Omit<ClusterNode, "pods" | "reserved"> & { pods: string[]; reserved: string[] }>;
}

function counted([name, node]: [string, Whole["nodes"][string]]): [string, ClusterNode] {
  return [name, { ...node, pods: node.pods.length, reserved: node.reserved.length }];
}

const PAUSE = 5_000;
const LONG_PAUSE = 30_000;

function pause(milliseconds: number): Promise<void> {
  return new Promise((done) => setTimeout(done, milliseconds));
}

/** Until somebody looks at the page: what nobody sees need not be asked for. */
function seen(): Promise<void> {
  if (!document.hidden) return Promise.resolve();
  return new Promise((done) => document.addEventListener("visibilitychange", () => done(), { once: true }));
}

export class Live {
  #stamp = "";
  readonly #gangs = new Map<string, Gang>();
  #cluster: Cluster = { topologies: [], nodes: {} };

  /** What there is; as a first answer, or where nothing is told of changes, without them. */
  async begin(): Promise<State> {
    try {
      this.#take(await asked<News>("/v1/changes?since="));
      return this.#state();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      const [{ gangs }, { topologies, nodes }] = await Promise.all([asked<{ gangs: Gang[] }>("/v1/gangs"), asked<Whole>("/v1/topology")]);
      return { gangs, cluster: { topologies, nodes: Object.fromEntries(Object.entries(nodes).map(counted)) } };
    }
  }

  /** Go on for as long as the page is there. `say`: how it goes, in a line. */
  async follow(changed: (state: State) => void, say: (text: string) => void): Promise<void> {
    const live = "Live: what changes is shown within two seconds.";
    if (this.#stamp) say(live);
    for (;;) {
      await seen();
      try {
        const before = this.#stamp;
        const news = await asked<News>(`/v1/changes?since=${encodeURIComponent(before)}`);
        this.#take(news);
        say(live);
        if (news.stamp !== before) changed(this.#state());
      } catch (error) {
        const full = error instanceof Refused && error.status === 429;
        const why = full ? "as many pages as may are told of changes already" : String(error);
        say(`Not live since ${new Date().toLocaleTimeString()}: ${why}.`);
        await pause(full ? LONG_PAUSE : PAUSE);
      }
    }
  }

  #take(news: News): void {
    this.#stamp = news.stamp;
    if (news.whole) {
      this.#gangs.clear();
      this.#cluster = { topologies: news.topologies ?? [], nodes: {} };
    }
    for (const [key, gang] of Object.entries(news.gangs)) this.#gangs.set(key, gang);
    for (const key of news.goneGangs ?? []) this.#gangs.delete(key);
    Object.assign(this.#cluster.nodes, news.nodes);
    for (const name of news.goneNodes ?? []) delete this.#cluster.nodes[name];
  }

  #state(): State {
    const gangs = [...this.#gangs.values()];
    gangs.sort((one, other) => titleOf(one).localeCompare(titleOf(other), "en", { numeric: true }));
    return { gangs, cluster: this.#cluster };
  }
}
