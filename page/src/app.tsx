// The page: app bar, key figures, and the work area with picture, list and detail.

import { useEffect, useRef } from "preact/hooks";

import { AppBar, BottomTabs } from "./bar";
import { ClusterPanel } from "./cluster";
import { keyOf } from "./data";
import { GangDetail } from "./detail";
import { DomainDetail } from "./domain";
import { History } from "./history";
import { Icon } from "./icons";
import { Keys } from "./keys";
import { inOrder, List } from "./list";
import { Queues } from "./queues";
import { close, connection, now, openGang, openTrying, screen, selectedGang, selection, show, tab, trying } from "./state";
import { TryPanel, TryResult } from "./trying";

function Disconnected({ retry }: { retry: () => void }) {
  const state = connection.value;
  if (state.kind !== "lost") return null;
  const seconds = Math.max(0, Math.ceil((state.next - now.value) / 1000));
  return (
    <div class="strip" role="alert">
      <Icon name="warn" />
      <span>
        <b>Disconnected.</b> {state.why} {state.at ? `The page shows the cluster as of ${new Date(state.at).toLocaleTimeString()}. ` : ""}Next try in {seconds} s.
      </span>
      <button type="button" class="btn small" onClick={retry}>
        Try now
      </button>
    </div>
  );
}

function Work() {
  const gang = selectedGang.value;
  const domain = selection.value?.kind === "domain";
  if (trying.value)
    return (
      <main class="work trying">
        <TryPanel />
        <ClusterPanel />
        <TryResult />
      </main>
    );
  const gone = selection.value?.kind === "gang" && !gang;
  const kind = gang || domain || gone ? "work detail" : "work";
  return (
    <main class={connection.value.kind === "lost" ? `${kind} stale` : kind}>
      <ClusterPanel />
      <List />
      {gang || domain || gone ? <div class="veil" onClick={close} /> : null}
      {gang ? <GangDetail gang={gang} /> : null}
      {domain ? <DomainDetail /> : null}
      {gone ? (
        <section class="panel" id="detail" aria-label="Gang">
          <div class="state">
            <div>
              <h3>The gang is gone</h3>
              <p>Its workload was deleted or has finished.</p>
              <div class="btns">
                <button type="button" class="btn" onClick={() => show("history")}>
                  Ended gangs
                </button>
                <button type="button" class="btn primary" onClick={close}>
                  Close
                </button>
              </div>
            </div>
          </div>
        </section>
      ) : null}
    </main>
  );
}

/** Keys: / finds, j and k walk the list, t tries, Esc closes. */
function onKey(event: KeyboardEvent, search: HTMLInputElement | null): void {
  const active = document.activeElement;
  if (event.key === "Escape") {
    if (active instanceof HTMLElement && /INPUT|TEXTAREA/.test(active.tagName)) active.blur();
    return close();
  }
  if (event.ctrlKey || event.metaKey || event.altKey || (active && /INPUT|TEXTAREA|SELECT/.test(active.tagName))) return;
  if (event.key === "/") {
    event.preventDefault();
    search?.focus();
  } else if (event.key === "t" && connection.value.kind !== "recorded") openTrying();
  else if (event.key === "j" || event.key === "k") {
    const all = inOrder();
    const at = all.findIndex((gang) => selectedGang.value && keyOf(gang) === keyOf(selectedGang.value));
    const next = all[Math.min(all.length - 1, Math.max(0, at + (event.key === "j" ? 1 : -1)))];
    if (!next) return;
    openGang(next);
    requestAnimationFrame(() => document.querySelector('.item[aria-pressed="true"]')?.scrollIntoView({ block: "nearest" }));
  }
}

export function App({ retry }: { retry: () => void }) {
  const search = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const listen = (event: KeyboardEvent): void => onKey(event, search.current);
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
  return (
    <div class="app" data-tab={tab.value}>
      <AppBar search={search} />
      <Disconnected retry={retry} />
      {screen.value === "cluster" ? <Keys /> : null}
      {screen.value === "cluster" ? (
        <Work />
      ) : (
        <main class="work-page">
          {screen.value === "queues" ? <Queues /> : <History />}
        </main>
      )}
      <BottomTabs />
    </div>
  );
}
