// The list of gangs: grouped by phase, filtered and searched. Long lists draw only the visible rows.

import { useRef, useState } from "preact/hooks";

import { type Gang, keyOf } from "./data";
import { Icon } from "./icons";
import { GangName, Notice } from "./parts";
import { finds, GROUPS, type Group, messageBeside, phaseOf, since } from "./phases";
import {
  connection,
  filter,
  found,
  gangs,
  hovered,
  listed,
  namespace,
  now,
  openDomain,
  openGang,
  openTrying,
  placesNamed,
  queue,
  reading,
  searched,
  selectedGang,
  selection,
  system,
  words,
} from "./state";

/** From this number of rows on, only the visible rows are drawn. */
const WINDOWED = 200;
/** The heights of a row and of a group's title in pixels, as the style sheet has them. */
const ROW = 50;
const HEAD = 27;
/** Rows that are drawn above and below the visible ones. */
const BEYOND = 10;
const MOST_PLACES = 6;

type Line = { head: string; count: number } | { gang: Gang };

function lines(): Line[] {
  return GROUPS.flatMap(([group, title]) => {
    const inside = listed.value.filter((gang) => phaseOf(gang).group === group);
    return inside.length ? [{ head: title, count: inside.length }, ...inside.map((gang) => ({ gang }))] : [];
  });
}

function height(line: Line): number {
  return "gang" in line ? ROW : HEAD;
}

/** The gangs in the order of the list, for the keys j and k. */
export function inOrder(): Gang[] {
  return lines().flatMap((line) => ("gang" in line ? [line.gang] : []));
}

function bound(gang: Gang): string {
  const there = gang.members.filter((member) => member.node).length;
  return `${there}/${Math.max(gang.expected ?? 0, gang.members.length)}`;
}

function Item({ gang }: { gang: Gang }) {
  const phase = phaseOf(gang);
  const key = keyOf(gang);
  const colour = found.value.indexOf(gang);
  return (
    <button
      type="button"
      class="item"
      data-gang={key}
      aria-pressed={selectedGang.value !== undefined && keyOf(selectedGang.value) === key}
      onClick={() => openGang(gang)}
      onPointerEnter={() => (hovered.value = key)}
      onPointerLeave={() => (hovered.value = "")}
    >
      <Icon name={phase.icon} tone={phase.tone} />
      <span class="t1 clip">
        {colour >= 0 && !selection.value ? <i class={`sw g${colour}`} /> : null}
        <GangName namespace={gang.namespace} name={gang.name} />
      </span>
      <span class="r0 q clip">{gang.queue ?? "–"}</span>
      <span class="r0 m">{bound(gang)}</span>
      <span class="r0 w">{since(gang.since, now.value)}</span>
      <span class="t2 clip">
        <b class={`c-${phase.tone}`}>{phase.label}</b>
        {gang.message ? <span class="sh"> · {messageBeside(phase.label, gang.message)}</span> : null}
      </span>
    </button>
  );
}

function Chips() {
  const inside = (group: Group | ""): number => searched.value.filter((gang) => !group || phaseOf(gang).group === group).length;
  const chips: [Group | "", string][] = [["", "All"], ...GROUPS.map(([group, , label]): [Group, string] => [group, label])];
  return (
    <div class="chips" role="group" aria-label="Phases">
      {chips
        .filter(([group]) => group !== "ended" || inside(group))
        .map(([group, label]) => (
          <button key={group} type="button" class="chip" aria-pressed={filter.value === group} onClick={() => (filter.value = group)}>
            {label} <span class="num">{inside(group)}</span>
          </button>
        ))}
    </div>
  );
}

/** Domains and nodes that the search finds. */
function Places() {
  const named = words.value.length > 1 ? placesNamed(words.value, MOST_PLACES) : [];
  if (!named.length) return null;
  return (
    <div class="places" role="group" aria-label="Domains and nodes">
      {named.map((path) => (
        <button key={path.join("/")} type="button" class="pill" onClick={() => openDomain(path)}>
          {path.join(" / ")}
        </button>
      ))}
    </div>
  );
}

function Rows() {
  const area = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const all = lines();
  if (all.length <= WINDOWED)
    return (
      <div class="scroll">
        <ul>
          {all.map((line) =>
            "gang" in line ? (
              <li key={keyOf(line.gang)}>
                <Item gang={line.gang} />
              </li>
            ) : (
              <li key={line.head} class="grp">
                <span>{line.head}</span>
                <span>{line.count}</span>
              </li>
            ),
          )}
        </ul>
      </div>
    );
  const seen = area.current?.clientHeight ?? 800;
  let [before, first] = [0, 0];
  while (first < all.length && before + height(all[first] as Line) < top - BEYOND * ROW) {
    before += height(all[first] as Line);
    first += 1;
  }
  let [drawn, last] = [0, first];
  while (last < all.length && drawn < seen + 2 * BEYOND * ROW) {
    drawn += height(all[last] as Line);
    last += 1;
  }
  const after = all.slice(last).reduce((sum, line) => sum + height(line), 0);
  return (
    <div class="scroll" ref={area} onScroll={(event) => setTop(event.currentTarget.scrollTop)}>
      <ul style={{ paddingTop: `${before}px`, paddingBottom: `${after}px` }}>
        {all.slice(first, last).map((line, at) =>
          "gang" in line ? (
            <li key={keyOf(line.gang)} class="fixed" aria-setsize={all.length} aria-posinset={first + at + 1}>
              <Item gang={line.gang} />
            </li>
          ) : (
            <li key={line.head} class="grp">
              <span>{line.head}</span>
              <span>{line.count}</span>
            </li>
          ),
        )}
      </ul>
    </div>
  );
}

function clear(): void {
  [words.value, filter.value, namespace.value, system.value, queue.value] = ["", "", "", "", ""];
}

const EXAMPLE = 'metadata:\n  annotations:\n    phalanx.dev/gang: "true"';

export function List() {
  const { kind } = connection.value;
  const named = words.value && gangs.value.some((gang) => finds(gang, words.value));
  const queued = gangs.value.some((gang) => gang.queue);
  return (
    <section class={queued ? "panel" : "panel no-queue"} id="list" aria-label="Gangs">
      <Chips />
      {reading.value ? (
        <div class="scroll" aria-hidden="true">
          {[60, 75, 50, 85, 65, 70, 55, 80].map((width, at) => (
            <div key={at} class="item">
              <i class="sk dot-sk" />
              <span class="sk" style={{ width: `${width}%`, height: "13px" }} />
            </div>
          ))}
        </div>
      ) : kind === "refused" ? (
        <Notice icon="warn" title="Gangs cannot be read" text="The list appears as soon as you may view the cluster." />
      ) : !gangs.value.length ? (
        <Notice
          icon="finished"
          title="No gangs yet"
          text="An annotation turns a workload into a gang. Its pods then start together, close to each other."
          code={EXAMPLE}
        >
          {kind === "recorded" ? null : (
            <button type="button" class="btn primary" onClick={openTrying}>
              Try a manifest
            </button>
          )}
        </Notice>
      ) : (
        <>
          <div class="cap" aria-hidden="true">
            <span />
            <span>Gang</span>
            <span class="q">Queue</span>
            <span>Pods</span>
            <span class="w">For</span>
          </div>
          <Places />
          {listed.value.length ? (
            <Rows />
          ) : (
            <Notice icon="find" title="Nothing matches" text={words.value && !named ? `No gang matches “${words.value}”.` : "No gang is in this selection."}>
              <button type="button" class="btn primary" onClick={clear}>
                Clear
              </button>
            </Notice>
          )}
        </>
      )}
      <p class="count sr" role="status">
        {listed.value.length} of {gangs.value.length} gangs
      </p>
    </section>
  );
}

