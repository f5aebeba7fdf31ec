// The gangs that have ended: when, how, how long they waited and ran, and what they used.

import type { ComponentChildren } from "preact";

import { reasonOf, Refused } from "./asking";
import { type EndedGang, keyOf, unitName } from "./data";
import { Icon } from "./icons";
import { GangName, Notice } from "./parts";
import { briefly, lasting, matches, type Tone } from "./phases";
import { offer } from "./sharing";
import { connection, ended, endedError, namespace, now, queue, resource, words } from "./state";

const OUTCOMES: Record<EndedGang["outcome"], { icon: string; tone: Tone }> = {
  Succeeded: { icon: "finished", tone: "done" },
  Failed: { icon: "never", tone: "never" },
  Deleted: { icon: "x", tone: "done" },
  Ended: { icon: "finished", tone: "done" },
};

/** The reasons of waits in the words of the page (reasons: controller/gang_status.py, planning/decision.py). */
const WAITS: Record<string, string> = {
  QuotaExhausted: "quota",
  NoRoom: "capacity",
  NeverFits: "capacity",
  MembersMissing: "pods",
  ObjectsMissing: "objects",
  ResourceClaims: "devices",
  NotPlannedYet: "its plan",
  New: "its plan",
  RoomHeld: "its release",
  VictimsLeaving: "evictions",
  Binding: "binding",
};

/** The value below which this share of the sorted numbers lies. */
function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

const hours = (value: number): string => value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 2 : 0 });

function Tiles({ gangs, name }: { gangs: EndedGang[]; name: string }) {
  const waits = gangs.filter((gang) => gang.started).map((gang) => gang.waitedSeconds);
  waits.sort((one, other) => one - other);
  const used = gangs.reduce((sum, gang) => sum + (gang.hours[name] ?? 0), 0);
  const evictions = gangs.reduce((sum, gang) => sum + gang.evictions, 0);
  const figure = (title: string, value: ComponentChildren) => (
    <div>
      <span>{title}</span>
      <div class="big">{value}</div>
    </div>
  );
  return (
    <section class="panel tiles" aria-label="All of them">
      {figure("Waited, median", waits.length ? lasting(quantile(waits, 0.5)) : "–")}
      {figure("Waited, 9 of 10 under", waits.length ? lasting(quantile(waits, 0.9)) : "–")}
      {figure(`${unitName(name)} × hours`, hours(used))}
      {figure("Evictions", evictions)}
    </section>
  );
}

function waited(gang: EndedGang): string {
  const [longest] = gang.waitedFor;
  return longest ? `for ${WAITS[longest.reason] ?? longest.reason}` : "";
}

function Row({ gang, name }: { gang: EndedGang; name: string }) {
  const outcome = OUTCOMES[gang.outcome];
  const times = `Submitted ${new Date(gang.submitted).toLocaleString()}${gang.started ? `, started ${new Date(gang.started).toLocaleString()}` : ", never started"}`;
  const all = gang.waitedFor.map(({ reason, seconds }) => `${lasting(seconds)} for ${WAITS[reason] ?? reason}`).join(", ");
  return (
    <tr>
      <th scope="row" title={times}>
        <GangName namespace={gang.namespace} name={gang.name} />
      </th>
      <td class="num" title={new Date(gang.finished).toLocaleString()}>
        {briefly((now.value - Date.parse(gang.finished)) / 1000)} ago
      </td>
      <td>
        <span class={`tag ${outcome.tone}`}>
          <Icon name={outcome.icon} />
          {gang.outcome}
        </span>
      </td>
      <td class="rt far">{gang.pods}</td>
      <td class="rt" title={all}>
        {lasting(gang.waitedSeconds)} <span class="muted">{waited(gang)}</span>
      </td>
      <td class="rt">{gang.started ? lasting(gang.ranSeconds) : "–"}</td>
      <td class="rt">{hours(gang.hours[name] ?? 0)}</td>
      <td class="far clip">{gang.domain || "–"}</td>
      <td class="rt">{gang.evictions || "–"}</td>
      <td class="rt far">{gang.restarts || "–"}</td>
    </tr>
  );
}

/** Save all ended gangs as CSV, as the webhook writes it. */
async function save(): Promise<void> {
  try {
    const answer = await fetch("/v1/history?format=csv");
    if (!answer.ok) throw await reasonOf(answer);
    offer(await answer.text(), "text/csv", "phalanx-history.csv");
  } catch (failure) {
    endedError.value = failure instanceof Refused ? failure.message : "The webhook does not answer.";
  }
}

/** The gangs that the search and the menus keep. */
function shown(gangs: readonly EndedGang[]): EndedGang[] {
  return gangs.filter(
    (gang) =>
      (!namespace.value || gang.namespace === namespace.value) &&
      (!queue.value || gang.queue === queue.value) &&
      (!words.value || matches(`${gang.namespace}/${gang.name} ${gang.outcome} ${gang.queue} ${gang.domain} ${gang.dialect}`, words.value)),
  );
}

export function History() {
  const name = resource.value;
  const all = ended.value;
  if (!all && !endedError.value)
    return (
      <div class="page" aria-busy="true">
        <section class="panel">
          <div class="sk queues-sk" />
        </section>
      </div>
    );
  if (!all) return <Notice icon="warn" title="The history cannot be shown" text={endedError.value} />;
  const gangs = shown(all);
  const titles: [string, string][] = [
    ["Gang", ""],
    ["Ended", ""],
    ["How", ""],
    ["Pods", "rt far"],
    ["Waited", "rt"],
    ["Ran", "rt"],
    [`${unitName(name)} × h`, "rt"],
    ["Where", "far"],
    ["Evictions", "rt"],
    ["Restarts", "rt far"],
  ];
  return (
    <div class="page" role="region" aria-label="Ended gangs" tabIndex={0}>
      {endedError.value ? (
        <p class="mistake" role="alert">
          The history is not up to date: {endedError.value}
        </p>
      ) : null}
      {gangs.length ? <Tiles gangs={gangs} name={name} /> : null}
      <section class="panel">
        <div class="head">
          <h2>Ended gangs</h2>
          <span class="muted hide">of the last 24 hours, since the webhook started</span>
          {connection.value.kind === "recorded" ? null : (
            <button type="button" class="btn small push" onClick={() => void save()}>
              Export
            </button>
          )}
        </div>
        {gangs.length ? (
          <div class="wide" role="region" aria-label="Table of ended gangs" tabIndex={0}>
            <table class="hist">
              <caption class="sr">Ended gangs, the last one first</caption>
              <thead>
                <tr>
                  {titles.map(([title, side]) => (
                    <th key={title} scope="col" class={side}>
                      {title}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {gangs.map((gang) => (
                  <Row key={`${keyOf(gang)} ${gang.submitted}`} gang={gang} name={name} />
                ))}
              </tbody>
            </table>
          </div>
        ) : (
          <Notice
            icon="hist"
            title={all.length ? "Nothing matches" : "No gang has ended yet"}
            text={all.length ? "No ended gang matches the search." : "A gang appears here when its workload has ended."}
          />
        )}
      </section>
    </div>
  );
}
