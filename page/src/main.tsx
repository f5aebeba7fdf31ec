// The page's script: replaces the tables of the server by the page, and keeps it up to date.

import { batch, computed, effect, type ReadonlySignal, type Signal } from "@preact/signals";
import { render } from "preact";

import { App } from "./app";
import { asked, Refused } from "./asking";
import { type Cluster, type EndedGang, type Gang, keyOf, type QueueReport, type Story } from "./data";
import { Live, PAUSE, type State } from "./live";
import { phaseOf } from "./phases";
import {
  connection,
  ended,
  endedError,
  follow,
  gangs,
  liveCluster,
  now,
  queueReports,
  queuesError,
  screen,
  selectedGang,
  startLinking,
  story,
} from "./state";
import { startTheme } from "./theme";
import { asGang, type Decision } from "./trying-state";

/** After a drawing the browser is idle for this many times as long. */
const REST = 4;
/** Milliseconds until the story of a changing gang is requested again. The webhook reads it from the API server. */
const STORY_PAUSE = 5_000;
/** Milliseconds between two requests for the queues or the ended gangs, while the page shows them. */
const SCREEN_PAUSE = 4_000;

/** Whether the page shows a queue: all of them, or the one of a waiting gang. */
const queuesShown = computed(() => {
  const gang = selectedGang.value;
  return screen.value === "queues" || Boolean(gang?.clusterQueue && !gang.planned && phaseOf(gang).group === "waiting");
});
const historyShown = computed(() => screen.value === "history");

/** Request data while the page shows it. `error` becomes the reason if a request fails, else "". */
function startAsking<T>(wanted: ReadonlySignal<boolean>, path: string, take: (answer: T) => void, error: Signal<string>): void {
  effect(() => {
    if (!wanted.value) return undefined;
    let [timer, shown, known] = [0, true, false];
    const ask = async (): Promise<void> => {
      try {
        if (!document.hidden || !known) {
          const answer = await asked<T>(path);
          known = true;
          batch(() => {
            take(answer);
            error.value = "";
          });
        }
      } catch (failure) {
        error.value = failure instanceof Refused ? failure.message : "The webhook does not answer.";
      }
      if (shown) timer = window.setTimeout(() => void ask(), SCREEN_PAUSE);
    };
    void ask();
    return () => {
      shown = false;
      clearTimeout(timer);
    };
  });
}

/** Request the story of the selected gang, again when the gang changes. */
function startStories(): void {
  let timer = 0;
  let next = 0;
  let asking = "";
  const ask = async (gang: Gang): Promise<void> => {
    const key = keyOf(gang);
    next = performance.now() + STORY_PAUSE;
    const query = new URLSearchParams({ namespace: gang.namespace, name: gang.name, dialect: gang.dialect });
    try {
      const answer = await asked<Story>(`/v1/story?${query.toString()}`);
      if (asking === key) story.value = { key, story: answer };
    } catch (error) {
      const text = error instanceof Refused ? error.message : "The webhook does not answer.";
      if (asking === key && story.peek()?.key !== key) story.value = { key, error: text };
    }
  };
  effect(() => {
    const gang = selectedGang.value;
    clearTimeout(timer);
    if (!gang || gang.story) {
      asking = "";
      return;
    }
    const other = keyOf(gang) !== asking;
    asking = keyOf(gang);
    if (other) void ask(gang);
    else timer = window.setTimeout(() => void ask(gang), Math.max(0, next - performance.now()));
  });
}

/** Take over changes at once, or as soon as the browser was idle long enough after the last drawing. */
function taking(): (state: State) => void {
  let waiting: State | undefined;
  let next = 0;
  return (state) => {
    const first = !waiting;
    waiting = state;
    if (!first) return;
    setTimeout(
      () => {
        const begun = performance.now();
        const latest = waiting;
        waiting = undefined;
        if (latest) take(latest);
        next = performance.now() + REST * (performance.now() - begun);
      },
      Math.max(0, next - performance.now()),
    );
  };
}

/** Gangs that have not changed stay the same objects: what depends on them is not drawn again. */
function take(state: State): void {
  batch(() => {
    gangs.value = state.gangs;
    liveCluster.value = state.cluster;
  });
}

function start(retry: () => void): void {
  const place = document.createElement("div");
  place.id = "app";
  document.body.classList.add("scripted");
  document.body.replaceChildren(place);
  startTheme();
  render(<App retry={retry} />, place);
  setInterval(() => {
    if (!document.hidden) now.value = Date.now();
  }, 1_000);
}

async function begin(): Promise<void> {
  const recorded = document.getElementById("recorded")?.textContent;
  if (recorded) {
    const { decisions, cluster } = JSON.parse(recorded) as { decisions: Decision[]; cluster: Cluster };
    take({ gangs: decisions.map(asGang), cluster });
    connection.value = { kind: "recorded" };
    start(() => undefined);
    return;
  }
  const live = new Live();
  start(() => live.retry());
  for (;;) {
    try {
      take(await live.begin());
      break;
    } catch (error) {
      if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
        connection.value = { kind: "refused", why: error.message };
        return;
      }
      const why = error instanceof Refused ? error.message : "The webhook does not answer.";
      connection.value = { kind: "lost", at: 0, next: Date.now() + PAUSE, why };
      await live.pause(PAUSE);
    }
  }
  connection.value = { kind: "live", at: Date.now() };
  follow();
  startLinking();
  startStories();
  startAsking<{ queues: QueueReport[] }>(queuesShown, "/v1/queues", ({ queues }) => (queueReports.value = queues), queuesError);
  startAsking<{ gangs: EndedGang[] }>(historyShown, "/v1/history", ({ gangs: all }) => (ended.value = all), endedError);
  let answered = Date.now();
  const changed = taking();
  await live.follow({
    changed,
    answered: () => {
      answered = Date.now();
      connection.value = { kind: "live", at: answered };
    },
    lost: (why, pause) => {
      connection.value = { kind: "lost", at: answered, next: Date.now() + pause, why };
    },
  });
}

void begin();
