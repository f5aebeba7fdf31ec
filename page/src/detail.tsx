// The detail of a gang: its state in one sentence, then what would help, where it is, its request and its history.

import type { ComponentChildren } from "preact";

import { devicesOf, fittingOf, type Gang, keyOf, type Near, nodesOf, type Story, titleOf, unitName } from "./data";
import { goalName, isFewest, valueOf } from "./goals";
import { Icon } from "./icons";
import { Bar, CopyLink, Fold, GangName, PhaseTag, Section, Table } from "./parts";
import { lasting, phaseOf, since } from "./phases";
import { QuotaOf } from "./queues";
import { close, gangs, now, openDomain, selectedStory, story, topology } from "./state";
import { prefill, type WhatIfFields } from "./trying-state";
import { nodesIn, placeAt } from "./tree";

/** The most gangs that stand by name beside the only domain of another gang. */
const MOST_USERS = 3;
/** The most domains of a level, or nodes, that stand by name. */
const MOST_NAMED = 8;

/** Begin with a capital letter, unless the first word is a name such as `s1b1` or `team-a/eval`. */
function capital(text: string): string {
  return /^[a-z]+(?=[\s,:]|$)/.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
}

function levelOf(near: Near): string {
  return topology.value.levels[near.path.length - 1]?.name ?? "cluster";
}

/** The other gangs with pods in these domains, those with the most pods first. */
function usersOf(gang: Gang, near: readonly Near[]): string[] {
  const nodes = new Set(near.flatMap((each) => [...nodesIn(placeAt(topology.value, each.path))].map(({ name }) => name)));
  const podsOf = (each: Gang): number => each.members.filter((member) => nodes.has(member.node || member.nominatedNode || "")).length;
  return gangs.value
    .filter((each) => keyOf(each) !== keyOf(gang) && podsOf(each))
    .sort((one, other) => podsOf(other) - podsOf(one))
    .map(titleOf);
}

/** The first sentence, and what follows it. A gang that waits for capacity names the closest domain. The message of a
 * gang that never fits stands instead, because its closest domain could hold no more even without other pods. */
function leadOf(gang: Gang, told: Story | undefined): [string, string] {
  const message = told?.message ?? gang.message;
  const [best] = told?.explanation?.nearest ?? [];
  const phase = phaseOf(gang);
  const only = told?.explanation?.onlyIn;
  if (only && gang.reason !== "NeverFits" && gang.phase === "Unplaceable") {
    const there = usersOf(gang, told?.explanation?.nearest ?? []);
    const used = there.length ? ` In use there: ${there.slice(0, MOST_USERS).join(", ")}${there.length > MOST_USERS ? ` and ${there.length - MOST_USERS} more gangs` : ""}.` : "";
    return [`${phase.label}: it may run only in ${only}.`, best ? `It fits ${fittingOf(best)}.${used}` : used.trim()];
  }
  if (best && gang.reason !== "NeverFits" && (gang.phase === "Unplaceable" || gang.phase === "Waiting")) {
    const name = best.path.join(" / ") || "the whole cluster";
    const where = best.path.length ? `the best ${levelOf(best)}, ${name}, fits` : "the whole cluster fits";
    const proof = told?.proof === "Infeasible" ? "Proven: no domain holds it now." : "";
    return [`${phase.label}: ${where} ${fittingOf(best)}.`, proof];
  }
  const at = message.search(/[.;] /);
  if (!message) return [gang.phase ? `${phase.label}.` : "Phalanx has not decided yet.", ""];
  if (at < 0 || at > 160) return [capital(message), ""];
  return [capital(message.slice(0, at + (message[at] === "." ? 1 : 0))), capital(message.slice(at + 2))];
}

/** The what-if that carries out a remedy in the drawer; undefined if a dry run cannot. */
function trialOf(gang: Gang, remedy: string): WhatIfFields | undefined {
  const gangName = `${gang.namespace}/${gang.name}`;
  const relaxed = /level (\S+) widened/.exec(remedy)?.[1];
  if (relaxed) return { gang: gangName, relax: relaxed };
  const more = /^(\d+) more .* in ([^\s,]+)/.exec(remedy);
  if (!more) return undefined;
  const [first] = nodesIn(placeAt(topology.value, (more[2] ?? "").split("/")));
  return first ? { gang: gangName, "add-nodes": `${more[1] ?? "1"}=${first.name}` } : undefined;
}

function Remedies({ gang, told }: { gang: Gang; told: Story }) {
  const remedies = told.explanation?.wouldFitIf ?? [];
  if (!remedies.length) return null;
  return (
    <Section title="What would help">
      {remedies.map((remedy) => {
        const fields = gang.planned ? undefined : trialOf(gang, remedy);
        return (
          <div key={remedy} class="do">
            <p>{capital(remedy)}</p>
            {fields ? (
              <button type="button" class="btn small" onClick={() => prefill(fields)}>
                Try it
              </button>
            ) : null}
          </div>
        );
      })}
    </Section>
  );
}

/** Why nodes of a domain hold no pod. The scheduler's words for lacking capacity become the page's. */
function excluded(reason: string, count: number): string {
  const [, lacking] = /^Insufficient (\S+)$/.exec(reason) ?? [];
  return lacking ? `${count} without enough ${unitName(lacking)}` : `${count} excluded: ${reason}`;
}

function Nearest({ told }: { told: Story }) {
  const near = told.explanation?.nearest ?? [];
  const [first] = near;
  if (!first) return null;
  const names = near.map((each) => each.path.at(-1));
  const unique = new Set(names).size === names.length;
  return (
    <Section title={`Closest ${levelOf(first)}s`} note="marked in the picture">
      {near.map((each) => (
        <button key={each.path.join("/")} type="button" class="nr" onClick={() => openDomain(each.path)}>
          <span class="b" title={each.path.join(" / ")}>
            {(unique ? each.path.at(-1) : each.path.join(" / ")) || "whole cluster"}
          </span>
          <Bar share={each.fits / each.needed} tone="wait-fill" />
          <span class="nw">
            {each.fits} of {each.needed}
          </span>
          <small>
            {each.fitsWithoutEvictions !== undefined && each.fitsWithoutEvictions < each.fits ? `${each.fitsWithoutEvictions} now, ${each.fits} after evictions, ` : ""}
            {each.nodes} nodes
            {Object.entries(each.excluded ?? {}).map(([reason, count]) => `, ${excluded(reason, count)}`)}
            {(each.devices ?? []).map((some) => `, ${devicesOf(some)}`)}
          </small>
        </button>
      ))}
    </Section>
  );
}

function Victims({ told }: { told: Story }) {
  const victims = told.victims ?? [];
  if (!victims.length) return null;
  const rows = victims.map((each) => [`${each.namespace}/${each.pod}`, each.gang ?? "", each.node ?? "", String(each.priority ?? "")]);
  return (
    <Section title="Evicted for it">
      <Table caption="Evicted for it" titles={["Pod", "Gang", "Node", "Priority"]} right={[3]} rows={rows} />
    </Section>
  );
}

/** When the gang lost its place, and for which gang. */
function Displaced({ told }: { told: Story }) {
  const times = told.displaced ?? [];
  if (!times.length) return null;
  return (
    <Section title="Evicted" note="since the webhook started">
      {times.map(({ at, by }) => (
        <p key={at}>
          <time dateTime={at} title={at}>
            {since(at, now.value)} ago
          </time>
          {by ? (
            <>
              {" for "}
              <b>{by}</b>
            </>
          ) : null}
        </p>
      ))}
    </Section>
  );
}

/** The domains of each level that the gang uses, with its pods in each. */
function Levels({ gang, told }: { gang: Gang; told: Story | undefined }) {
  const counts = topology.value.levels.map(() => new Map<string, { path: string[]; pods: number }>());
  for (const member of gang.members) {
    const node = member.node || member.nominatedNode;
    const domains = node ? topology.value.nodes[node] : undefined;
    if (!node || !domains) continue;
    [...domains, node].forEach((_, depth, full) => {
      const path = full.slice(0, depth + 1);
      const known = counts[depth]?.get(path.join("/")) ?? { path, pods: 0 };
      known.pods += 1;
      counts[depth]?.set(path.join("/"), known);
    });
  }
  if (!counts.at(-1)?.size) return null;
  const moves = gang.planned ? "Where it would be" : phaseOf(gang).group === "running" ? "Where it is" : "Where it will be";
  return (
    <Section title={moves}>
      <div class="lvl">
        {counts.map((domains, depth) => {
          const level = topology.value.levels[depth]?.name ?? "node";
          const all = [...domains.values()];
          const each = new Set(all.map(({ pods }) => pods));
          const same = all.length > MOST_NAMED && each.size === 1;
          return (
            <>
              <span class="muted">{all.length === 1 ? level : `${level}s`}</span>
              <b>{all.length}</b>
              <div class="pills">
                {same ? <span class="pill">{all[0]?.pods} {all[0]?.pods === 1 ? "pod" : "pods"} on each</span> : null}
                {(same ? [] : all.slice(0, MOST_NAMED)).map(({ path, pods }) => (
                  <button key={path.join("/")} type="button" class="pill" onClick={() => openDomain(path)}>
                    {path.at(-1)} <b>{pods}</b>
                  </button>
                ))}
                {!same && all.length > MOST_NAMED ? <span class="pill">{all.length - MOST_NAMED} more</span> : null}
              </div>
              {isFewest(told?.objective, level) ? <em title="Proven: no plan needs fewer">fewest {level}s</em> : <span />}
            </>
          );
        })}
      </div>
    </Section>
  );
}

function Request({ gang, told }: { gang: Gang; told: Story | undefined }) {
  const facts: [string, ComponentChildren][] = [
    ["Asked by", told?.askedBy],
    ["Needs", told?.wants],
    ["Pods", told?.presence],
    ["Devices held", told?.devicesHeld],
    ["Priority", typeof gang.priority === "number" ? String(gang.priority) : ""],
    ["Queue", gang.queue],
    ["Waited", typeof told?.waitedSeconds === "number" ? `${lasting(told.waitedSeconds)} until it was placed` : ""],
    ["Restarts", told?.restarts ? String(told.restarts) : ""],
    ["Since", told?.since ? <time dateTime={told.since} title={told.since}>{since(told.since, now.value)} ago</time> : ""],
  ];
  return (
    <Section title={gang.planned ? "Plan" : "Request"}>
      <dl class="kv">
        {facts
          .filter(([, value]) => value)
          .map(([name, value]) => (
            <>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </>
          ))}
      </dl>
    </Section>
  );
}

/** Seconds with a decimal below ten, else in the largest unit that fits. */
function after(seconds: number): string {
  return seconds < 10 ? `${seconds.toFixed(1)} s` : lasting(seconds);
}

function Timeline({ told }: { told: Story }) {
  if (!told.steps.length && !told.withoutEvents) return null;
  return (
    <Section title="What happened">
      <ol class="tl">
        {told.steps.map((step, at) => (
          <li key={at} class={step.warning ? "warning" : ""}>
            <time dateTime={step.at} title={step.at}>
              {after(step.after)}
            </time>
            <p>
              {step.what}
              {step.times > 1 ? <span class="muted"> {step.times} times</span> : null}
              {step.of || step.note ? <small>{[step.of, step.note].filter((text) => text).join(": ")}</small> : null}
            </p>
          </li>
        ))}
      </ol>
      {told.withoutEvents ? <p class="muted">Some events are missing: {told.withoutEvents}.</p> : null}
    </Section>
  );
}

function Members({ gang, told }: { gang: Gang; told: Story }) {
  if (!told.members.length) return null;
  const claim = told.members.some((each) => each.devices);
  const rows = told.members.map((each) => [each.pod, each.state, each.node, ...(claim ? [each.devices ?? ""] : [])]);
  const nodes = nodesOf(gang).size;
  return (
    <Fold title="Pods" note={`${told.members.length} pods${nodes ? ` on ${nodes} nodes` : ""}`}>
      <Table caption="Pods of the gang" titles={["Pod", "State", "Node", ...(claim ? ["Devices"] : [])]} rows={rows} />
    </Fold>
  );
}

/** The proof and the goals of the plan, and the message as the Gang object has it. */
function Solver({ gang, told, lead }: { gang: Gang; told: Story; lead: string }) {
  const goals = told.objective ?? [];
  const message = told.message ?? gang.message;
  const repeats = lead.toLowerCase().startsWith(message.toLowerCase().slice(0, 40));
  if (!goals.length && (!message || repeats) && !told.proof) return null;
  const proof = told.proof && told.proof !== "Unproven" ? `proven ${told.proof.toLowerCase()}` : "not proven";
  const rows = goals.map((each) => [goalName(each.goal), valueOf(each), each.bound === null ? "not proven" : String(each.bound)]);
  return (
    <Fold title="Solver details" note={proof}>
      <p class="muted">
        Phase {gang.phase || "not set"}
        {told.reason ? `, reason ${told.reason}` : ""}
      </p>
      {message && !repeats ? <p class="message">{message}</p> : null}
      {rows.length ? <Table caption="Goals of the plan" titles={["Goal, most important first", "Value", "Best possible"]} right={[1, 2]} rows={rows} /> : null}
    </Fold>
  );
}

export function GangDetail({ gang, controls, above }: { gang: Gang; controls?: ComponentChildren; above?: ComponentChildren }) {
  const told = selectedStory.value;
  const phase = phaseOf(gang);
  const [lead, rest] = leadOf(gang, told);
  const bound = gang.members.filter((member) => member.node).length;
  const expected = Math.max(gang.expected ?? 0, gang.members.length);
  const title = (
    <h2 class="clip">
      <GangName namespace={gang.namespace} name={gang.name} />
    </h2>
  );
  return (
    <section class="panel" id="detail" aria-label={`Gang ${gang.namespace}/${gang.name}`}>
      <div class="hd">
        <div class="top">
          {controls ? null : (
            <button type="button" class="btn icon back" aria-label="Back to the gangs" onClick={close}>
              <Icon name="back" />
            </button>
          )}
          <PhaseTag phase={phase} />
          {controls ? null : title}
          <div class="btns">
            {controls ?? (
              <>
                <CopyLink />
                <button type="button" class="btn icon close" aria-label="Close" title="Close (Esc)" onClick={close}>
                  <Icon name="x" />
                </button>
              </>
            )}
          </div>
        </div>
        {controls ? title : null}
        {above}
        <div aria-live="polite">
          <p class="lead">{lead}</p>
          {rest ? <p class="muted">{rest}</p> : null}
        </div>
        {phase.group === "motion" && expected ? <Bar share={bound / expected} tone={phase.tone} /> : null}
      </div>
      <div class="scroll" role="region" aria-label="Details" tabIndex={0}>
        {story.value?.error && !told ? <p class="sec">The history is not available: {story.value.error}</p> : null}
        {(told?.heldBack ?? []).map((each) => (
          <p key={each} class="sec warn">
            <Icon name="warn" tone="wait" /> {each}
          </p>
        ))}
        {told?.restarted ? <p class="sec">{capital(told.restarted)}.</p> : null}
        {told ? <Remedies gang={gang} told={told} /> : null}
        {told ? <Nearest told={told} /> : null}
        {told ? <Victims told={told} /> : null}
        {told ? <Displaced told={told} /> : null}
        {told?.explanation?.whyHere ? (
          <Section title="Why here">
            <p>{capital(told.explanation.whyHere)}</p>
          </Section>
        ) : null}
        <Levels gang={gang} told={told} />
        {told?.place ? (
          <Section title="Place in line">
            <p>{told.place.told}</p>
          </Section>
        ) : null}
        {phase.group === "waiting" ? <QuotaOf gang={gang} /> : null}
        <Request gang={gang} told={told} />
        {told ? <Timeline told={told} /> : null}
        {told ? <Members gang={gang} told={told} /> : null}
        {told ? <Solver gang={gang} told={told} lead={lead} /> : null}
      </div>
    </section>
  );
}

