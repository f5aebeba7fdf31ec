// The app bar: topology, views, search, connection, theme and the menu.

import type { RefObject } from "preact";

import { resources } from "./data";
import { Icon, Logo } from "./icons";
import {
  chosenResource,
  cluster,
  close,
  connection,
  dark,
  gangs,
  namespace,
  now,
  openDomain,
  openGang,
  openTrying,
  placesNamed,
  screen,
  SCARCEST,
  searched,
  show,
  system,
  tab,
  topology,
  topologyName,
  trying,
  words,
} from "./state";
import { briefly } from "./phases";
import { switchTheme } from "./theme";

const LABELS = { loading: "Reading", live: "Live", lost: "Disconnected", refused: "No access", recorded: "Recorded" };

function Live() {
  const state = connection.value;
  const age = (state.kind === "live" || state.kind === "lost") && state.at ? `${briefly((now.value - state.at) / 1000)} ago` : "";
  return (
    <span class={`live ${state.kind}`}>
      <i class="dot" />
      <b role="status">{LABELS[state.kind]}</b>
      <span>{age}</span>
    </span>
  );
}

/** Enter opens the only gang that the search finds, else the first domain or node. */
function enter(): void {
  const [only, ...others] = searched.value;
  const [path] = placesNamed(words.value.trim(), 1);
  if (path) {
    words.value = "";
    openDomain(path);
  } else if (only && !others.length) openGang(only);
}

function values(of: (gang: (typeof gangs.value)[number]) => string): string[] {
  return [...new Set(gangs.value.map(of))].sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
}

function Menu() {
  const menu = (label: string, value: string, options: [string, string][], chosen: (value: string) => void) => (
    <label>
      {label}
      <select value={value} onChange={(event) => chosen(event.currentTarget.value)}>
        {options.map(([each, text]) => (
          <option key={each} value={each}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
  const same = (names: string[]): [string, string][] => names.map((each) => [each, each]);
  return (
    <details class="menu">
      <summary class="btn icon" aria-label="More" title="More">
        <Icon name="more" />
      </summary>
      <div>
        {menu("Namespace", namespace.value, [["", "all"], ...same(values((gang) => gang.namespace))], (value) => (namespace.value = value))}
        {menu("System", system.value, [["", "all"], ...same(values((gang) => gang.dialect))], (value) => (system.value = value))}
        {menu(
          "Picture counts",
          chosenResource.value,
          [["", "accelerators, else cpu"], ...same(resources(cluster.value)), [SCARCEST, "the scarcest resource of each node"]],
          (value) => (chosenResource.value = value),
        )}
      </div>
    </details>
  );
}

export function AppBar({ search }: { search: RefObject<HTMLInputElement | null> }) {
  const recorded = connection.value.kind === "recorded";
  const known = cluster.value.topologies.map((each) => each.name);
  const choose = (name: string): void => {
    close();
    topologyName.value = name;
  };
  return (
    <header class="bar">
      <h1 class="brand">
        <Logo />
        Phalanx
      </h1>
      {known.length > 1 ? (
        <div class="where">
          <span class="pick" title="Topology">
            <select aria-label="Topology" value={topology.value.name} onChange={(event) => choose(event.currentTarget.value)}>
              {known.map((name) => (
                <option key={name} value={name}>
                  {name}
                </option>
              ))}
            </select>
            <Icon name="down" size={12} />
          </span>
        </div>
      ) : null}
      <nav class="tabs" aria-label="Views">
        <button type="button" aria-current={screen.value === "cluster" ? "page" : undefined} onClick={() => show("cluster")}>
          Cluster
        </button>
        <button type="button" aria-current={screen.value === "queues" ? "page" : undefined} onClick={() => show("queues")}>
          Queues
        </button>
        {recorded ? null : (
          <button type="button" aria-current={screen.value === "history" ? "page" : undefined} onClick={() => show("history")}>
            History
          </button>
        )}
      </nav>
      <label class="find">
        <Icon name="find" />
        <span class="sr">Find a gang, node or domain</span>
        <input
          ref={search}
          type="search"
          placeholder="Find a gang, node or domain"
          value={words.value}
          onInput={(event) => {
            words.value = event.currentTarget.value.trimStart();
            if (tab.value !== "gangs") tab.value = "gangs";
          }}
          onKeyDown={(event) => {
            if (event.key === "Enter") enter();
          }}
        />
        <kbd aria-hidden="true">/</kbd>
      </label>
      <Live />
      {recorded ? null : (
        <button type="button" class="btn primary try" aria-pressed={trying.value} onClick={openTrying}>
          <Icon name="try" />
          Try it
        </button>
      )}
      <button type="button" class="btn icon" aria-label={dark.value ? "Light mode" : "Dark mode"} title={dark.value ? "Light mode" : "Dark mode"} onClick={switchTheme}>
        <Icon name="theme" />
      </button>
      <Menu />
    </header>
  );
}

/** The tabs at the bottom of a phone. */
export function BottomTabs() {
  const at = (name: typeof tab.value): "page" | undefined => (screen.value === "cluster" && tab.value === name ? "page" : undefined);
  const go = (name: typeof tab.value): void => {
    close();
    screen.value = "cluster";
    tab.value = name;
  };
  return (
    <nav class="bottom" aria-label="Views">
      <button type="button" aria-current={at("gangs")} onClick={() => go("gangs")}>
        <Icon name="list" size={20} />
        Gangs
      </button>
      <button type="button" aria-current={at("cluster")} onClick={() => go("cluster")}>
        <Icon name="grid" size={20} />
        Cluster
      </button>
      <button type="button" aria-current={screen.value === "queues" ? "page" : undefined} onClick={() => show("queues")}>
        <Icon name="queue" size={20} />
        Queues
      </button>
      {connection.value.kind === "recorded" ? null : (
        <button type="button" aria-current={screen.value === "history" ? "page" : undefined} onClick={() => show("history")}>
          <Icon name="hist" size={20} />
          History
        </button>
      )}
      {connection.value.kind === "recorded" ? null : (
        <button type="button" aria-current={at("try")} onClick={openTrying}>
          <Icon name="try" size={20} />
          Try it
        </button>
      )}
    </nav>
  );
}
