// The live state of the cluster. Each request waits at the webhook until something changes.

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

/** The answer of `/v1/topology`: nodes with the names of their pods. */
interface Whole {
  topologies: Topology[];
  nodes: Record<string, Omit<ClusterNode, "pods" | "reserved"> & { pods: string[]; reserved: string[] }>;
}

function counted([name, node]: [string, Whole["nodes"][string]]): [string, ClusterNode] {
  return [name, { ...node, pods: node.pods.length, reserved: node.reserved.length }];
}

/** Milliseconds until the next request after a failure, and if too many pages are open. */
export const PAUSE = 5_000;
const LONG_PAUSE = 30_000;

/** Wait while the page is hidden. A hidden page requests nothing. */
function seen(): Promise<void> {
  if (!document.hidden) return Promise.resolve();
  return new Promise((done) => document.addEventListener("visibilitychange", () => done(), { once: true }));
}

export interface Listener {
  changed: (state: State) => void;
  /** The webhook has answered. */
  answered: () => void;
  /** A request has failed. The next one follows after `pause` milliseconds. */
  lost: (why: string, pause: number) => void;
}

export class Live {
  #stamp = "";
  #wake = (): void => undefined;
  readonly #gangs = new Map<string, Gang>();
  #cluster: Cluster = { topologies: [], nodes: {} };

  /** Return the first state. If the webhook does not offer changes, the state comes from the plain endpoints. */
  async begin(): Promise<State> {
    try {
      this.#take(await asked<News>("/v1/changes?since="));
      return this.#state();
    } catch (error) {
      if (!(error instanceof Refused) || error.status === 401 || error.status === 403) throw error;
      const [{ gangs }, { topologies, nodes }] = await Promise.all([asked<{ gangs: Gang[] }>("/v1/gangs"), asked<Whole>("/v1/topology")]);
      return { gangs, cluster: { topologies, nodes: Object.fromEntries(Object.entries(nodes).map(counted)) } };
    }
  }

  /** Follow the changes while the page is open. */
  async follow(listener: Listener): Promise<void> {
    for (;;) {
      await seen();
      try {
        const before = this.#stamp;
        const news = await asked<News>(`/v1/changes?since=${encodeURIComponent(before)}`);
        this.#take(news);
        listener.answered();
        if (news.stamp !== before) listener.changed(this.#state());
      } catch (error) {
        const full = error instanceof Refused && error.status === 429;
        const pause = full ? LONG_PAUSE : PAUSE;
        listener.lost(full ? "Too many pages follow the changes." : error instanceof Refused ? error.message : "The webhook does not answer.", pause);
        await this.pause(pause);
      }
    }
  }

  /** Wait for so many milliseconds, or until `retry` is called. */
  pause(milliseconds: number): Promise<void> {
    return new Promise((done) => {
      const timer = setTimeout(done, milliseconds);
      this.#wake = () => {
        clearTimeout(timer);
        done();
      };
    });
  }

  /** Send the next request at once. */
  retry(): void {
    this.#wake();
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

  /** A new object for each state: the page compares states by identity. */
  #state(): State {
    const gangs = [...this.#gangs.values()];
    gangs.sort((one, other) => titleOf(one).localeCompare(titleOf(other), "en", { numeric: true }));
    return { gangs, cluster: { ...this.#cluster } };
  }
}
