// The queues: what their gangs use, and the gangs that wait in each, as the gangs report it.

import { type Gang, largestRequest, requestOf, titleOf, unitName, written } from "./data";
import { Icon } from "./icons";
import { Notice } from "./parts";
import { phaseOf } from "./phases";
import { gangs, openGang, queue, resource, show } from "./state";

interface QueueUse {
  name: string;
  used: [Gang, number][];
  waiting: [Gang, number][];
}

/** What a gang's pods use of the counted resource; `all`: also the pods that wait. */
function use(gang: Gang, name: string, all: boolean): number {
  const pods = gang.members.filter((member) => all || member.node || member.nominatedNode);
  const missing = all ? Math.max(0, (gang.expected ?? 0) - pods.length) * largestRequest(gang, name) : 0;
  return pods.reduce((sum, member) => sum + (requestOf(member, name) ?? 0), 0) + missing;
}

function queuesOf(name: string): QueueUse[] {
  const byName = new Map<string, QueueUse>();
  for (const gang of gangs.value) {
    const { group } = phaseOf(gang);
    const at = gang.queue ?? "";
    const entry = byName.get(at) ?? { name: at, used: [], waiting: [] };
    byName.set(at, entry);
    if (group === "running" || group === "motion") entry.used.push([gang, use(gang, name, false)]);
    else if (group === "waiting") entry.waiting.push([gang, use(gang, name, true)]);
  }
  for (const entry of byName.values()) {
    entry.used.sort((one, other) => other[1] - one[1]);
    entry.waiting.sort(([one], [other]) => (other.priority ?? 0) - (one.priority ?? 0) || (one.since ?? "").localeCompare(other.since ?? ""));
  }
  return [...byName.values()].sort((one, other) => Number(!one.name) - Number(!other.name) || one.name.localeCompare(other.name));
}

const total = (parts: [Gang, number][]): number => parts.reduce((sum, [, base]) => sum + base, 0);

export function Queues() {
  const name = resource.value;
  const all = queuesOf(name);
  const widest = Math.max(1, ...all.map((each) => total(each.used) + total(each.waiting)));
  const text = (base: number): string => written(name, base);
  const share = (base: number): string => `${(base / widest) * 100}%`;
  const pick = (to: string): void => {
    queue.value = queue.value === to ? "" : to;
    show("cluster");
  };
  if (!all.length) return <Notice icon="queue" title="No gangs yet" text="A queue appears here as soon as a gang names it." />;
  return (
    <div class="page" role="region" aria-label="Queues" tabIndex={0}>
      <section class="panel">
        <div class="head">
          <h2>Queues</h2>
          <span class="muted">{unitName(name)} that gangs use and wait for</span>
          <span class="push muted nw hide">all on one scale</span>
        </div>
        {all.map((each) => (
          <div key={each.name} class={queue.value && queue.value === each.name ? "qrow chosen" : "qrow"}>
            <div>
              <h3>{each.name || "No queue"}</h3>
              {each.name ? (
                <button type="button" class="link" onClick={() => pick(each.name)}>
                  Show its gangs
                </button>
              ) : (
                <p class="muted">no quota applies</p>
              )}
            </div>
            <div>
              <div class="qbar" role="img" aria-label={`${text(total(each.used))} used, ${text(total(each.waiting))} waited for`}>
                <i class="own" style={{ width: share(total(each.used)) }} />
                <i class="wai" style={{ width: share(total(each.waiting)) }} />
              </div>
              <ul class="qleg">
                <li>
                  <i class="sw u" />
                  <b>{text(total(each.used))}</b> used
                </li>
                <li>
                  <i class="sw n" />
                  <b>{text(total(each.waiting))}</b> waited for
                </li>
              </ul>
              <div class="who">
                {each.used.map(([gang, base]) => (
                  <button key={titleOf(gang)} type="button" class="pill" onClick={() => openGang(gang)}>
                    {titleOf(gang)} <b>{text(base)}</b>
                  </button>
                ))}
              </div>
            </div>
            {each.waiting.length ? (
              <ol class="line" aria-label="Waiting gangs in order">
                {each.waiting.map(([gang, base], at) => {
                  const phase = phaseOf(gang);
                  return (
                    <li key={titleOf(gang)}>
                      <span class="no">{at + 1}</span>
                      <Icon name={phase.icon} tone={phase.tone} />
                      <button type="button" class="clip" onClick={() => openGang(gang)}>
                        <b>{titleOf(gang)}</b> <span class="muted">{phase.label}</span>
                      </button>
                      <span class="num">
                        {text(base)} {unitName(name)}
                      </span>
                    </li>
                  );
                })}
              </ol>
            ) : (
              <p class="muted">No gang waits.</p>
            )}
          </div>
        ))}
      </section>
    </div>
  );
}
