// The detail of a domain: its capacity, the gangs that could start in it, the gangs in it, and what is inside.

import { counted, gangsByNode, scarcest, titleOf, unitName, written } from "./data";
import { amount, largest, sizesOf, sumsOf } from "./figures";
import { Icon } from "./icons";
import { unitOf } from "./looks";
import { CopyLink, GangName, Section, Stack, Table } from "./parts";
import { phaseOf } from "./phases";
import { chosenResource, close, cluster, framed, gangs, openDomain, openGang, place, resource, SCARCEST, topology } from "./state";
import { nodesIn, pathKey, type Place } from "./tree";

/** The most rows of a table. */
const MOST_ROWS = 300;
const MOST_CLOSED = 4;

function closedOf(domain: Place): string {
  const closed = [...nodesIn(domain)].filter(({ name }) => cluster.value.nodes[name]?.open === false);
  if (!closed.length) return "all open";
  const told = closed.slice(0, MOST_CLOSED).map(({ name }) => `${name} ${cluster.value.nodes[name]?.unschedulable ? "cordoned" : "tainted or not ready"}`);
  const rest = closed.length - told.length;
  return `${closed.length} closed: ${told.join(", ")}${rest ? ` and ${rest} more` : ""}`;
}

function Starts({ domain }: { domain: Place }) {
  const name = resource.value;
  const sizes = sizesOf(domain, cluster.value, name);
  if (!sizes.length) return null;
  const levels = ["cluster", ...topology.value.levels.map((level) => level.name)].slice(domain.path.length);
  const rows = sizes.map((size) => {
    const best = largest(domain, cluster.value, name, size * unitOf(name));
    const cells = best.map(({ count, path }, depth) => (
      <>
        <b class="b">{count}</b>
        {depth && count ? <span class="muted"> in {path.at(-1)}</span> : null}
      </>
    ));
    // The narrowest level comes first: a narrow panel cuts off the last columns.
    return [counted(size, unitName(name)), ...cells.reverse()];
  });
  const depths = largest(domain, cluster.value, name, unitOf(name)).length;
  const titles = Array.from({ length: depths }, (_, at) => `One ${levels[at] ?? ""}`).reverse();
  return (
    <Section title="Pods that could start together now" note="without evictions">
      <Table caption="Pods that could start together now" titles={["Each pod", ...titles]} right={titles.map((_, at) => at + 1)} rows={rows} />
    </Section>
  );
}

function GangsHere({ domain }: { domain: Place }) {
  const inside = new Set([...nodesIn(domain)].map(({ name }) => name));
  const here = gangs.value
    .map((gang) => ({ gang, pods: gang.members.filter((member) => inside.has(member.node || member.nominatedNode || "")).length }))
    .filter(({ pods }) => pods)
    .sort((one, other) => other.pods - one.pods);
  return (
    <Section title="Gangs here" note={here.length ? String(here.length) : ""}>
      {here.slice(0, MOST_ROWS).map(({ gang, pods }) => {
        const phase = phaseOf(gang);
        return (
          <button key={titleOf(gang)} type="button" class="nr gang" onClick={() => openGang(gang)}>
            <Icon name={phase.icon} tone={phase.tone} />
            <span class="clip">
              <GangName namespace={gang.namespace} name={gang.name} />
            </span>
            <span class="muted nw">
              {pods} {pods === 1 ? "pod" : "pods"}
            </span>
          </button>
        );
      })}
      {here.length ? null : <p class="muted">None.</p>}
    </Section>
  );
}

/** The domains inside, each with a way into it. */
function Inside({ domain }: { domain: Place }) {
  const name = resource.value;
  const domains = (domain.inside ?? []).filter((each) => each.inside);
  const level = topology.value.levels[domain.path.length]?.name ?? "domain";
  const sums = sumsOf(domain, cluster.value, name);
  const text = (base: number): string => (base ? written(name, base) : "");
  const rows = domains.slice(0, MOST_ROWS).map((each) => {
    const sum = sums.get(pathKey(each.path));
    const button = (
      <button type="button" class="link" onClick={() => openDomain(each.path)}>
        {each.name}
      </button>
    );
    return [button, sum?.nodes ?? 0, written(name, sum?.free ?? 0), text(sum?.used ?? 0), text(sum?.reserved ?? 0), text(sum?.terminating ?? 0), sum?.closedNodes || ""];
  });
  const rest = domains.length - rows.length;
  return (
    <Section title="Inside" note={rest ? `the first ${MOST_ROWS} of ${domains.length}` : unitName(name)}>
      <Table caption={`Each ${level}`} titles={[level, "Nodes", "Free", "Used", "Reserved", "Terminating", "Closed"]} right={[1, 2, 3, 4, 5, 6]} rows={rows} />
    </Section>
  );
}

/** The nodes of a rack. */
function Nodes({ domain }: { domain: Place }) {
  const here = gangsByNode(gangs.value);
  const inside = [...nodesIn(domain)];
  const rows = inside.slice(0, MOST_ROWS).map(({ name }) => {
    const node = cluster.value.nodes[name];
    const shown = chosenResource.value === SCARCEST && node ? scarcest(node) : resource.value;
    const text = (base: number | undefined): string => (base ? written(shown, base) : "");
    const leaving = node?.leaving?.[shown] ?? 0;
    const state = !node ? "gone" : node.unschedulable ? "cordoned" : node.open === false ? "closed" : "open";
    const pods = `${node?.pods ?? 0}${node?.reserved ? ` and ${node.reserved} expected` : ""}`;
    const names = (here.get(name) ?? []).map(titleOf).join(", ");
    return [name, written(shown, Math.max(0, (node?.free[shown] ?? 0) - leaving)), text(node?.held?.[shown]), text(leaving), state, pods, names];
  });
  return (
    <Section title="Nodes" note={inside.length > rows.length ? `the first ${MOST_ROWS} of ${inside.length}` : unitName(resource.value)}>
      <Table caption="Nodes" titles={["Node", "Free", "Reserved", "Terminating", "State", "Pods", "Gangs"]} right={[1, 2, 3]} rows={rows} />
    </Section>
  );
}

export function DomainDetail() {
  const domain = place.value;
  const name = resource.value;
  const sums = sumsOf(domain, cluster.value, name).get(pathKey(domain.path));
  if (!sums) return null;
  const level = domain.path.length ? (topology.value.levels[domain.path.length - 1]?.name ?? "domain") : "cluster";
  const parts = [
    `${written(name, sums.free)} of ${amount(name, sums.all)} are free`,
    sums.reserved ? `${written(name, sums.reserved)} reserved` : "",
    sums.terminating ? `${written(name, sums.terminating)} terminating` : "",
  ];
  const deep = domain.inside?.some((each) => each.inside);
  return (
    <section class="panel area" id="detail" aria-label={`Domain ${domain.path.join(" / ") || domain.name}`}>
      <div class="hd">
        <div class="top">
          <button type="button" class="btn icon back" aria-label="Back to the gangs" onClick={close}>
            <Icon name="back" />
          </button>
          <span class="tag done plain">{level}</span>
          <h2 class="clip">
            <b>{domain.path.at(-1) ?? domain.name}</b>
          </h2>
          <div class="btns">
            <CopyLink />
            <button type="button" class="btn icon close" aria-label="Back to the whole cluster" title="Close (Esc)" onClick={close}>
              <Icon name="x" />
            </button>
          </div>
        </div>
        <p class="lead">{parts.filter((part) => part).join(", ")}.</p>
        <p class="muted">
          {sums.nodes.toLocaleString("en")} nodes, {closedOf(domain)}.{framed.value ? ` Node ${framed.value} is framed.` : ""}
        </p>
        <Stack sums={sums} label={(base) => written(name, base)} />
      </div>
      <div class="scroll" role="region" aria-label="Details" tabIndex={0}>
        <Starts domain={domain} />
        <GangsHere domain={domain} />
        {deep ? <Inside domain={domain} /> : <Nodes domain={domain} />}
      </div>
    </section>
  );
}

