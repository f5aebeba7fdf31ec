// The queues: quota, what gangs use, borrow and lend, and the gangs that wait, in planning order.

import type { ComponentChildren } from "preact";

import { type Gang, type GangId, keyOf, largestRequest, type QueuedGang, type QueueReport, type QuotaFigures, requestOf, titleOf, unitName, written } from "./data";
import { Icon } from "./icons";
import { Notice, Section } from "./parts";
import { freeAt, messageBeside, phaseOf } from "./phases";
import { cluster, connection, gangs, now, openGang, queue, queueReports, queuesError, resource, show } from "./state";

/** A gang with an amount of the shown resource. */
type Part = [GangId & Pick<QueuedGang, "expectedEnd" | "estimatedStart" | "startAfter">, number];

/** A bar of one quota. Without `quota` there is no limit. */
interface QuotaBar {
  label: string;
  resource: string;
  used: number;
  waited: number;
  quota?: QuotaFigures;
}

interface QueueRow {
  name: string;
  note: string;
  bars: QuotaBar[];
  using: Part[];
  waiting: Part[];
  resource: string;
}

/** What a gang's pods use of the counted resource; `all`: also the pods that wait. */
function use(gang: Gang, name: string, all: boolean): number {
  const pods = gang.members.filter((member) => all || member.node || member.nominatedNode);
  const missing = all ? Math.max(0, (gang.expected ?? 0) - pods.length) * largestRequest(gang, name) : 0;
  return pods.reduce((sum, member) => sum + (requestOf(member, name) ?? 0), 0) + missing;
}

const total = (parts: Part[]): number => parts.reduce((sum, [, base]) => sum + base, 0);

/** What the limits of a quota say, such as "borrows up to 64". */
function limits({ borrowingLimit, lendingLimit, resource: name }: QuotaFigures, cohort: string): string {
  if (!cohort) return "no cohort";
  const part = (verb: string, limit: number | null): string => (limit === null ? "" : limit ? `${verb} up to ${written(name, limit)}` : `${verb} nothing`);
  return [`cohort ${cohort}`, part("borrows", borrowingLimit), part("lends", lendingLimit)].filter((text) => text).join(", ");
}

/** A queue with a quota. Its bars show the counted resource, or all resources if it has no quota for that one. */
function quotaRow(report: QueueReport, counted: string): QueueRow {
  const matching = report.quotas.filter((each) => each.resource === counted);
  const shown = matching.length ? matching : report.quotas;
  const name = matching.length ? counted : (shown[0]?.resource ?? counted);
  const parts = (gangsThere: QueueReport["using"]): Part[] => gangsThere.map((each) => [each, each.amounts[name] ?? 0]);
  const [using, waiting] = [parts(report.using), parts(report.waiting)];
  const bars = shown.map((quota): QuotaBar => {
    const label = [shown.length > 1 ? quota.flavor : "", matching.length ? "" : unitName(quota.resource)].filter((text) => text).join(", ");
    // A waiting gang has no flavor yet. Only a queue with one flavor says where the gang waits.
    const waited = matching.length > 1 ? 0 : report.waiting.reduce((sum, each) => sum + (each.amounts[quota.resource] ?? 0), 0);
    return { label, resource: quota.resource, used: quota.used, waited, quota };
  });
  return { name: report.name, note: shown[0] ? limits(shown[0], report.cohort) : "no quota", bars, using, waiting, resource: name };
}

/** The gangs that no queue with a quota has, by the queue that they name. */
function freeRows(name: string, known: ReadonlySet<string>): QueueRow[] {
  const byName = new Map<string, QueueRow>();
  for (const gang of gangs.value) {
    if (gang.clusterQueue && known.has(gang.clusterQueue)) continue;
    const { group } = phaseOf(gang);
    const at = gang.queue ?? "";
    const row = byName.get(at) ?? { name: at, note: gang.clusterQueue ? "its quota is not known" : "no quota applies", bars: [], using: [], waiting: [], resource: name };
    byName.set(at, row);
    if (group === "running" || group === "motion") row.using.push([gang, use(gang, name, false)]);
    else if (group === "waiting") row.waiting.push([gang, use(gang, name, true)]);
  }
  const order = new Map(gangs.value.map((gang) => [keyOf(gang), gang]));
  const turn = ([id]: Part): Gang | undefined => order.get(keyOf(id));
  for (const row of byName.values()) {
    row.using.sort((one, other) => other[1] - one[1]);
    row.waiting.sort((one, other) => (turn(other)?.priority ?? 0) - (turn(one)?.priority ?? 0) || (turn(one)?.since ?? "").localeCompare(turn(other)?.since ?? ""));
    row.bars = [{ label: "", resource: name, used: total(row.using), waited: total(row.waiting) }];
  }
  return [...byName.values()].sort((one, other) => Number(!one.name) - Number(!other.name) || one.name.localeCompare(other.name));
}

/** The largest amount that a bar of each resource shows: all bars of a resource have one scale. */
function scales(rows: QueueRow[]): Map<string, number> {
  const found = new Map<string, number>();
  for (const { bars } of rows)
    for (const bar of bars) found.set(bar.resource, Math.max(1, found.get(bar.resource) ?? 0, bar.used + bar.waited, bar.quota?.nominal ?? 0));
  return found;
}

/** The quota of the queue that a waiting gang is charged to: its bars, and when the gang may start. */
export function QuotaOf({ gang }: { gang: Gang }) {
  const report = queueReports.value?.find((each) => each.name === gang.clusterQueue);
  const line = report?.waiting ?? [];
  const at = line.findIndex((each) => keyOf(each) === keyOf(gang));
  const own = line[at];
  if (!report || !own) return null;
  const row = quotaRow(report, resource.value);
  const scale = scales([row]);
  const before = at ? `${at} gang${at > 1 ? "s" : ""} of this queue before it` : "first of this queue";
  return (
    <Section title={`Quota of ${report.name}`} note={before}>
      {row.bars.map((bar) => (
        <Bar key={`${bar.label}/${bar.resource}`} bar={bar} most={scale.get(bar.resource) ?? 1} />
      ))}
      {own.estimatedStart ? <p class="after">{estimate(own, own.estimatedStart)}</p> : null}
      <button type="button" class="link after" onClick={() => show("queues")}>
        All queues
      </button>
    </Section>
  );
}

function estimate({ startAfter }: Pick<QueuedGang, "startAfter">, start: string): string {
  return `Estimate: quota is free ${freeAt(start, now.value)}${startAfter ? `, when ${titleOf(startAfter)} ends` : ""}`;
}

function Bar({ bar, most }: { bar: QuotaBar; most: number }) {
  const { quota, used, waited } = bar;
  const text = (base: number): string => written(bar.resource, base);
  const share = (base: number): string => `${Math.min(100, (base / most) * 100)}%`;
  const borrowed = quota?.borrowed ?? 0;
  const own = used - borrowed;
  const parts: [number, string, string][] = [
    [own, "used", "u"],
    [borrowed, "borrowed", "bor"],
    [quota?.lent ?? 0, "lent", ""],
    [waited, "waited for", "n"],
  ];
  const legend = parts.filter(([base], at) => base > 0 || !at);
  const said = [quota ? `quota ${text(quota.nominal)}` : "", ...legend.map(([base, word]) => `${text(base)} ${word}`), quota ? `${text(quota.free)} left` : ""];
  return (
    <div class="quota">
      {bar.label ? <p class="muted small">{bar.label}</p> : null}
      <div class="qbar" role="img" aria-label={said.filter((each) => each).join(", ")}>
        <i class="own" style={{ left: "0", width: share(own) }} />
        {borrowed ? <i class="bor" style={{ left: share(own), width: share(borrowed) }} /> : null}
        {waited ? <i class="wai" style={{ left: share(used), width: share(waited) }} /> : null}
        {quota ? (
          <span class={quota.nominal > most * 0.85 ? "nom end" : quota.nominal < most * 0.1 ? "nom begin" : "nom"} style={{ left: share(quota.nominal) }}>
            <small>quota {text(quota.nominal)}</small>
          </span>
        ) : null}
      </div>
      <ul class="qleg" aria-hidden="true">
        {legend.map(([base, word, mark]) => (
          <li key={word}>
            {mark ? <i class={`sw ${mark}`} /> : null}
            <span>
              <b>{text(base)}</b> {word}
            </span>
          </li>
        ))}
        {quota ? (
          <li>
            <span>
              <b>{text(quota.free)}</b> left
            </span>
          </li>
        ) : null}
      </ul>
    </div>
  );
}

/** Open a gang that the page knows. A gang that has ended since has no detail. */
function open(id: GangId): void {
  const gang = gangs.value.find((each) => keyOf(each) === keyOf(id));
  if (gang) openGang(gang);
}

function Line({ row }: { row: QueueRow }) {
  if (!row.waiting.length) return <p class="muted">No gang waits.</p>;
  const known = new Map(gangs.value.map((gang) => [keyOf(gang), gang]));
  return (
    <ol class="line" aria-label={`Gangs that wait in ${row.name || "no queue"}, in order`}>
      {row.waiting.map(([id, base], at) => {
        const gang = known.get(keyOf(id));
        const phase = gang ? phaseOf(gang) : undefined;
        return (
          <li key={keyOf(id)}>
            <span class="no">{at + 1}</span>
            {phase ? <Icon name={phase.icon} tone={phase.tone} /> : <span />}
            <button type="button" class="clip" title={gang?.message} onClick={() => open(id)}>
              <b>{titleOf(id)}</b>{" "}
              <span class="muted">
                {phase?.label}
                {gang?.message && phase ? ` · ${messageBeside(phase.label, gang.message)}` : ""}
              </span>
            </button>
            <span class="num">
              {written(row.resource, base)} {unitName(row.resource)}
            </span>
            {id.estimatedStart ? (
              <small class="estimate" title={`${new Date(id.estimatedStart).toLocaleString()}, if the gangs that use the quota end as expected`}>
                {estimate(id, id.estimatedStart)}
              </small>
            ) : null}
          </li>
        );
      })}
    </ol>
  );
}

function Row({ row, scale }: { row: QueueRow; scale: Map<string, number> }) {
  const pick = (): void => {
    queue.value = queue.value === row.name ? "" : row.name;
    show("cluster");
  };
  return (
    <section class={queue.value && queue.value === row.name ? "qrow chosen" : "qrow"} aria-label={row.name || "No queue"}>
      <div>
        <h3>{row.name || "No queue"}</h3>
        <p class="muted">{row.note}</p>
        {row.name ? (
          <button type="button" class="link" onClick={pick}>
            Show its gangs
          </button>
        ) : null}
      </div>
      <div>
        {row.bars.map((bar) => (
          <Bar key={`${bar.label}/${bar.resource}`} bar={bar} most={scale.get(bar.resource) ?? 1} />
        ))}
        <div class="who" role="group" aria-label="Gangs that use it">
          {row.using.map(([id, base]) => (
            <button key={keyOf(id)} type="button" class="pill" title={id.expectedEnd ? `Expected to end: ${new Date(id.expectedEnd).toLocaleString()}` : undefined} onClick={() => open(id)}>
              {titleOf(id)} <b>{written(row.resource, base)}</b>
            </button>
          ))}
        </div>
      </div>
      <Line row={row} />
    </section>
  );
}

/** The sums over all quotas of the counted resource. */
function Tiles({ reports, name }: { reports: QueueReport[]; name: string }) {
  const quotas = reports.flatMap((each) => each.quotas.filter((quota) => quota.resource === name).map((quota) => ({ ...quota, queue: each.name })));
  if (!quotas.length) return null;
  const sum = (of: (quota: QuotaFigures) => number): number => quotas.reduce((all, each) => all + of(each), 0);
  const text = (base: number): string => written(name, base);
  const all = Object.values(cluster.value.nodes).reduce((amount, node) => amount + (node.allocatable[name] ?? 0), 0);
  const [nominal, used, borrowed] = [sum((each) => each.nominal), sum((each) => each.used), sum((each) => each.borrowed)];
  const borrowers = [...new Set(quotas.filter((each) => each.borrowed).map((each) => each.queue))];
  const waiting = reports.flatMap((each) => each.waiting).filter((each) => each.amounts[name]);
  const waited = waiting.reduce((amount, each) => amount + (each.amounts[name] ?? 0), 0);
  const figure = (title: string, value: string, note: ComponentChildren) => (
    <div>
      <span>{title}</span>
      <div class="big">
        {value} <small>{note}</small>
      </div>
    </div>
  );
  return (
    <section class="panel tiles" aria-label="Quota of all queues">
      {figure("Quota", text(nominal), `of ${text(all)} ${unitName(name)}`)}
      {figure("Used", text(used), nominal ? `${Math.round((used / nominal) * 100)} %` : "")}
      {figure("Borrowed", text(borrowed), borrowers.length > 2 ? `by ${borrowers.length} queues` : borrowers.length ? `by ${borrowers.join(" and ")}` : "")}
      {figure("Waited for", text(waited), waiting.length ? `by ${waiting.length} gang${waiting.length > 1 ? "s" : ""}` : "")}
    </section>
  );
}

export function Queues() {
  const name = resource.value;
  const reports = queueReports.value ?? [];
  if (!queueReports.value && !queuesError.value && connection.value.kind !== "recorded")
    return (
      <div class="page" aria-busy="true">
        <section class="panel">
          <div class="sk queues-sk" />
        </section>
      </div>
    );
  const rows = [...reports.map((each) => quotaRow(each, name)), ...freeRows(name, new Set(reports.map((each) => each.name)))];
  if (!rows.length) return <Notice icon="queue" title="No gangs yet" text="A queue appears here as soon as a gang names it." />;
  const scale = scales(rows);
  return (
    <div class="page" role="region" aria-label="Queues" tabIndex={0}>
      {queuesError.value ? (
        <p class="mistake" role="alert">
          {queueReports.value ? "The quotas are not up to date: " : "The quotas cannot be shown: "}
          {queuesError.value}
        </p>
      ) : null}
      <Tiles reports={reports} name={name} />
      <section class="panel">
        <div class="head">
          <h2>Queues</h2>
          <span class="muted">{unitName(name)} that gangs use and wait for</span>
          <span class="push muted nw hide">all on one scale</span>
        </div>
        <div class="qrow qcap" aria-hidden="true">
          <span>Queue</span>
          <span>{unitName(name)}</span>
          <span>Waiting, in order</span>
        </div>
        {rows.map((row, at) => (
          <Row key={`${at} ${row.name}`} row={row} scale={scale} />
        ))}
      </section>
    </div>
  );
}
